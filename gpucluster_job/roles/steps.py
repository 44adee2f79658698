"""Starts one Slurm step for each role, on the job's first node.

usage: roles GRACE_S (leashed|leading STEP... ;)... -- COMMAND..., where a step's {COMMAND} stands for the command

Servers never exit on their own, and a lost process makes the others wait for ever. So the job ends with its leading
step, or with the first step that fails. All other steps read from one pipe, the leash, and end when it closes: we close
it, or the kernel does if we are killed.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from typing import Any, List, Tuple

from gpucluster_job import ourselves
from gpucluster_job.launch import COMMAND
from gpucluster_job.ranks import signals
from gpucluster_job.roles import tensorflow
from gpucluster_job.runner import RANKS_S
from gpucluster_job.wakeup import Wakeup, handle

END_OF_STEP = ";"
LET_GO_S = 9.0
"""How long steps have to end after the leash closes; their programs have 5 s of it."""
Step = Tuple[bool, List[str]]
"""Whether the step leads, and its words."""


def main(words: list[str]) -> int:
    at = words.index("--")
    roles = Roles()
    if os.environ["GPUCLUSTER_LAUNCHER"].startswith("tensorflow"):
        try:
            os.environ["TF_CLUSTER"] = tensorflow.describe(roles)
        except tensorflow.NoPorts as error:
            print(f"error: {error}", file=sys.stderr)
            roles.end()
            return 1
    for leads, step in steps(words[2:at], words[at + 1 :]):
        roles.start(step, leads=leads)
    return roles.supervise(float(words[1]))


def steps(words: list[str], command: list[str]) -> list[Step]:
    found: list[Step] = []
    while words:
        at = words.index(END_OF_STEP)
        kind, step, words = words[0], words[1:at], words[at + 1 :]
        where = step.index(COMMAND) if COMMAND in step else len(step)
        found.append((kind == "leading", [*step[:where], *(command if COMMAND in step else []), *step[where + 1 :]]))
    return found


def has_ranks(step: Any) -> bool:
    """Whether its processes are ranks, and no servers."""
    at = step.index("role") if "role" in step else -1
    return at >= 0 and step[at + 1] in signals.RANKS


def _code(step: subprocess.Popen[bytes]) -> int:
    """As a shell gives it."""
    code = step.wait()
    return code if code >= 0 else 128 - code


class Roles:
    def __init__(self) -> None:
        self._wakeup = Wakeup()
        self._leashed, self._leash = os.pipe2(os.O_CLOEXEC)
        self._steps: list[subprocess.Popen[bytes]] = []
        self._leader: subprocess.Popen[bytes] | None = None
        self._stopped = False
        handle((signal.SIGTERM, signal.SIGINT), self._stop)

    def start(self, step: list[str], *, leads: bool) -> None:
        """`leads`: the job ends with this step."""
        self._steps.append(subprocess.Popen(step, stdin=subprocess.DEVNULL if leads else self._leashed))
        if leads:
            self._leader = self._steps[-1]
            if self._stopped:
                self._leader.terminate()

    def hold_ports(self, count: int, nodes: int, *options: str) -> subprocess.Popen[bytes]:
        """Starts a step that reserves ports on each node until the job ends, and prints one line for each node."""
        step = ["srun", "--overlap", "--overcommit", "--cpu-bind=none", *options]
        step += [f"--nodes={nodes}", f"--ntasks={nodes}", "--ntasks-per-node=1", *ourselves.words("ports", str(count))]
        return subprocess.Popen(step, stdin=self._leashed, stdout=subprocess.PIPE)

    def supervise(self, grace_s: float) -> int:
        """The exit code of the leading step, or of the step that failed. The other steps have `grace_s` to exit, and
        the job fails if a rank fails in that time."""
        code: int | None = None
        while code is None:
            code = self._ended()
            if code is None:
                self._wakeup.wait([], None)
        if not code:
            self._wait(grace_s)
            code = self._late_failure()
        if code and not self._stopped:
            self._end_ranks()
        self.end()
        return code

    def _end_ranks(self) -> None:
        """Their programs may save, before srun kills them."""
        ending = ourselves.on_each_node(os.environ["GPUCLUSTER_NODES"].split(), ourselves.words("end"))
        until = time.monotonic() + RANKS_S
        while any(step.poll() is None for step in ending) and not self._stopped and time.monotonic() < until:
            self._wakeup.wait([], max(0.0, until - time.monotonic()))

    def _late_failure(self) -> int:
        """The exit code of a step of ranks that has failed; 0 if there is none. Servers may fail when nobody needs them
        any more."""
        return next((_code(step) for step in self._steps if has_ranks(step.args) and step.poll()), 0)

    def _ended(self) -> int | None:
        for step in self._steps:
            code = step.poll()
            if code is not None and (code or step is self._leader):
                return _code(step)
        return None

    def end(self) -> None:
        self._let_go()
        self._wait(LET_GO_S)
        for step in self._steps:
            step.kill()
            step.wait()

    def _wait(self, seconds: float) -> None:
        until = time.monotonic() + seconds
        while any(step.poll() is None for step in self._steps) and time.monotonic() < until:
            self._wakeup.wait([], max(0.0, until - time.monotonic()))

    def _stop(self, number: int, frame: Any) -> None:
        self._stopped = True
        self._let_go()

    def _let_go(self) -> None:
        if self._leash >= 0:
            os.close(self._leash)
            self._leash = -1
        if self._leader:
            self._leader.terminate()
