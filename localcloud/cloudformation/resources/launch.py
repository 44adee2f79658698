"""AWS::EC2: launch templates, placement groups, the connect endpoint."""

from __future__ import annotations

from typing import Any

from localcloud.cloudformation.errors import ResourceError
from localcloud.cloudformation.resources.ec2 import retag, tag_specifications
from localcloud.cloudformation.resources.registry import (
    Call,
    Handler,
    Made,
    Properties,
    only,
    resource,
    without,
)


@resource(
    "AWS::EC2::LaunchTemplate",
    updatable="LaunchTemplateData VersionDescription TagSpecifications",
    moving="LatestVersionNumber",
    delete="ec2 delete_launch_template LaunchTemplateId",
)
class LaunchTemplate(Handler):
    def create(self, call: Call, properties: Properties) -> Made:
        given = {"LaunchTemplateName": call.name(128), **properties}
        template = call.api("ec2", "create_launch_template", given)["LaunchTemplate"]
        return self._made(template)

    def update(self, call: Call, physical_id: str, old: Properties, new: Properties) -> Made:
        changed = only(new, "LaunchTemplateData", "VersionDescription")
        if changed != only(old, "LaunchTemplateData", "VersionDescription"):
            call.api("ec2", "create_launch_template_version", changed, LaunchTemplateId=physical_id)
        found = call.api("ec2", "describe_launch_templates", LaunchTemplateIds=[physical_id])["LaunchTemplates"]
        return self._made(found[0])

    def _made(self, template: Any) -> Made:
        attributes = {
            "LaunchTemplateId": template["LaunchTemplateId"],
            "LatestVersionNumber": str(template["LatestVersionNumber"]),
            "DefaultVersionNumber": str(template["DefaultVersionNumber"]),
        }
        return Made(template["LaunchTemplateId"], attributes)


@resource("AWS::EC2::PlacementGroup", delete="ec2 delete_placement_group GroupName")
class PlacementGroup(Handler):
    def create(self, call: Call, properties: Properties) -> Made:
        name = properties.get("GroupName") or call.name(255)
        given = {"Strategy": "cluster", **without(properties, "Tags")}
        specifications = tag_specifications(call, properties, "placement-group")
        call.api("ec2", "create_placement_group", given, GroupName=name, TagSpecifications=specifications)
        return Made(name, {"GroupName": name})


@resource("AWS::EC2::InstanceConnectEndpoint", updatable="Tags")
class InstanceConnectEndpoint(Handler):
    def create(self, call: Call, properties: Properties) -> Made:
        given = without(properties, "Tags")
        specifications = tag_specifications(call, properties, "instance-connect-endpoint")
        made = call.api("ec2", "create_instance_connect_endpoint", given, TagSpecifications=specifications)
        endpoint_id = made["InstanceConnectEndpoint"]["InstanceConnectEndpointId"]
        call.announce(endpoint_id)
        call.wait(lambda: self._complete(call, endpoint_id), f"{endpoint_id} becoming ready")
        return self._made(call, endpoint_id)

    def update(self, call: Call, physical_id: str, old: Properties, new: Properties) -> Made:
        retag(call, physical_id, old, new)
        return self._made(call, physical_id)

    def delete(self, call: Call, physical_id: str, properties: Properties) -> None:
        call.api("ec2", "delete_instance_connect_endpoint", InstanceConnectEndpointId=physical_id)
        call.wait(lambda: self._find(call, physical_id) is None, f"{physical_id} going away")

    def _complete(self, call: Call, endpoint_id: str) -> bool:
        endpoint = self._find(call, endpoint_id) or {"State": "create-failed", "StateMessage": "it is gone"}
        if endpoint["State"] == "create-failed":
            raise ResourceError(f"{endpoint_id} failed: {endpoint.get('StateMessage', 'no reason given')}")
        return str(endpoint["State"]) == "create-complete"

    def _find(self, call: Call, endpoint_id: str) -> Any | None:
        found = call.if_there("ec2", "describe_instance_connect_endpoints", InstanceConnectEndpointIds=[endpoint_id])
        live = [item for item in found.get("InstanceConnectEndpoints", ()) if item["State"] != "delete-complete"]
        return live[0] if live else None

    def _made(self, call: Call, endpoint_id: str) -> Made:
        endpoint = self._find(call, endpoint_id) or {}
        names = ("InstanceConnectEndpointId", "InstanceConnectEndpointArn", "AvailabilityZone", "VpcId", "State")
        attributes = {"Id": endpoint_id, **{name: str(endpoint.get(name, "")) for name in names}}
        return Made(endpoint_id, attributes)
