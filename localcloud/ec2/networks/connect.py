"""EC2 Instance Connect Endpoints, which moto lacks."""

from __future__ import annotations

import secrets
from typing import Any

from moto.core.responses import ActionResult
from moto.core.utils import utcnow
from moto.ec2.models import EC2Backend
from moto.ec2.responses import EC2Response

from localcloud.ec2 import kept
from localcloud.ec2.errors import Ec2Error
from localcloud.runtime import Runtime

_ENDPOINTS = "instance connect endpoints"


def endpoints(backend: EC2Backend) -> dict[str, kept.Record]:
    return kept.of(backend, _ENDPOINTS)


def _get(backend: EC2Backend, endpoint_id: str) -> kept.Record:
    found = endpoints(backend).get(endpoint_id)
    if found is None:
        raise Ec2Error(
            "InvalidInstanceConnectEndpointId.NotFound",
            f"The instanceConnectEndpoint ID '{endpoint_id}' does not exist",
        )
    return found


class ConnectEndpointActions(EC2Response):
    runtime: Runtime

    def create_instance_connect_endpoint(self) -> ActionResult:
        subnet = self.ec2_backend.get_subnet(self._get_param("SubnetId"))
        if any(e["VpcId"] == subnet.vpc_id for e in endpoints(self.ec2_backend).values()):
            raise Ec2Error(
                "InstanceConnectEndpointLimitExceeded",
                f"You have reached the limit of 1 EC2 Instance Connect Endpoint for VPC {subnet.vpc_id}",
            )
        self.error_on_dryrun()
        endpoint_id = f"eice-{secrets.token_hex(8)}0"
        record = self._record(endpoint_id, subnet)
        endpoints(self.ec2_backend)[endpoint_id] = record
        return ActionResult({"InstanceConnectEndpoint": record, "ClientToken": self._get_param("ClientToken")})

    def _record(self, endpoint_id: str, subnet: Any) -> kept.Record:
        arn = f"arn:aws:ec2:{self.region}:{self.current_account}:instance-connect-endpoint/{endpoint_id}"
        return {
            "OwnerId": self.current_account,
            "InstanceConnectEndpointId": endpoint_id,
            "InstanceConnectEndpointArn": arn,
            "State": "create-complete",
            "StateMessage": "",
            "DnsName": self.runtime.tunnel_address,
            "FipsDnsName": "",
            "NetworkInterfaceIds": [],
            "VpcId": subnet.vpc_id,
            "AvailabilityZone": subnet.availability_zone,
            "CreatedAt": utcnow(),
            "SubnetId": subnet.id,
            "PreserveClientIp": self._get_param("PreserveClientIp") or False,
            "SecurityGroupIds": self._get_param("SecurityGroupIds") or [],
            "Tags": kept.tags(self, "instance-connect-endpoint"),
        }

    def describe_instance_connect_endpoints(self) -> ActionResult:
        ids = self._get_param("InstanceConnectEndpointIds") or []
        records = [_get(self.ec2_backend, i) for i in ids] or list(endpoints(self.ec2_backend).values())
        return ActionResult({"InstanceConnectEndpoints": kept.filtered(records, self._filters_from_querystring())})

    def delete_instance_connect_endpoint(self) -> ActionResult:
        record = _get(self.ec2_backend, self._get_param("InstanceConnectEndpointId"))
        self.error_on_dryrun()
        del endpoints(self.ec2_backend)[record["InstanceConnectEndpointId"]]
        return ActionResult({"InstanceConnectEndpoint": record | {"State": "delete-complete"}})
