"""Publishes the head node's host key again after an update of the stack has reset it.

When anything about a parameter changes, such as its tags, CloudFormation also writes its value; it only knows the value
in the template. Without the key nobody can log in.
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
        log.info("the published host key is missing: publishing it again")
        key = " ".join(file.read_text().split()[:2])
        ssm.put_parameter(Name=name, Value=key, Type="String", Overwrite=True)
