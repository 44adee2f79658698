"""EC2's client errors, by code and with AWS's wording."""

from __future__ import annotations

from moto.ec2.exceptions import EC2ClientError


class Ec2Error(EC2ClientError):
    """`Ec2Error(code, message)`: answered to the caller as AWS would."""


def not_offered(instance_type: str, availability_zone: str) -> Ec2Error:
    return Ec2Error(
        "Unsupported",
        f"Your requested instance type ({instance_type}) is not supported in your requested Availability Zone "
        f"({availability_zone}). Please retry your request by not specifying an Availability Zone or choosing another "
        "one.",
    )


def insufficient_capacity(instance_type: str, availability_zone: str) -> Ec2Error:
    return Ec2Error(
        "InsufficientInstanceCapacity",
        f"We currently do not have sufficient {instance_type} capacity in the Availability Zone you requested "
        f"({availability_zone}). Our system will be working on provisioning additional capacity. You can currently "
        f"get {instance_type} capacity by not specifying an Availability Zone in your request or choosing another one.",
    )
