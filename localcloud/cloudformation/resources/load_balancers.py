"""AWS::ElasticLoadBalancingV2: load balancers, target groups and listeners."""

from __future__ import annotations

from typing import Any

from localcloud.cloudformation.resources.registry import (
    Call,
    Handler,
    Made,
    Properties,
    change_tags,
    only,
    resource,
    tag_list,
    without,
)

_HEALTH = (
    "HealthCheckEnabled", "HealthCheckIntervalSeconds", "HealthCheckPath", "HealthCheckPort", "HealthCheckProtocol",
    "HealthCheckTimeoutSeconds", "HealthyThresholdCount", "Matcher", "UnhealthyThresholdCount",
)  # fmt: skip


def _retag(call: Call, arn: str, old: Properties, new: Properties) -> None:
    change_tags(call, "elbv2", "remove_tags", "add_tags", old, new, ResourceArns=[arn])


@resource(
    "AWS::ElasticLoadBalancingV2::LoadBalancer",
    updatable="EnforceSecurityGroupInboundRulesOnPrivateLinkTraffic IpAddressType LoadBalancerAttributes "
    "MinimumLoadBalancerCapacity SecurityGroups SubnetMappings Subnets Tags",
    delete="elbv2 delete_load_balancer LoadBalancerArn",
)
class LoadBalancer(Handler):
    def create(self, call: Call, properties: Properties) -> Made:
        given = {"Name": call.name(32), **without(properties, "LoadBalancerAttributes", "Tags")}
        tags = tag_list(call, properties) or None
        made = call.api("elbv2", "create_load_balancer", given, Tags=tags)["LoadBalancers"][0]
        arn = made["LoadBalancerArn"]
        call.announce(arn)
        self._set_attributes(call, arn, properties)
        call.wait(lambda: self._find(call, arn)["State"]["Code"] == "active", f"{arn} active")
        return self._made(call, arn)

    def update(self, call: Call, physical_id: str, old: Properties, new: Properties) -> Made:
        if old.get("SecurityGroups") != new.get("SecurityGroups"):
            groups = new.get("SecurityGroups") or []
            call.api("elbv2", "set_security_groups", LoadBalancerArn=physical_id, SecurityGroups=groups)
        if only(old, "Subnets", "SubnetMappings") != (places := only(new, "Subnets", "SubnetMappings")):
            call.api("elbv2", "set_subnets", places, LoadBalancerArn=physical_id)
        if old.get("IpAddressType") != new.get("IpAddressType"):
            kind = new.get("IpAddressType", "ipv4")
            call.api("elbv2", "set_ip_address_type", LoadBalancerArn=physical_id, IpAddressType=kind)
        self._set_attributes(call, physical_id, new)
        _retag(call, physical_id, old, new)
        return self._made(call, physical_id)

    def _set_attributes(self, call: Call, arn: str, properties: Properties) -> None:
        if attributes := properties.get("LoadBalancerAttributes"):
            call.api("elbv2", "modify_load_balancer_attributes", LoadBalancerArn=arn, Attributes=attributes)

    def _find(self, call: Call, arn: str) -> Any:
        return call.api("elbv2", "describe_load_balancers", LoadBalancerArns=[arn])["LoadBalancers"][0]

    def _made(self, call: Call, arn: str) -> Made:
        balancer = self._find(call, arn)
        attributes = {
            "LoadBalancerArn": arn,
            "LoadBalancerFullName": arn.partition(":loadbalancer/")[2],
            "LoadBalancerName": balancer["LoadBalancerName"],
            "DNSName": balancer["DNSName"],
            "CanonicalHostedZoneID": balancer.get("CanonicalHostedZoneId", ""),
            "SecurityGroups": balancer.get("SecurityGroups", []),
        }
        return Made(arn, attributes)


@resource(
    "AWS::ElasticLoadBalancingV2::TargetGroup",
    updatable=f"{' '.join(_HEALTH)} Tags TargetGroupAttributes Targets",
    delete="elbv2 delete_target_group TargetGroupArn",
)
class TargetGroup(Handler):
    def create(self, call: Call, properties: Properties) -> Made:
        given = {"Name": call.name(32), **without(properties, "TargetGroupAttributes", "Tags", "Targets")}
        tags = tag_list(call, properties) or None
        made = call.api("elbv2", "create_target_group", given, Tags=tags)["TargetGroups"][0]
        arn = made["TargetGroupArn"]
        call.announce(arn)
        self._set_attributes(call, arn, properties)
        if targets := properties.get("Targets"):
            call.api("elbv2", "register_targets", TargetGroupArn=arn, Targets=targets)
        return self._made(call, arn)

    def update(self, call: Call, physical_id: str, old: Properties, new: Properties) -> Made:
        if only(old, *_HEALTH) != only(new, *_HEALTH):
            call.api("elbv2", "modify_target_group", only(new, *_HEALTH), TargetGroupArn=physical_id)
        self._set_attributes(call, physical_id, new)
        before, after = old.get("Targets") or [], new.get("Targets") or []
        for method, targets in (
            ("deregister_targets", [target for target in before if target not in after]),
            ("register_targets", [target for target in after if target not in before]),
        ):
            if targets:
                call.api("elbv2", method, TargetGroupArn=physical_id, Targets=targets)
        _retag(call, physical_id, old, new)
        return self._made(call, physical_id)

    def _set_attributes(self, call: Call, arn: str, properties: Properties) -> None:
        if attributes := properties.get("TargetGroupAttributes"):
            call.api("elbv2", "modify_target_group_attributes", TargetGroupArn=arn, Attributes=attributes)

    def _made(self, call: Call, arn: str) -> Made:
        group = call.api("elbv2", "describe_target_groups", TargetGroupArns=[arn])["TargetGroups"][0]
        attributes = {
            "TargetGroupArn": arn,
            "TargetGroupFullName": arn.rpartition(":")[2],
            "TargetGroupName": group["TargetGroupName"],
            "LoadBalancerArns": group.get("LoadBalancerArns", []),
        }
        return Made(arn, attributes)


@resource(
    "AWS::ElasticLoadBalancingV2::Listener",
    updatable="AlpnPolicy Certificates DefaultActions ListenerAttributes MutualAuthentication Port Protocol SslPolicy "
    "Tags",
    delete="elbv2 delete_listener ListenerArn",
)
class Listener(Handler):
    def create(self, call: Call, properties: Properties) -> Made:
        given = without(properties, "ListenerAttributes", "Tags")
        made = call.api("elbv2", "create_listener", given, Tags=tag_list(call, properties) or None)["Listeners"][0]
        arn = made["ListenerArn"]
        call.announce(arn)
        self._set_attributes(call, arn, properties)
        return Made(arn, {"ListenerArn": arn})

    def update(self, call: Call, physical_id: str, old: Properties, new: Properties) -> Made:
        plain = ("ListenerAttributes", "LoadBalancerArn", "Tags")
        if without(old, *plain) != without(new, *plain):
            call.api("elbv2", "modify_listener", without(new, *plain), ListenerArn=physical_id)
        self._set_attributes(call, physical_id, new)
        _retag(call, physical_id, old, new)
        return Made(physical_id, {"ListenerArn": physical_id})

    def _set_attributes(self, call: Call, arn: str, properties: Properties) -> None:
        if attributes := properties.get("ListenerAttributes"):
            call.api("elbv2", "modify_listener_attributes", ListenerArn=arn, Attributes=attributes)
