"""How a partition's nodes are bought, as properties of a launch template."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from aws_cdk import aws_ec2 as ec2

Template = ec2.CfnLaunchTemplate


@dataclass(frozen=True)
class Purchase:
    kind: Literal["on-demand", "spot", "reservation", "capacity-block"] = "on-demand"
    reservation_id: str | None = None
    """The id of a capacity reservation or a capacity block: `cr-…`."""

    @property
    def targeted(self) -> str | None:
        """The reservation that the nodes are launched into."""
        return self.reservation_id if self.kind in ("reservation", "capacity-block") else None

    def market(self) -> Template.InstanceMarketOptionsProperty | None:
        if self.kind == "spot":
            # One request for one launch: a persistent request would launch again without Slurm.
            once = Template.SpotOptionsProperty(
                spot_instance_type="one-time", instance_interruption_behavior="terminate"
            )
            return Template.InstanceMarketOptionsProperty(market_type="spot", spot_options=once)
        if self.kind == "capacity-block":
            return Template.InstanceMarketOptionsProperty(market_type="capacity-block")
        return None

    def reservation(self) -> Template.CapacityReservationSpecificationProperty | None:
        if not self.targeted:
            return None
        target = Template.CapacityReservationTargetProperty(capacity_reservation_id=self.targeted)
        return Template.CapacityReservationSpecificationProperty(capacity_reservation_target=target)
