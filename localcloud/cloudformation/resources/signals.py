"""AWS::CloudFormation::WaitCondition and its handle; AWS::CDK::Metadata, which creates nothing."""

from __future__ import annotations

from localcloud.cloudformation.errors import CancelledError, ResourceError
from localcloud.cloudformation.resources.registry import Call, Handler, Made, Properties, resource
from localcloud.cloudformation.waits import WAITS


@resource("AWS::CloudFormation::WaitConditionHandle")
class WaitConditionHandle(Handler):
    def create(self, call: Call, properties: Properties) -> Made:
        return Made(WAITS.new_url())

    def delete(self, call: Call, physical_id: str, properties: Properties) -> None:
        WAITS.forget(physical_id)


@resource("AWS::CloudFormation::WaitCondition", updatable="Count Handle Timeout")
class WaitCondition(Handler):
    """CloudFormation does not update wait conditions; it refuses every change of properties."""

    def create(self, call: Call, properties: Properties) -> Made:
        if not properties.get("Handle"):
            return Made(call.name(), {"Data": "{}"})
        count, timeout_s = int(properties.get("Count", 1)), float(properties["Timeout"])
        if not 0 <= timeout_s <= 43200:
            raise ResourceError(f"Timeout must be from 0 to 43200 seconds, got {timeout_s:g}")
        data = WAITS.wait(str(properties["Handle"]), count, timeout_s, call.cancelled)
        if data is None:
            raise CancelledError("Resource creation cancelled")
        return Made(f"{call.stack_id}/{call.logical_id}/{properties['Handle']}", {"Data": data})


@resource("AWS::CDK::Metadata", updatable="Analytics")
class CdkMetadata(Handler):
    def create(self, call: Call, properties: Properties) -> Made:
        return Made(call.name())

    def update(self, call: Call, physical_id: str, old: Properties, new: Properties) -> Made:
        return Made(physical_id)
