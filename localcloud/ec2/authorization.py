"""The actions, resources and condition keys of EC2 calls.

RunInstances and CreateFleet are checked for everything that they use (instance, volumes, interfaces, image, subnet,
security groups, launch template, placement group), with iam:PassRole for the instance profile's role and ec2:CreateTags
for the tags that they set. Terminate, volume, tag and endpoint actions are checked for the resources that they name,
with their tags. Describe actions are checked for `*`. The checks of EC2 Instance Connect are here, too.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from botocore.model import OperationModel
from moto.core.exceptions import ServiceException
from moto.core.parse import PROTOCOL_PARSERS
from moto.core.utils import get_service_model
from moto.ec2.models import EC2Backend, ec2_backends
from moto.ec2.utils import convert_tag_spec
from werkzeug.datastructures import Headers, MultiDict

from localcloud.clients import ACCOUNT_ID
from localcloud.ec2 import kept, launch, placement, reservations
from localcloud.identity import roles
from localcloud.identity.resources import Check, Keys, of_key
from localcloud.pace.hooks import Pace
from localcloud.protocol.calls import Call

_KINDS = {
    "i": "instance", "vol": "volume", "eni": "network-interface", "sg": "security-group", "subnet": "subnet",
    "vpc": "vpc", "lt": "launch-template", "eice": "instance-connect-endpoint", "pg": "placement-group",
    "snap": "snapshot", "ami": "image", "rtb": "route-table", "cr": "capacity-reservation",
}  # fmt: skip

# EC2's guide requires these for the key that encrypts an instance's volumes
_ENCRYPTED_LAUNCH = (
    "CreateGrant", "Decrypt", "DescribeKey", "GenerateDataKeyWithoutPlaintext", "ReEncryptFrom", "ReEncryptTo",
)  # fmt: skip


def checks(pace: Pace, call: Call) -> list[Check]:
    parameters = _parameters(call)
    backend: EC2Backend = ec2_backends[ACCOUNT_ID][call.region]
    if call.action == "RunInstances":
        return list(_run(pace, backend, parameters))
    if call.action == "CreateFleet":
        return list(_fleet(pace, backend, parameters))
    if call.action.startswith("Describe"):
        return [Check(f"ec2:{call.action}", "*")]
    return list(_named(pace, backend, call.action, parameters))


def instance_connect(pace: Pace, call: Call) -> Iterator[Check]:
    """Checks EC2 Instance Connect: OpenTunnel for the endpoint, the other actions for the instance."""
    backend: EC2Backend = ec2_backends[ACCOUNT_ID][call.region]
    if call.action == "OpenTunnel":
        resource_id = call.form.get("instanceConnectEndpointId", "")
        names = ("remotePort", "privateIpAddress", "maxTunnelDuration")
        keys: Keys = {f"ec2-instance-connect:{name}": (call.form[name],) for name in names if name in call.form}
    else:
        body = json.loads(call.body or b"{}")
        resource_id = str(body.get("InstanceId", ""))
        keys = {"ec2:osuser": (str(body.get("InstanceOSUser")),)}
    tags = _resource_tags(pace, backend, resource_id)
    yield Check(f"ec2-instance-connect:{call.action}", arn(backend, resource_id), keys | tags)


def _parameters(call: Call) -> dict[str, Any]:
    """The call's parameters in the API's structure."""
    operation: OperationModel = get_service_model("ec2").operation_model(call.action)
    parser = PROTOCOL_PARSERS["ec2"](operation)
    values: MultiDict[str, str] = MultiDict(call.form)
    parsed = parser.parse(
        {"method": "POST", "values": values, "headers": Headers(), "body": b"", "url_path": "/", "url_params": {}}
    )
    return dict(parsed)


def arn(backend: EC2Backend, resource_id: str) -> str:
    kind = _KINDS.get(resource_id.partition("-")[0], "*")
    return f"{_prefix(backend, kind)}:{kind}/{resource_id}"


def _prefix(backend: EC2Backend, kind: str) -> str:
    """ARNs of images and snapshots have no account."""
    account = "" if kind in ("image", "snapshot") else backend.account_id
    return f"arn:aws:ec2:{backend.region_name}:{account}"


def _resource_tags(pace: Pace, backend: EC2Backend, resource_id: str) -> Keys:
    ours = _kept_tags(kept.find(backend, resource_id))
    tags = pace.tags_in_policies(resource_id, dict(backend.tags.get(resource_id, {})))
    return ours | _tag_keys(tags)


def _kept_tags(record: kept.Record | None) -> Keys:
    return _tag_keys({tag["Key"]: tag.get("Value", "") for tag in (record or {}).get("Tags") or []})


def _tag_keys(tags: dict[str, str]) -> Keys:
    keys: Keys = {f"aws:ResourceTag/{key}": (value,) for key, value in tags.items()}
    return keys | {f"ec2:ResourceTag/{key}": (value,) for key, value in tags.items()}


def _request_tags(tags: dict[str, str]) -> Keys:
    keys: Keys = {f"aws:RequestTag/{key}": (value,) for key, value in tags.items()}
    return keys | ({"aws:TagKeys": tuple(tags)} if tags else {})


def _named(pace: Pace, backend: EC2Backend, action: str, parameters: dict[str, Any]) -> Iterator[Check]:
    """The resources whose ids are in the parameters. A tag's value may look like an id."""
    request_tags = {tag["Key"]: tag.get("Value", "") for tag in parameters.get("Tags") or []}
    named = {name: value for name, value in parameters.items() if name not in ("Tags", "TagSpecifications")}
    ids = [value for value in _strings(named) if value.partition("-")[0] in _KINDS and _is_id(value)]
    for resource_id in ids:
        yield Check(
            f"ec2:{action}",
            arn(backend, resource_id),
            _resource_tags(pace, backend, resource_id) | _request_tags(request_tags),
        )
    for volume_id in ids if action == "AttachVolume" else ():
        key_id = backend.volumes[volume_id].kms_key_id if volume_id in backend.volumes else None
        yield from of_key(backend.region_name, key_id, ("Decrypt", "CreateGrant"), via="ec2")
    for instance_id in ids if action == "StartInstances" else ():
        yield from _keys_of_disks(backend, instance_id)
    for kind, tags in convert_tag_spec(parameters.get("TagSpecifications") or []).items():
        made = f"{_prefix(backend, kind)}:{kind}/*"
        yield Check(f"ec2:{action}", made, _request_tags(tags))
        yield Check("ec2:CreateTags", made, _request_tags(tags) | {"ec2:CreateAction": (action,)})
    if not ids:
        yield Check(f"ec2:{action}", keys=_request_tags(request_tags))


