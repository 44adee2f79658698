"""Jobs one after another: each has the cluster's attention to itself, and ends before the next is submitted."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from gpucluster import jobs, slurm
from gpucluster.measure.settings import Setting
from gpucluster.remote import Remote

THROUGHPUT = "throughput"
"""The metric that is the speed; every other is compared as what the run came to."""
POLL_S = 0.5


@dataclass(frozen=True)
class Run:
    setting: Setting
    job_id: str
    ending: jobs.Ending
    ranks: int

    @property
    def failed(self) -> bool:
        return self.ending.failed

    @property
    def elapsed_s(self) -> float | None:
        """From the job's start to its end, in whole seconds; waiting for nodes is not in it."""
        result = self.ending.result
        if not result:
            return None
        begun, ended = (datetime.fromisoformat(result[key]) for key in ("started_at", "ended_at"))
        return (ended - begun).total_seconds()

    @property
    def nodes(self) -> list[str]:
        return list(self.ending.result.get("node_list", ()))

    def metric(self, name: str) -> Mapping[str, Any]:
        found: Mapping[str, Any] = (self.ending.result.get("metrics") or {}).get(name) or {}
        return found


def run_all(
    remote: Remote, order: Sequence[Setting], submit: Callable[[Setting], tuple[str, int]], tell: Callable[[str], None]
) -> Iterator[Run]:
    """`submit` gives the job's id and how many ranks it has. A job that is not awaited any more is cancelled."""
    for number, setting in enumerate(order, 1):
        job_id, ranks = submit(setting)
        tell(f"{number}/{len(order)} {setting}: job {job_id}")
        try:
            ending = _awaited(remote, job_id, tell)
        except KeyboardInterrupt:
            remote.run(slurm.scancel_argv(job_id))
            tell(f"\njob {job_id} cancelled: what was measured until here follows")
            raise
        yield Run(setting, job_id, ending, ranks)


def _awaited(remote: Remote, job_id: str, tell: Callable[[str], None]) -> jobs.Ending:
    watch = jobs.Watch(remote, job_id, lambda text: tell(f"  {text}"))
    while True:
        if watch.ended() and (ending := jobs.ending(remote, job_id)):
            if ending.failed:
                tell(f"  {ending.sentence(job_id)}")
            return ending
        time.sleep(POLL_S)


def machines(remote: Remote, nodes: Sequence[str]) -> int | None:
    """How many machines these nodes are: kernels differ in the id of their boot. None where a node does not answer."""
    found = set[str]()
    for node in nodes:
        argv = ["ssh", "-o", "BatchMode=yes", "-o", "ConnectTimeout=5", node, "cat", "/proc/sys/kernel/random/boot_id"]
        done = remote.run(argv)
        if done.exit_code != 0:
            return None
        found.add(done.stdout.strip())
    return len(found)
