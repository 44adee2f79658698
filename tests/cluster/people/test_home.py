"""What a user cannot read or do with the account alone: the other's home directory and jobs, and root's commands."""

from __future__ import annotations

import pytest
from bed import Bed

DENIED = {
    "ls /home/bob": "Permission denied",
    "ls /home/ubuntu": "Permission denied",
    "sudo -n true": "password is required",
    "cat /etc/munge/munge.key": "Permission denied",
    "cat /etc/slurm/slurmdbd.conf": "Permission denied",
    "scontrol reconfigure": "Invalid user id",
    "scontrol update nodename=train-1 state=down reason=x": "Invalid user id",
}


@pytest.mark.parametrize("command", DENIED)
def test_refused_by_the_account_alone(people: Bed, command: str) -> None:
    done = people.of("alice").gpucluster("ssh", "--", *command.split())
    assert done.returncode != 0
    assert DENIED[command] in done.stdout + done.stderr
