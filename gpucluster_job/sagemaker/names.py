"""The names of the job's hosts, which SageMaker's DNS knows only some time after a container has started."""

from __future__ import annotations

import socket
import time
from typing import Callable, Sequence

from gpucluster_job.log import say
from gpucluster_job.settings import GaveUp

LONGEST_S = 900.0
"""The toolkit waits as long for each host (_dns_lookup in entry_point.py of sagemaker-training 5.1.4)."""
PAUSE_S = 1.0
SAID_EVERY_S = 60.0


def address_of(host: str) -> str:
    """Raises OSError as long as the name is unknown."""
    found = socket.getaddrinfo(host, None, socket.AF_INET, socket.SOCK_STREAM)
    return str(found[0][4][0])


def wait_for(
    hosts: Sequence[str],
    check: Callable[[], None],
    *,
    longest_s: float = LONGEST_S,
    lookup: Callable[[str], str] = address_of,
) -> None:
    """`check` is called about each second, and may raise. Raises GaveUp."""
    began = said = time.monotonic()
    unknown = list(hosts)
    while unknown := [host for host in unknown if not _is_known(host, lookup)]:
        now = time.monotonic()
        if now - began >= longest_s:
            raise GaveUp(
                f"the names {' '.join(unknown)} lead to no address after {longest_s:g} s; their containers may not "
                f"have started: see the status messages of the training job"
            )
        if now - said >= SAID_EVERY_S:
            say(f"[sagemaker] waiting for the names of {' '.join(unknown)}")
            said = now
        check()
        time.sleep(PAUSE_S)


def _is_known(host: str, lookup: Callable[[str], str]) -> bool:
    try:
        return bool(lookup(host))
    except OSError:
        return False
