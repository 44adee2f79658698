"""Tags of EC2's requests: https://docs.aws.amazon.com/AWSEC2/latest/UserGuide/Using_Tags.html#tag-restrictions"""

from __future__ import annotations

from typing import Any

from moto.ec2.models import EC2Backend

from localcloud.ec2 import kept
from localcloud.validation.refusal import Refusal

MOST = 50
_KEY_LENGTH, _VALUE_LENGTH = 128, 256
_RESERVED = "aws:"


# The resource types that each action creates and can tag: https://docs.aws.amazon.com/AWSEC2/latest/UserGuide/supported-iam-actions-tagging.html
LAUNCHED = ("instance", "volume", "network-interface", "spot-instances-request", "elastic-gpu")
_MADE: dict[str, tuple[str, ...]] = {
    "RunInstances": LAUNCHED,
    "CreateFleet": ("fleet", *LAUNCHED),
    "CreateVpc": ("vpc",), "CreateSubnet": ("subnet",), "CreateRouteTable": ("route-table",),
    "CreateInternetGateway": ("internet-gateway",), "CreateNatGateway": ("natgateway",),
    "CreateNetworkInterface": ("network-interface",), "CreateSecurityGroup": ("security-group",),
    "CreateVpcEndpoint": ("vpc-endpoint",), "AllocateAddress": ("elastic-ip",), "CreateVolume": ("volume",),
    "CreateSnapshot": ("snapshot",), "CopySnapshot": ("snapshot",), "CreateImage": ("image", "snapshot"),
    "CopyImage": ("image", "snapshot"), "CreateKeyPair": ("key-pair",), "ImportKeyPair": ("key-pair",),
    "CreateLaunchTemplate": ("launch-template",), "CreatePlacementGroup": ("placement-group",),
    "CreateCapacityReservation": ("capacity-reservation",), "PurchaseCapacityBlock": ("capacity-reservation",),
    "CreateFlowLogs": ("vpc-flow-log",), "CreateDhcpOptions": ("dhcp-options",), "CreateNetworkAcl": ("network-acl",),
    "CreateInstanceConnectEndpoint": ("instance-connect-endpoint",),
    "AuthorizeSecurityGroupIngress": ("security-group-rule",),
    "AuthorizeSecurityGroupEgress": ("security-group-rule",),
}  # fmt: skip


def _check_kinds(action: str, kinds: list[str]) -> None:
    for kind in kinds:
        if kind and kind not in _MADE.get(action, (kind,)):
            raise Refusal(
                "InvalidParameterValue", f"'{kind}' is not a valid taggable resource type for this operation."
            )
        if kinds.count(kind) > 1:
            raise Refusal("InvalidParameterValue", f"The resource type '{kind}' has more than one tag specification.")


def check(backend: EC2Backend, action: str, parameters: dict[str, Any]) -> None:
    specifications = parameters.get("TagSpecifications") or []
    _check_kinds(action, [str(each.get("ResourceType") or "") for each in specifications])
    for specification in specifications:
        if specification.get("Tags"):
            if not specification.get("ResourceType"):
                raise Refusal("MissingParameter", "Tag specification must have resource type and at least one tag")
            check_list(specification["Tags"])
    if action in ("CreateTags", "DeleteTags"):
        tags = parameters.get("Tags") or []
        if action == "CreateTags" and not tags:
            raise Refusal("MissingParameter", "The request must contain the parameter Tags")
        check_list(tags)
        for resource_id in parameters.get("Resources") or []:
            if action == "CreateTags":
                _check_count(backend, resource_id, tags)


def check_list(tags: list[dict[str, Any]]) -> None:
    keys = [str(tag.get("Key") or "") for tag in tags]
    for tag, key in zip(tags, keys, strict=True):
        _check_one(key, str(tag.get("Value") or ""))
    if doubled := next((key for key in keys if keys.count(key) > 1), None):
        raise Refusal("InvalidParameterValue", f"Duplicate tag key '{doubled}' specified.")
    if len(keys) > MOST:
        raise _too_many()


def _check_one(key: str, value: str) -> None:
    if not key:
        raise Refusal("InvalidParameterValue", "Tag key cannot be empty or null.")
    if key.lower().startswith(_RESERVED):
        raise Refusal("InvalidParameterValue", f"Tag keys starting with '{_RESERVED}' are reserved for internal use")
    if len(key) > _KEY_LENGTH:
        raise Refusal("InvalidParameterValue", f"Tag key exceeds the maximum length of {_KEY_LENGTH} characters")
    if len(value) > _VALUE_LENGTH:
        raise Refusal("InvalidParameterValue", f"Tag value exceeds the maximum length of {_VALUE_LENGTH} characters")


def _check_count(backend: EC2Backend, resource_id: str, tags: list[dict[str, Any]]) -> None:
    record = kept.find(backend, resource_id)
    held = {tag["Key"] for tag in (record or {}).get("Tags") or []} or set(backend.tags.get(resource_id) or ())
    own = {key for key in held | {str(tag.get("Key")) for tag in tags} if not key.startswith(_RESERVED)}
    if len(own) > MOST:
        raise _too_many()


def _too_many() -> Refusal:
    return Refusal("TagLimitExceeded", f"The maximum number of Tags for a resource has been reached: {MOST}.")
