"""Runs the preflight on the job's first node."""

from __future__ import annotations

import glob
import json
import os
import shutil
import time
from pathlib import Path
from typing import Callable, Sequence

from gpucluster_job import failures, launch, ourselves
from gpucluster_job.log import say
from gpucluster_job.preflight import bandwidth, broken_nodes, judge
from gpucluster_job.preflight.nccl import Watch
from gpucluster_job.runner import Runner
from gpucluster_job.settings import GaveUp, Settings

NODES_S, NODE_S = 150.0, 60.0
FULL_S = 300.0
NCCL_TESTS = "/usr/local/cuda*/efa/test-cuda-*/all_reduce_perf"


class Preflight:
    def __init__(self, runner: Runner, settings: Settings, nodes: list[str]) -> None:
        self._runner, self._settings, self._nodes = runner, settings, nodes
        self._place = settings.folder / "preflight"
        self._report: dict[str, object] | None = None
        self.drains = False
        """Whether it has found broken nodes, which Slurm drains when the job has left them."""
        self.nccl: Watch | None = None

    def result(self) -> dict[str, object]:
        """Fields of result.json."""
        found: dict[str, object] = {} if self._report is None else {"preflight": self._report}
        return {**found, "nccl": self.nccl.report} if self.nccl and self.nccl.report else found

    def quick(self) -> None:
        """Raises GaveUp, or Stopped."""
        if self._settings.preflight == "off":
            return
        began, said = time.monotonic(), bytearray()
        shutil.rmtree(self._settings.folder / "nccl", ignore_errors=True)  # left by an earlier run
        broken_nodes.forget(self._settings)
        limit_s = NODE_S if self._settings.nodes == 1 else NODES_S
        self._runner.phase(self._probe(), said.extend, limit_s=limit_s)
        text = said.decode(errors="replace")
        self._judged(lambda: judge.conclude(self._expected(), text, self._nodes, time.monotonic() - began))

    def _probe(self) -> list[str]:
        probe, settings = ourselves.words("probe"), self._settings
        if settings.nodes == 1:
            return probe
        gpus = [f"--gres=gpu:{settings.gpus_per_node}"] if settings.gpus_per_node else []
        return [*settings.everywhere("--kill-on-bad-exit=0", *gpus), *probe]

    def _expected(self) -> dict[str, object]:
        found: dict[str, object] = json.loads((self._place / "expected.json").read_text(encoding="utf-8"))
        return found

    def _judged(self, judgement: Callable[[], judge.Conclusion]) -> None:
        try:
            found = judgement()
        except Exception as error:  # noqa: BLE001 - whatever it is: no reason to keep a job from running
            say(f"[preflight] warning: the preflight failed ({type(error).__name__}: {error}); the job continues")
            return
        for line in found.lines:
            say(f"[preflight] {line}")
        self._report = found.report if self._report is None else judge.joined(self._report, found.report)
        if found.broken and "then" not in self._expected():  # a cluster that we did not build has no such epilog
            self.drains = broken_nodes.tell(self._settings, found.broken)
        if found.failure:
            raise GaveUp(found.failure[1], found.failure[0])

    def full(self, line: Sequence[str]) -> None:
        """Runs an all-reduce in the environment of the job's ranks, started as they will be, and nccl-tests if the
        machine has them. Raises GaveUp, or Stopped."""
        if self._settings.preflight != "full":
            return
        place = failures.folder(f"preflight-{self._settings.runs_before}")
        code, text = self._all_reduce(line, place)
        tests = self._nccl_tests()
        failed = failures.recorded(place)
        self._judged(lambda: bandwidth.conclude(self._expected(), code, text, tests, failed))

    def _all_reduce(self, line: Sequence[str], place: str) -> tuple[int, str]:
        if self._settings.has_roles:
            skipped = json.dumps({"skipped": f"jobs of {self._settings.launcher} run none"})
            return 0, f"[0 {self._nodes[0]}] {skipped}\n"
        program = str(Path(__file__).with_name("allreduce.py"))
        return self._timed(launch.argv(line, ["python", program]), "allreduce.txt", {"GPUCLUSTER_FAILURES": place})

    def _nccl_tests(self) -> str:
        """Deep Learning AMIs include nccl-tests, built with MPI. Across nodes Open MPI starts them, as in a job of
        mpirun."""
        settings = self._settings
        found = [each for each in sorted(glob.glob(NCCL_TESTS)) if os.access(each, os.X_OK)]
        if not found or not settings.gpus_per_node:
            return ""
        ranks = str(settings.nodes * settings.gpus_per_node)
        hosts = ["--leave-session-attached", "--hostfile", str(settings.folder / "hostfile")]
        sizes = ["-b", "8", "-e", "1G", "-f", "4", "-g", "1", "-c", "1", "-n", "20"]
        argv = ourselves.words("mpi", "mpirun", *hosts, "-np", ranks, "--bind-to", "none", found[-1], *sizes)
        return self._timed(argv, "nccl-tests.txt", {"RANKS_PER_NODE": str(settings.gpus_per_node)})[1]

    def _timed(self, argv: list[str], name: str, variables: dict[str, str]) -> tuple[int, str]:
        said = bytearray()
        code = self._runner.phase(argv, said.extend, limit_s=FULL_S, environment={**os.environ, **variables})
        (self._place / name).write_bytes(said)
        return code, said.decode(errors="replace")

    def watch_nccl(self, log_start: int) -> None:
        """NCCL reports to a file for each rank, or into the log if the user's NCCL_DEBUG says so. Set only now, so that
        the all-reduce's reports do not count as the job's."""
        settings = self._settings
        if settings.preflight == "off" or settings.nodes == 1 or not settings.gpus_per_node:
            return
        reports = settings.folder / "nccl"
        reports.mkdir(exist_ok=True)
        log = settings.log if os.environ.get("NCCL_DEBUG") in ("INFO", "TRACE") else None
        self.nccl = Watch(self._expected(), reports, log, log_start, settings.world_size)
