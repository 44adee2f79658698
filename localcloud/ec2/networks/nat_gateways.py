"""NAT gateways: on AWS their network interface is deleted with them and frees its address; in moto it stays."""

from __future__ import annotations

from moto.core.responses import ActionResult
from moto.ec2.responses import EC2Response


class NatGatewayActions(EC2Response):
    def delete_nat_gateway(self) -> ActionResult:
        result: ActionResult = super().delete_nat_gateway()
        interface = self.ec2_backend.nat_gateways[self._get_param("NatGatewayId")]._eni
        for address in self.ec2_backend.addresses:
            if address.eni is interface:
                self.ec2_backend.disassociate_address(association_id=address.association_id)
        self.ec2_backend.enis.pop(interface.id, None)
        return result
