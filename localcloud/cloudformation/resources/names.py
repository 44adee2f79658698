"""AWS::Route53."""

from __future__ import annotations

from typing import Any

from localcloud.cloudformation.errors import ResourceError
from localcloud.cloudformation.resources.registry import Call, Handler, Made, Properties, resource


@resource(
    "AWS::Route53::HostedZone", updatable="HostedZoneConfig HostedZoneTags VPCs", delete="route53 delete_hosted_zone Id"
)
class HostedZone(Handler):
    def create(self, call: Call, properties: Properties) -> Made:
        vpcs = properties.get("VPCs") or []
        config = {**(properties.get("HostedZoneConfig") or {}), "PrivateZone": bool(vpcs)}
        made = call.api(
            "route53",
            "create_hosted_zone",
            Name=properties["Name"],
            CallerReference=call.name(),
            HostedZoneConfig=config,
            VPC=vpcs[0] if vpcs else None,
        )
        zone_id = made["HostedZone"]["Id"].rsplit("/", 1)[-1]
        call.announce(zone_id)
        for vpc in vpcs[1:]:
            call.api("route53", "associate_vpc_with_hosted_zone", HostedZoneId=zone_id, VPC=vpc)
        return self._made(zone_id, made)

    def update(self, call: Call, physical_id: str, old: Properties, new: Properties) -> Made:
        before, after = old.get("VPCs") or [], new.get("VPCs") or []
        for vpc in after:
            if vpc not in before:
                call.api("route53", "associate_vpc_with_hosted_zone", HostedZoneId=physical_id, VPC=vpc)
        for vpc in before:
            if vpc not in after:
                call.api("route53", "disassociate_vpc_from_hosted_zone", HostedZoneId=physical_id, VPC=vpc)
        return self._made(physical_id, call.api("route53", "get_hosted_zone", Id=physical_id))

    def _made(self, zone_id: str, answer: Any) -> Made:
        servers = (answer.get("DelegationSet") or {}).get("NameServers", [])
        return Made(zone_id, {"Id": zone_id, "NameServers": servers})


@resource(
    "AWS::Route53::RecordSet",
    updatable="AliasTarget Comment Failover GeoLocation HealthCheckId MultiValueAnswer Region ResourceRecords TTL "
    "Type Weight",
)
class RecordSet(Handler):
    def create(self, call: Call, properties: Properties) -> Made:
        self._change(call, "CREATE", properties)
        return Made(properties["Name"])

    def update(self, call: Call, physical_id: str, old: Properties, new: Properties) -> Made:
        if old["Type"] != new["Type"]:
            self._change(call, "DELETE", old)
        self._change(call, "UPSERT", new)
        return Made(physical_id)

    def delete(self, call: Call, physical_id: str, properties: Properties) -> None:
        zone_id = self._zone_id(call, properties)
        if self._exists(call, zone_id, properties):
            self._change(call, "DELETE", properties)

    def _change(self, call: Call, action: str, properties: Properties) -> None:
        elsewhere = ("HostedZoneId", "HostedZoneName", "Comment", "ResourceRecords")
        record = {key: value for key, value in properties.items() if key not in elsewhere}
        if properties.get("ResourceRecords"):
            record["ResourceRecords"] = [{"Value": value} for value in properties["ResourceRecords"]]
        batch = {"Comment": properties.get("Comment", ""), "Changes": [{"Action": action, "ResourceRecordSet": record}]}
        zone_id = self._zone_id(call, properties)
        call.api("route53", "change_resource_record_sets", HostedZoneId=zone_id, ChangeBatch=batch)

    def _zone_id(self, call: Call, properties: Properties) -> str:
        if properties.get("HostedZoneId"):
            return str(properties["HostedZoneId"])
        name = str(properties.get("HostedZoneName", ""))
        found = call.api("route53", "list_hosted_zones_by_name", DNSName=name)["HostedZones"]
        matching = [zone["Id"].rsplit("/", 1)[-1] for zone in found if zone["Name"].rstrip(".") == name.rstrip(".")]
        if len(matching) != 1:
            raise ResourceError(f"found {len(matching)} hosted zones named {name}, expected one")
        return str(matching[0])

    def _exists(self, call: Call, zone_id: str, properties: Properties) -> bool:
        """If something else has removed it, there is nothing to delete."""
        name = properties["Name"].rstrip(".").lower()
        found = call.api("route53", "list_resource_record_sets", HostedZoneId=zone_id)["ResourceRecordSets"]
        return any(item["Name"].rstrip(".").lower() == name and item["Type"] == properties["Type"] for item in found)
