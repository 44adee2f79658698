"""Reads EC2's notices for this spot instance, and gets its jobs to other nodes in time.

EC2 gives notice two minutes before it terminates a spot instance, and says to look every 5 s (EC2's guide,
spot-instance-termination-notices). A rebalance recommendation may come long before, or for an instance that then stays,
and often for a type and not for one instance (LeanerCloud/AutoSpotting#467): the next instance would get it too. The
node is therefore powered down only when no job has it or waits for its partition. If it is always on, it stays: it
would be launched again at once.
"""

from __future__ import annotations

import json
import logging
import socket
import time
from collections.abc import Callable, Collection
from datetime import datetime, timedelta, timezone
from urllib.error import HTTPError

from gpucluster_node import ends, fleet, imds, slurm
from gpucluster_node.log import start_logging

log = logging.getLogger("spot")
EVERY_S = 5
REBALANCE_EVERY = timedelta(minutes=1)
"""Slurm is asked for jobs then. EC2 may recommend it to hundreds of nodes whose jobs run for days."""
END = "meta-data/spot/instance-action"
REBALANCE = "meta-data/events/recommendations/rebalance"
REBALANCED = "spot: EC2 recommends to rebalance: it may terminate this node soon"


def parse(text: str) -> ends.End:
    """Parses the form in EC2's guide: {"action": "terminate", "time": "2017-09-18T08:22:00Z"}. action: terminate, stop
    or hibernate."""
    found = json.loads(text)
    at = datetime.strptime(found["time"], "%Y-%m-%dT%H:%M:%SZ").replace(tzinfo=timezone.utc)
    return ends.End(at, f"spot: EC2 will {found['action']} it at {ends.utc(at)}", timedelta.max)


def read(path: str) -> str | None:
    """None if there is no such notice."""
    try:
        return imds.ask(path)
    except HTTPError as error:
        if error.code == 404:
            return None
        raise


class Watch:
    def __init__(self, node: str, ask: Callable[[str], str | None] = read, always_on: Collection[str] = ()) -> None:
        self._ask, self._ignores_rebalance = ask, node in always_on
        self._name, self._node = node, ends.Watch(node)
        self._asked = datetime.min.replace(tzinfo=timezone.utc)

    def look(self, now: datetime) -> None:
        text = self._ask(END)
        if text:
            self._node.before(parse(text), now, slurm.running_on(self._name))
        elif not self._ignores_rebalance and now - self._asked >= REBALANCE_EVERY and self._ask(REBALANCE):
            self._asked = now
            if not slurm.jobs_on(self._name) and not _waits_for(self._name):
                self._node.take_away(REBALANCED)


def _waits_for(node: str) -> bool:
    """Whether a job waits for the node's partition, also if it would not get this node."""
    partition = node.rpartition("-")[0]
    return any(partition in names.split(",") and state in slurm.WAITING for names, state in slurm.jobs())


def main() -> None:
    start_logging()
    watch = Watch(socket.gethostname().partition(".")[0], always_on=fleet.load().always_on())
    while True:
        try:
            watch.look(datetime.now(timezone.utc))
        except (OSError, ValueError, KeyError, slurm.SlurmError) as error:
            log.warning("will look again: %s", error)
        time.sleep(EVERY_S)


if __name__ == "__main__":
    main()
