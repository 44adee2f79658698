"""EC2's errors, by code and with AWS's messages."""

from __future__ import annotations

from moto.ec2.exceptions import EC2ClientError
from moto.ec2.models.availability_zones_and_regions import RegionsAndZonesBackend

SERVER_ERRORS = (
    "InsufficientAddressCapacity",
    "InsufficientCapacity",
    "InsufficientHostCapacity",
    "InsufficientInstanceCapacity",
    "InsufficientReservedInstanceCapacity",
    "InsufficientVolumeCapacity",
    "InternalError",
    "InternalFailure",
)
"""From EC2's table of server errors (EC2 API reference, "Error codes"). Observed as 500 in galaxyproject/cloudman#64
and nib-health-funds/hammertime#29. A full reservation is a client's error: hashicorp/terraform-provider-aws#35745."""
HTTP_STATUS = {
    **dict.fromkeys(SERVER_ERRORS, 500),
    "DryRunOperation": 412,
    "RequestLimitExceeded": 503,
    "ServiceUnavailable": 503,
    "Unavailable": 503,
    "UnauthorizedOperation": 403,
}
CLIENT_ERROR = 400


class Ec2Error(EC2ClientError):
    """`Ec2Error(code, message)`: returned to the caller like AWS's error."""


def http_status(code: str) -> int:
    return HTTP_STATUS.get(code, CLIENT_ERROR)


def not_offered(instance_type: str, availability_zone: str) -> Ec2Error:
    """Worded as in ned1313/Getting-Started-Terraform#44."""
    return Ec2Error(
        "Unsupported",
        f"Your requested instance type ({instance_type}) is not supported in your requested Availability Zone "
        f"({availability_zone}). Please retry your request by not specifying an Availability Zone or choosing "
        f"{_others(availability_zone)}.",
    )


def insufficient_capacity(instance_type: str, availability_zone: str) -> Ec2Error:
    """Worded as in hashicorp/terraform-provider-aws#1496."""
    return Ec2Error(
        "InsufficientInstanceCapacity",
        f"We currently do not have sufficient {instance_type} capacity in the Availability Zone you requested "
        f"({availability_zone}). Our system will be working on provisioning additional capacity. You can currently "
        f"get {instance_type} capacity by not specifying an Availability Zone in your request or choosing "
        f"{_others(availability_zone)}.",
    )


def _others(availability_zone: str) -> str:
    """The region's other zones, as EC2 lists them."""
    zones = RegionsAndZonesBackend.zones.get(availability_zone[:-1], [])
    return ", ".join(zone.name for zone in zones if zone.name != availability_zone)