def _keys_of_disks(backend: EC2Backend, instance_id: str) -> Iterator[Check]:
    """Who starts an instance with encrypted disks must be allowed to give EC2 a grant for their keys. EC2 accepts the
    call without that: https://repost.aws/knowledge-center/kms-iam-ec2-permission. CreateGrant alone is enough:
    aws-solutions/instance-scheduler-on-aws issue 9, ministryofjustice/modernisation-platform issue 2542."""
    instance = backend.get_instance_by_id(instance_id)
    blocks = [block for _, block in instance.get_block_device_mapping] if instance else []
    volumes = [backend.volumes[block.volume_id] for block in blocks if block.volume_id in backend.volumes]
    for key in sorted({volume.kms_key_id for volume in volumes if volume.kms_key_id}):
        for check in of_key(backend.region_name, key, ("CreateGrant",), via="ec2"):
            yield replace(check, late=True)


def _is_id(value: str) -> bool:
    rest = value.partition("-")[2]
    return 8 <= len(rest) <= 17 and all(character in "0123456789abcdef" for character in rest)


def _strings(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict):
        for inner in value.values():
            yield from _strings(inner)
    elif isinstance(value, list):
        for inner in value:
            yield from _strings(inner)


def _run(pace: Pace, backend: EC2Backend, parameters: dict[str, Any]) -> Iterator[Check]:
    try:
        request = launch.merged(backend, parameters)
        nics = launch.network_interfaces(backend, request)
    except ServiceException:
        return  # the call itself will report what is wrong with its template or subnet
    prefix = f"arn:aws:ec2:{backend.region_name}:{backend.account_id}"
    common = _launch_keys(backend, request, parameters)
    tags = convert_tag_spec(request.get("TagSpecifications") or [])
    own = _of_template(parameters)
    for kind in ("instance", "volume", "network-interface"):
        yield Check("ec2:RunInstances", f"{prefix}:{kind}/*", common | own | _request_tags(tags.get(kind, {})))
        if tags.get(kind):
            create = _request_tags(tags[kind]) | {"ec2:CreateAction": ("RunInstances",)}
            yield Check("ec2:CreateTags", f"{prefix}:{kind}/*", create)
    named = {request.get("ImageId")} | {nic["SubnetId"] for nic in nics}
    named |= {group for nic in nics for group in nic.get("Groups") or []}
    for resource_id in sorted(filter(None, named)):
        theirs = _of_template(parameters, resource_id.partition("-")[0])
        yield Check(
            "ec2:RunInstances", arn(backend, resource_id), common | theirs | _resource_tags(pace, backend, resource_id)
        )
    if template := common.get("ec2:LaunchTemplate"):
        template_tags = _resource_tags(pace, backend, template[0].rpartition("/")[2])
        yield Check("ec2:RunInstances", template[0], common | own | template_tags)
    if group_name := (request.get("Placement") or {}).get("GroupName"):
        tagged = _kept_tags(kept.of(backend, placement.GROUPS).get(group_name))
        theirs = _of_template(parameters, "pg")
        yield Check("ec2:RunInstances", f"{prefix}:placement-group/{group_name}", common | theirs | tagged)
    target = (request.get("CapacityReservationSpecification") or {}).get("CapacityReservationTarget") or {}
    if reservation_id := target.get("CapacityReservationId"):
        tagged = _kept_tags(kept.of(backend, reservations.RESERVATIONS).get(reservation_id))
        theirs = _of_template(parameters, "cr")
        yield Check("ec2:RunInstances", f"{prefix}:capacity-reservation/{reservation_id}", common | theirs | tagged)
    keys = {
        str((mapping.get("Ebs") or {}).get("KmsKeyId") or "") for mapping in request.get("BlockDeviceMappings") or []
    }
    for key in sorted(keys):
        yield from of_key(backend.region_name, key, _ENCRYPTED_LAUNCH, via="ec2")
    yield from _pass_role(request)


