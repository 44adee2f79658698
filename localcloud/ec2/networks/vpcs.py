"""VPCs and their endpoints: AWS's refusals, and dependent resources that moto does not create, delete or change."""

from __future__ import annotations

import re
from typing import Any

from moto.core.responses import ActionResult
from moto.ec2.responses import EC2Response

from localcloud.ec2 import quotas
from localcloud.ec2.errors import Ec2Error
from localcloud.runtime import Runtime

GLOBAL_SERVICES = ("com.amazonaws.route53",)  # services whose name contains no region


def _is_true(value: Any) -> bool:
    return str(value).lower() == "true"


class VpcActions(EC2Response):
    runtime: Runtime

    def allocate_address(self) -> ActionResult:
        quotas.check_addresses(self.runtime.faults, self.ec2_backend)
        self.error_on_dryrun()
        result: ActionResult = super().allocate_address()
        return result

    def delete_vpc(self) -> ActionResult:
        vpc_id, backend = self._get_param("VpcId"), self.ec2_backend
        if any(gateway.vpc and gateway.vpc.id == vpc_id for gateway in backend.internet_gateways.values()):
            raise Ec2Error("DependencyViolation", f"The vpc '{vpc_id}' has dependencies and cannot be deleted.")
        result: ActionResult = super().delete_vpc()
        for acl in [acl for acl in backend.network_acls.values() if acl.vpc_id == vpc_id]:
            del backend.network_acls[acl.id]
        return result

    def describe_subnets(self) -> ActionResult:
        for each in self._get_param("Filters") or []:
            if each.get("Name") == "availabilityZoneId":  # the one alias of botocore's that moto lacks
                each["Name"] = "availability-zone-id"
        result: ActionResult = super().describe_subnets()
        return result

    def describe_vpc_block_public_access_options(self) -> ActionResult:
        """As in an account that has changed nothing."""
        options = {
            "AwsAccountId": self.current_account,
            "AwsRegion": self.region,
            "State": "default-state",
            "InternetGatewayBlockMode": "off",
            "ManagedBy": "account",
            "ExclusionsAllowed": "allowed",
        }
        return ActionResult({"VpcBlockPublicAccessOptions": options})

    def describe_vpc_block_public_access_exclusions(self) -> ActionResult:
        return ActionResult({"VpcBlockPublicAccessExclusions": []})

    def create_vpc_endpoint(self) -> ActionResult:
        interface = str(self._get_param("VpcEndpointType")).lower() == "interface"
        self._check_service(str(self._get_param("ServiceName")))
        if interface:
            self._check_interface()
        self.error_on_dryrun()
        result: ActionResult = super().create_vpc_endpoint()
        if interface:
            answer: Any = result.result
            self._settle(answer["VpcEndpoint"])
        return result

    def delete_vpc_endpoints(self) -> ActionResult:
        """Missing endpoints are reported in the answer, which moto does not do."""
        held = {name for name, each in self.ec2_backend.vpc_end_points.items() if each.state != "deleted"}
        missing = [name for name in self._get_param("VpcEndpointIds", []) if name not in held]
        result: ActionResult = super().delete_vpc_endpoints()
        answer: Any = result.result
        answer["Unsuccessful"] = [
            {"ResourceId": name, "Error": {"Code": "InvalidVpcEndpoint.NotFound",
                                           "Message": f"The Vpc Endpoint Id '{name}' does not exist"}}
            for name in missing
        ]  # fmt: skip
        return result

    def _check_service(self, name: str) -> None:
        region = self._get_param("ServiceRegion") or self.region
        if name not in GLOBAL_SERVICES and not re.fullmatch(rf"com\.amazonaws\.(vpce\.)?{region}\.[\w.-]+", name):
            raise Ec2Error("InvalidServiceName", f"The Vpc Endpoint Service '{name}' does not exist")

    def _check_interface(self) -> None:
        vpc, name = self.ec2_backend.get_vpc(self._get_param("VpcId")), self._get_param("ServiceName")
        if self.params.get("PrivateDnsEnabled") is False:
            return
        if not all(_is_true(value) for value in (vpc.enable_dns_support, vpc.enable_dns_hostnames)):
            raise Ec2Error(
                "InvalidParameter",
                "Enabling private DNS requires both enableDnsSupport and enableDnsHostnames VPC attributes set to true "
                f"for {vpc.id}",
            )
        for other in self.ec2_backend.vpc_end_points.values():
            taken = other.vpc_id == vpc.id and other.service_name == name and other.private_dns_enabled
            if taken and other.vpc_endpoint_type == "Interface" and other.state != "deleted":
                raise Ec2Error(
                    "InvalidParameter",
                    f"private-dns-enabled cannot be set because there is already a conflicting DNS domain for {name} "
                    f"in the VPC {vpc.id}",
                )

    def _settle(self, endpoint: Any) -> None:
        """Gives the interfaces addresses of their subnets, and the groups: moto chooses addresses at random."""
        for interface_id in endpoint.network_interface_ids:
            self.ec2_backend.enis.pop(interface_id, None)
        made = [
            self.ec2_backend.create_network_interface(
                subnet := self.ec2_backend.get_subnet(subnet_id),
                subnet.get_available_subnet_ip(instance=None),
                group_ids=list(endpoint.security_group_ids),
                description=f"VPC Endpoint Interface {endpoint.id}",
            )
            for subnet_id in endpoint.subnet_ids
        ]
        for interface in made:
            interface.status = "in-use"
        endpoint.network_interface_ids = [interface.id for interface in made]

    def modify_vpc_endpoint(self) -> ActionResult:
        endpoint = self.ec2_backend.vpc_end_points.get(self._get_param("VpcEndpointId"))
        before = set(endpoint.route_table_ids) if endpoint else set()
        result: ActionResult = super().modify_vpc_endpoint()
        if endpoint and str(endpoint.vpc_endpoint_type).lower() == "interface":
            self._settle(endpoint)
        if endpoint and endpoint.destination_prefix_list_id:
            prefix_list, after = endpoint.destination_prefix_list_id, set(endpoint.route_table_ids)
            for table in before - after:
                self.ec2_backend.delete_route(table, prefix_list)
            for table in after - before:
                self.ec2_backend.create_route(
                    table, None, gateway_id=endpoint.id, destination_prefix_list_id=prefix_list
                )
        return result
