"""VPCs and gateway endpoints: what AWS refuses to delete, and what goes or moves along, which moto leaves."""

from __future__ import annotations

from moto.core.responses import ActionResult
from moto.ec2.responses import EC2Response

from localcloud.ec2.errors import Ec2Error


class VpcActions(EC2Response):
    def delete_vpc(self) -> ActionResult:
        vpc_id, backend = self._get_param("VpcId"), self.ec2_backend
        if any(gateway.vpc and gateway.vpc.id == vpc_id for gateway in backend.internet_gateways.values()):
            raise Ec2Error("DependencyViolation", f"The vpc '{vpc_id}' has dependencies and cannot be deleted.")
        result: ActionResult = super().delete_vpc()
        for acl in [acl for acl in backend.network_acls.values() if acl.vpc_id == vpc_id]:
            del backend.network_acls[acl.id]
        return result

    def modify_vpc_endpoint(self) -> ActionResult:
        endpoint = self.ec2_backend.vpc_end_points.get(self._get_param("VpcEndpointId"))
        before = set(endpoint.route_table_ids) if endpoint else set()
        result: ActionResult = super().modify_vpc_endpoint()
        if endpoint and endpoint.destination_prefix_list_id:
            prefix_list, after = endpoint.destination_prefix_list_id, set(endpoint.route_table_ids)
            for table in before - after:
                self.ec2_backend.delete_route(table, prefix_list)
            for table in after - before:
                self.ec2_backend.create_route(
                    table, None, gateway_id=endpoint.id, destination_prefix_list_id=prefix_list
                )
        return result
