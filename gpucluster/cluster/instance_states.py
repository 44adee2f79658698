"""Waits until an EC2 instance has a state, and says why if it never gets there.

EC2 accepts StartInstances for an instance that it cannot start: it becomes `pending`, then `stopped` again, and
only its StateReason tells why (re:Post, "Why does my EC2 instance stop when I try to start it": a customer's KMS key
without kms:CreateGrant). boto3's waiter `instance_running` would wait on.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any

from gpucluster.errors import CloudError

POLL_S = 5.0
PATIENCE_S = 900.0
SETTLED_S = 15.0
"""EC2's answers may show the state before the last call for some seconds."""
ON_THE_WAY = {"running": ("pending",), "stopped": ("running", "stopping")}
_KEY = "Client.InternalError"
_HINTS = {
    _KEY: "EC2 says so if you may not use the KMS key of its disks: you need kms:CreateGrant, see docs/account.md",
    "Server.InsufficientInstanceCapacity": "EC2 has no such instance left in its zone: try again later",
}
"""By the code of the StateReason."""
_ELSE = "EC2's console shows the instance; correct the cause, then try again"


def wait(ec2: Any, instance_ids: Sequence[str], wanted: str) -> None:
    """`wanted`: running or stopped. Raises CloudError if an instance comes to rest in another state."""
    for instance_id in instance_ids:
        _wait(ec2, instance_id, wanted)


def _wait(ec2: Any, instance_id: str, wanted: str) -> None:
    began = time.monotonic()
    while True:
        (instance,) = ec2.describe_instances(InstanceIds=[instance_id])["Reservations"][0]["Instances"]
        state, waited_s = instance["State"]["Name"], time.monotonic() - began
        if state == wanted:
            return
        if state not in ON_THE_WAY[wanted] and waited_s >= SETTLED_S:
            raise _never(instance_id, wanted, state, instance.get("StateReason", {}))
        if waited_s > PATIENCE_S:
            minutes = PATIENCE_S / 60
            raise CloudError(f"{instance_id} is still {state} after {minutes:.0f} minutes, and not {wanted}", _ELSE)
        time.sleep(POLL_S)


def _never(instance_id: str, wanted: str, state: str, reason: dict[str, str]) -> CloudError:
    why = reason.get("Message") or "EC2 gives no reason"
    return CloudError(f"{instance_id} is {state}, and not {wanted}: {why}", _HINTS.get(reason.get("Code", ""), _ELSE))