# The parameters of RunInstances by which a caller names another resource of a kind than the template's.
_OVERRIDES = {
    "ami": {"ImageId"},
    "subnet": {"SubnetId", "NetworkInterfaces"},
    "sg": {"SecurityGroupIds", "SecurityGroups", "NetworkInterfaces"},
    "pg": {"Placement"},
    "cr": {"CapacityReservationSpecification"},
}


def _of_template(parameters: dict[str, Any], kind: str = "") -> Keys:
    """Whether the resource is the template's. The key is about resources alone: other values may differ from the
    template's, see
    https://docs.aws.amazon.com/AWSEC2/latest/UserGuide/use-launch-templates-to-control-launching-instances.html."""
    theirs = "LaunchTemplate" in parameters and not set(parameters) & _OVERRIDES.get(kind, set())
    return {"ec2:IsLaunchTemplateResource": (str(theirs).lower(),)}


def _launch_keys(backend: EC2Backend, request: dict[str, Any], parameters: dict[str, Any]) -> Keys:
    keys: Keys = {"ec2:InstanceType": (str(request.get("InstanceType")),)}
    if chosen := parameters.get("LaunchTemplate"):
        template = launch.template_version(backend, chosen).template
        keys["ec2:LaunchTemplate"] = (arn(backend, template.id),)
    if profile_arn := _profile_arn(request):
        keys["ec2:InstanceProfile"] = (profile_arn,)
    # Of the request, not of its template: https://github.com/aws/karpenter-provider-aws/pull/9256.
    tokens = (parameters.get("MetadataOptions") or {}).get("HttpTokens")
    return keys | ({"ec2:MetadataHttpTokens": (tokens,)} if tokens else {})


def _profile(request: dict[str, Any]) -> Any:
    chosen = request.get("IamInstanceProfile") or {}
    for profile in roles.iam().instance_profiles.values():
        if profile.arn == chosen.get("Arn") or profile.name == chosen.get("Name"):
            return profile
    return None


def _profile_arn(request: dict[str, Any]) -> str | None:
    profile = _profile(request)
    return profile.arn if profile else (request.get("IamInstanceProfile") or {}).get("Arn")


def _pass_role(request: dict[str, Any]) -> Iterator[Check]:
    profile = _profile(request)
    for role in profile.roles if profile else ():
        yield Check("iam:PassRole", role.arn, {"iam:PassedToService": ("ec2.amazonaws.com",)})


def _fleet(pace: Pace, backend: EC2Backend, parameters: dict[str, Any]) -> Iterator[Check]:
    """CreateFleet itself, and each launch that it may make."""
    specs = {spec["ResourceType"]: spec.get("Tags") or [] for spec in parameters.get("TagSpecifications") or []}
    fleet_tags = {tag["Key"]: tag.get("Value", "") for tag in specs.get("fleet", [])}
    fleets = f"arn:aws:ec2:{backend.region_name}:{backend.account_id}:fleet/*"
    yield Check("ec2:CreateFleet", fleets, _request_tags(fleet_tags))
    instance_specs = [s for s in parameters.get("TagSpecifications") or [] if s["ResourceType"] != "fleet"]
    for config in parameters.get("LaunchTemplateConfigs") or []:
        for override in config.get("Overrides") or [{}]:
            request = {"LaunchTemplate": config["LaunchTemplateSpecification"], "TagSpecifications": instance_specs}
            if override.get("InstanceType"):
                request["InstanceType"] = override["InstanceType"]
            yield from _run(pace, backend, request)
