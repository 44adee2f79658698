"""Corrections and additions to moto's other services. They are installed once, before the cloud serves requests."""

from __future__ import annotations

import json
import secrets
from typing import Any

import moto.cloudtrail.urls
import moto.dynamodb.urls
import moto.ec2instanceconnect.urls
import moto.efs.urls
import moto.fsx.urls
import moto.route53.urls
from moto.cloudtrail.responses import CloudTrailResponse
from moto.core.exceptions import JsonRESTError
from moto.core.responses import ActionResult
from moto.dynamodb.responses import DynamoHandler
from moto.ec2instanceconnect.responses import Ec2InstanceConnectResponse
from moto.iam.access_control import IAMPolicy, PermissionResult
from moto.route53.responses import Route53
from moto.s3.models import FakeBucket

from localcloud.databases import rds
from localcloud.ec2 import lifecycle
from localcloud.filesystems.contents import Contents
from localcloud.filesystems.efs import Efs
from localcloud.filesystems.fsx import Fsx
from localcloud.identity.ssh_keys import PushedKeys
from localcloud.runtime import Runtime, bound
from localcloud.services import budgets, cost_tags, service_quotas
from localcloud.training import service as training
from localcloud.training.site import Site
from localcloud.validation.refusal import Refusal


def install(runtime: Runtime, pushed_keys: PushedKeys, contents: Contents | None, site: Site) -> None:
    """`contents`: of FSx's and EFS's file systems; None if no machine boots, because then nothing can read files."""
    budgets.install()
    service_quotas.install(runtime.faults)
    cost_tags.install()
    rds.install(runtime)
    training.install(site)
    moto.cloudtrail.urls.url_paths["{0}/$"] = CloudTrail.dispatch
    moto.dynamodb.urls.url_paths["{0}/"] = Tables.dispatch
    moto.ec2instanceconnect.urls.url_paths["{0}/$"] = bound(InstanceConnect, pushed_keys=pushed_keys).dispatch
    moto.fsx.urls.url_paths["{0}/$"] = bound(Fsx, contents=contents).dispatch
    for path, handler in list(moto.route53.urls.url_paths.items()):
        if handler == Route53.dispatch:
            moto.route53.urls.url_paths[path] = PrivateZones.dispatch
    efs = bound(Efs, contents=contents)
    for path in moto.efs.urls.url_paths:
        moto.efs.urls.url_paths[path] = efs.dispatch
    FakeBucket.get_permission = _bucket_permission  # type: ignore[method-assign, assignment]


class CloudTrail(CloudTrailResponse):
    def lookup_events(self) -> str:
        """The CDK CLI makes this call after a failed deployment, and would retry a failed call for 25 s."""
        return json.dumps({"Events": []})


class Tables(DynamoHandler):
    def create_table(self) -> ActionResult:
        """The answer shows CREATING, as on AWS; the next describe call shows ACTIVE."""
        result = super().create_table()
        answer: Any = result.result
        answer["TableDescription"]["TableStatus"] = "CREATING"
        return result


class InstanceConnect(Ec2InstanceConnectResponse):
    pushed_keys: PushedKeys

    def send_ssh_public_key(self) -> str:
        request = json.loads(self.body)
        instance = lifecycle.find(request["InstanceId"])
        if instance is None:
            raise JsonRESTError("EC2InstanceNotFoundException", f"Instance {request['InstanceId']} not found")
        if instance.state != "running":
            raise JsonRESTError(
                "EC2InstanceStateInvalidException", f"Instance {instance.id} is {instance.state}, not running"
            )
        self.pushed_keys.push(instance.id, request["InstanceOSUser"], request["SSHPublicKey"])
        return json.dumps({"RequestId": secrets.token_hex(16), "Success": True})


class PrivateZones(Route53):
    _changes: set[str] = set()

    def change_resource_record_sets(self) -> ActionResult:
        return self._pending(super().change_resource_record_sets())

    def _pending(self, result: ActionResult) -> ActionResult:
        """The answer shows the change as PENDING; the next GetChange shows INSYNC."""
        answer: Any = result.result
        change_id = "C" + secrets.token_hex(10).upper()
        self._changes.add(change_id)
        answer["ChangeInfo"] |= {"Id": f"/change/{change_id}", "Status": "PENDING"}
        return result

    def get_change(self) -> ActionResult:
        change_id = str(self._get_param("Id")).rpartition("/")[2]
        if change_id not in self._changes:
            raise Refusal("NoSuchChange", f"Could not find resource with ID: {change_id}", 404)
        return super().get_change()

    def create_hosted_zone(self) -> ActionResult:
        """A zone created with a VPC is private, whether or not HostedZoneConfig says so."""
        if self._get_param("VPC.VPCId"):
            config: dict[str, Any] = dict(self.params.get("HostedZoneConfig") or {})
            self.params["HostedZoneConfig"] = config | {"PrivateZone": True}
        return self._pending(super().create_hosted_zone())

    def delete_hosted_zone(self) -> ActionResult:
        return self._pending(super().delete_hosted_zone())

    def associate_vpc_with_hosted_zone(self) -> ActionResult:
        return self._pending(super().associate_vpc_with_hosted_zone())

    def disassociate_vpc_from_hosted_zone(self) -> ActionResult:
        return self._pending(super().disassociate_vpc_from_hosted_zone())


def _bucket_permission(bucket: FakeBucket, action: str, resource: str) -> Any:
    """Leaves out statements that require TLS: moto ignores their condition and would deny everything."""
    if bucket.policy is None:
        return PermissionResult.NEUTRAL
    document = json.loads(bucket.policy.decode())
    statements = document["Statement"] if isinstance(document["Statement"], list) else [document["Statement"]]
    kept = [s for s in statements if "aws:SecureTransport" not in json.dumps(s.get("Condition", {}))]
    if not kept:
        return PermissionResult.NEUTRAL
    return IAMPolicy(json.dumps(document | {"Statement": kept})).is_action_permitted(action, resource)
