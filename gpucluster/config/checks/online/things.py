"""What the file may name that is in the account already: how AWS is asked for it, and what it says otherwise."""

from __future__ import annotations

from dataclasses import dataclass

from gpucluster.config.checks.online.account import Account, Answer, Refused


@dataclass(frozen=True)
class Thing:
    service: str
    operation: str
    parameter: str
    """Takes the name, or a list of names where it is in the plural."""
    answer: str
    gone: tuple[str, ...]
    """How the codes begin that say that it is not there."""

    def look_up(self, account: Account, name: str | None) -> Answer | None:
        """None where it is not there, or not named. Raises Refused where AWS does not say."""
        if name is None:
            return None
        named = [name] if self.parameter.endswith("s") else name
        deprecated = {"IncludeDeprecated": True} if self.operation == "describe_images" else {}
        try:
            found = account.ask(self.service, self.operation, **{self.parameter: named}, **deprecated)[self.answer]
        except Refused as refusal:
            if refusal.code.startswith(self.gone):
                return None
            raise
        if isinstance(found, list):
            return found[0] if found else None
        whole: Answer = found
        return whole


VPC = Thing("ec2", "describe_vpcs", "VpcIds", "Vpcs", ("InvalidVpcID",))
SUBNET = Thing("ec2", "describe_subnets", "SubnetIds", "Subnets", ("InvalidSubnetID",))
IMAGE = Thing("ec2", "describe_images", "ImageIds", "Images", ("InvalidAMIID",))
GROUP = Thing("ec2", "describe_placement_groups", "GroupNames", "PlacementGroups", ("InvalidPlacementGroup.Unknown",))
RESERVATION = Thing(
    "ec2",
    "describe_capacity_reservations",
    "CapacityReservationIds",
    "CapacityReservations",
    ("InvalidCapacityReservationId",),
)
KEY = Thing("kms", "describe_key", "KeyId", "KeyMetadata", ("NotFoundException",))
POLICY = Thing("iam", "get_policy", "PolicyArn", "Policy", ("NoSuchEntity",))
PARAMETER = Thing("ssm", "get_parameter", "Name", "Parameter", ("ParameterNotFound",))
