"""The account on the cluster that this process uses, and the folders of that account.

The account's name is in an environment variable, so that programs that a command starts inherit it, such as ssh and its
ProxyCommand.
"""

from __future__ import annotations

import os

ADMINISTRATOR = "ubuntu"
"""The image's own account. It may use sudo. It is the only account if cluster.yaml has no `users`."""
VARIABLE = "GPUCLUSTER_USER"


def user() -> str:
    return os.environ.get(VARIABLE) or ADMINISTRATOR


def home() -> str:
    """On shared storage."""
    return f"/home/{user()}"


def jobs() -> str:
    """The folder that contains a folder for each job."""
    return f"{home()}/jobs"


def tasks() -> str:
    """The folder that contains a folder for each task."""
    return f"{home()}/tasks"


def inputs() -> str:
    """The folder for uploaded local folders, which channels name."""
    return f"{home()}/inputs"
