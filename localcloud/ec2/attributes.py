"""ModifyInstanceAttribute: when each attribute may change, as on EC2."""

from __future__ import annotations

import base64
from typing import Any

from moto.core.responses import ActionResult, EmptyResult
from moto.core.types import Base64EncodedString
from moto.ec2.models.instances import Instance
from moto.ec2.responses import EC2Response

from localcloud.ec2 import catalogue
from localcloud.ec2.errors import Ec2Error
from localcloud.ec2.networks import interfaces

# parameter -> moto's attribute; the first group requires a stopped instance
_STOPPED = {"InstanceType": "instance_type", "UserData": "user_data", "EbsOptimized": "ebs_optimized"}
_ANY_TIME = {
    "DisableApiTermination": "disable_api_termination",
    "DisableApiStop": "disable_api_stop",
    "InstanceInitiatedShutdownBehavior": "instance_initiated_shutdown_behavior",
    "SourceDestCheck": "source_dest_check",
}
_SHUTDOWN = ("stop", "terminate")


class AttributeActions(EC2Response):
    def modify_instance_attribute(self) -> EmptyResult:
        instance = self.ec2_backend.get_instance(self._get_param("InstanceId"))
        name, value = self._chosen()
        _check_state(instance, name)
        if name == "BlockDeviceMappings":
            self._keep_volumes(instance, value)
        elif name == "Groups":
            self._regroup(instance, value)
        else:
            _check_value(instance, name, value)
            self.error_on_dryrun()
            setattr(instance, (_STOPPED | _ANY_TIME)[name], _user_data(value) if name == "UserData" else value)
        return EmptyResult()

    def _chosen(self) -> tuple[str, Any]:
        """The one attribute that a call may name, in either of the API's two forms."""
        given = {name: self.params[name]["Value"] for name in (*_STOPPED, *_ANY_TIME) if name in self.params}
        given |= {name: self.params[name] for name in ("BlockDeviceMappings", "Groups") if self.params.get(name)}
        if attribute := self.params.get("Attribute"):
            name, value = attribute[0].upper() + attribute[1:], self.params.get("Value")
            given[name] = str(value).lower() == "true" if str(value).lower() in ("true", "false") else value
        if len(given) > 1:
            raise Ec2Error("InvalidParameterCombination", "Fields for multiple attribute types specified")
        if not given:
            raise Ec2Error("InvalidParameterCombination", "No attributes specified.")
        return next(iter(given.items()))

    def _keep_volumes(self, instance: Instance, mappings: list[dict[str, Any]]) -> None:
        self.error_on_dryrun()
        for mapping in mappings:
            block = instance.block_device_mapping.get(mapping["DeviceName"])
            if block is None:
                raise Ec2Error(
                    "InvalidInstanceAttributeValue", f"No device is currently mapped at {mapping['DeviceName']}"
                )
            block.delete_on_termination = bool(mapping.get("Ebs", {}).get("DeleteOnTermination"))

    def _regroup(self, instance: Instance, group_ids: list[str]) -> None:
        self.error_on_dryrun()
        groups = [self.ec2_backend.get_security_group_from_id(group_id) for group_id in group_ids]
        if None in groups:
            missing = group_ids[groups.index(None)]
            raise Ec2Error("InvalidGroup.NotFound", f"The security group '{missing}' does not exist")
        instance.security_groups = groups
        instance.nics[0]._group_set = groups

    def describe_instance_attribute(self) -> ActionResult:
        attribute = self._get_param("Attribute")
        if attribute == "blockDeviceMapping":
            instance = self.ec2_backend.get_instance(self._get_param("InstanceId"))
            return ActionResult({"InstanceId": instance.id, "BlockDeviceMappings": instance.block_device_mappings})
        result: ActionResult = super().describe_instance_attribute()
        return result


def _check_state(instance: Instance, name: str) -> None:
    if name not in (*_STOPPED, *_ANY_TIME, "BlockDeviceMappings", "Groups"):
        raise Ec2Error(
            "InvalidParameterValue", f"Value ({name}) for parameter attribute is invalid. Unknown attribute."
        )
    if name in _STOPPED and instance.state != "stopped":
        raise Ec2Error("IncorrectInstanceState", f"The instance '{instance.id}' is not in the 'stopped' state.")


def _check_value(instance: Instance, name: str, value: Any) -> None:
    if name == "InstanceInitiatedShutdownBehavior" and value not in _SHUTDOWN:
        raise Ec2Error(
            "InvalidParameterValue",
            f"Value ({value}) for parameter instanceInitiatedShutdownBehavior is "
            f"invalid. Allowed values: {', '.join(_SHUTDOWN)}.",
        )
    if name == "InstanceType":
        if not catalogue.exists(value):
            raise Ec2Error("InvalidInstanceAttributeValue", f"The instance type '{value}' is not recognized.")
        interfaces.check(value, interfaces.described(instance))


def _user_data(value: Any) -> Base64EncodedString | None:
    """The value of a blob, which moto passes decoded or not."""
    if not value:
        return None
    if isinstance(value, Base64EncodedString):
        return value
    raw = value if isinstance(value, bytes) else str(value).encode()
    return Base64EncodedString(base64.b64encode(raw).decode())
