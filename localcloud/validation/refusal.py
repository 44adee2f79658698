"""A refusal, and each service's error code for a request that violates its model."""

from __future__ import annotations

from collections.abc import Sequence

# service (as botocore calls it): code
CODES = {
    "fsx": "BadRequest",  # awsdocs/aws-cloudformation-user-guide#439
    "efs": "ValidationException",  # aws/aws-sdk-js#3321: BadRequest until June 2020
    "logs": "InvalidParameterException",  # amazon-archives/cloudwatch-logs-centralize-logs#5
    "route53": "InvalidInput",  # terraform-aws-modules/terraform-aws-acm#63
    "ec2-instance-connect": "InvalidArgsException",  # mludvig/aws-ssm-tools#44
    "dlm": "InvalidRequestException",
    "rds": "InvalidParameterValue",
}
_BY_PROTOCOL = {"query": "ValidationError"}
# CloudWatch answers JSON with the codes of its older query protocol
_OLD_CODES = {"cloudwatch": "ValidationError"}


class Refusal(Exception):
    """Becomes AWS's error in the answer."""

    def __init__(self, code: str, message: str, status: int = 400) -> None:
        super().__init__(message)
        self.code, self.message, self.status = code, message, status


def broken(service: str, protocol: str, violations: Sequence[str]) -> Refusal:
    """The refusal of a request that violates its model, with the message of AWS's framework."""
    plural = "s" * (len(violations) > 1)
    text = f"{len(violations)} validation error{plural} detected: {'; '.join(violations)}"
    known = CODES.get(service) or _OLD_CODES.get(service)
    return Refusal(known or _BY_PROTOCOL.get(protocol, "ValidationException"), text)
