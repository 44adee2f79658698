"""NAT gateways: on AWS their network interface is in use, without security groups. It is deleted with them and frees
its address; in moto it stays.

Routes to a deleted one are blackholes: https://docs.aws.amazon.com/vpc/latest/userguide/nat-gateway-working-with.html.
"""

from __future__ import annotations

from moto.core.responses import ActionResult
from moto.ec2.models.route_tables import Route
from moto.ec2.responses import EC2Response


def install() -> None:
    Route.state = property(_state)  # type: ignore[method-assign, assignment]


def _state(route: Route) -> str:
    gateway = route.nat_gateway
    return "blackhole" if gateway and gateway.state in ("deleting", "deleted", "failed") else "active"


class NatGatewayActions(EC2Response):
    def create_nat_gateway(self) -> ActionResult:
        before = set(self.ec2_backend.nat_gateways)
        result: ActionResult = super().create_nat_gateway()
        for made in set(self.ec2_backend.nat_gateways) - before:
            interface = self.ec2_backend.nat_gateways[made]._eni
            interface.status, interface._group_set = "in-use", []
        return result

    def delete_nat_gateway(self) -> ActionResult:
        result: ActionResult = super().delete_nat_gateway()
        interface = self.ec2_backend.nat_gateways[self._get_param("NatGatewayId")]._eni
        for address in self.ec2_backend.addresses:
            if address.eni is interface:
                self.ec2_backend.disassociate_address(association_id=address.association_id)
        self.ec2_backend.enis.pop(interface.id, None)
        return result
