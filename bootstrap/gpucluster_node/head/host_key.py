"""Publishes the head's host key again where an update of the stack has put the first value back.

CloudFormation writes a parameter's value with whatever else of it changes, its tags for one; it knows only the value
that the template has. Without the key nobody can log in.
"""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Any

from gpucluster_node import fleet

log = logging.getLogger("host_key")
NAME = "host-key"
FIRST_VALUE = "pending"
FILE = Path("/etc/ssh/ssh_host_ed25519_key.pub")


def publish_again(ssm: Any, cluster: fleet.Fleet, file: Path = FILE) -> None:
    """Type and key, without the comment."""
    name = cluster.ssm_path + NAME
    if ssm.get_parameter(Name=name)["Parameter"]["Value"] == FIRST_VALUE:
        log.info("the published host key is gone: publishing it again")
        key = " ".join(file.read_text().split()[:2])
        ssm.put_parameter(Name=name, Value=key, Type="String", Overwrite=True)
