"""Rules for snapshot policies and for keys pushed to instances.

https://docs.aws.amazon.com/dlm/latest/APIReference/API_CreateRule.html,
https://docs.aws.amazon.com/ec2-instance-connect/latest/APIReference/API_SendSSHPublicKey.html
"""

from __future__ import annotations

from localcloud.validation.refusal import Refusal
from localcloud.validation.rules import Parameters, rule

_HOURS = (1, 2, 3, 4, 6, 8, 12, 24)
_KEY_TYPES = ("ssh-rsa", "ssh-ed25519", "ecdsa-sha2-nistp256", "ecdsa-sha2-nistp384", "ecdsa-sha2-nistp521")


def check_policy(given: Parameters) -> None:
    """A policy of Data Lifecycle Manager. Its handler calls this, because its requests contain no action."""
    for each in (given.get("PolicyDetails") or {}).get("Schedules") or []:
        made, kept = each.get("CreateRule") or {}, each.get("RetainRule") or {}
        interval, count = made.get("Interval"), kept.get("Count")
        if interval is not None and interval not in _HOURS:
            raise Refusal("InvalidRequestException", f"Interval must be one of {', '.join(map(str, _HOURS))}.")
        if bool(interval) == bool(made.get("CronExpression")):
            raise Refusal("InvalidRequestException", "A schedule has either Interval or CronExpression.")
        if count is not None and not 1 <= int(count) <= 1000:
            raise Refusal("InvalidRequestException", "RetainRule Count must be between 1 and 1000.")


@rule("ec2-instance-connect", "SendSSHPublicKey")
def public_key(given: Parameters, region: str) -> None:
    kind, _, rest = str(given["SSHPublicKey"]).strip().partition(" ")
    if kind not in _KEY_TYPES or not rest.strip():
        raise Refusal("InvalidArgsException", "The SSH public key is not valid.")
