"""A job with a file system in its nodes' memory. Creates and fills it before the command starts, watches it, and
exports it at the end. If the job is stopped, Slurm's epilog does the rest."""

from __future__ import annotations

import os
import re
import subprocess
import time

from gpucluster_job.log import Said, say
from gpucluster_job.runner import Runner
from gpucluster_job.settings import GaveUp, Settings, plural

PROGRAM = "/opt/gpucluster/bin/job-ram"
_SLURMS = re.compile(r"(srun|slurmstepd-[^ ]+): ")
_ERROR = re.compile(r"error: ([^ :]+): (.*)")


class Ram:
    def __init__(self, runner: Runner, settings: Settings, nodes: list[str]) -> None:
        self._runner, self._settings, self._nodes = runner, settings, nodes
        self._mount, self._folder = os.environ.get("GPUCLUSTER_RAM", ""), settings.folder / "ram"
        self._made = False
        self._watcher: subprocess.Popen[bytes] | None = None

    def make(self) -> None:
        """Raises GaveUp, or Stopped."""
        if not self._mount:
            return
        began, settings = time.monotonic(), self._settings
        self._folder.mkdir(exist_ok=True)
        for name in ("lost", "exported"):
            (self._folder / name).unlink(missing_ok=True)
        if settings.runs_before:
            lost = f"data that the last run had only in {self._mount} is lost"
            say(f"[ram] run {settings.runs_before + 1} of this job: {lost}; creating it again")
        parts = [settings.job_id, str(settings.folder)]
        self._do("made", "sudo", "-n", PROGRAM, "serve", *parts, *self._nodes)
        self._do("filled", "bash", "-c", 'sudo -n "$0" mount && "$0" fill', PROGRAM)
        self._made = True
        on = plural(settings.nodes, "node")
        say(f"[ram] {self._mount} is in the memory of {on} ({time.monotonic() - began:.0f} s)")
        self._watcher = subprocess.Popen([PROGRAM, "watch", *parts, str(os.getpid()), *self._nodes])

    def _do(self, what: str, *command: str) -> None:
        code, node, reason = self._on_nodes(*command)
        self._runner.check()
        if code:
            raise GaveUp(f"{self._mount} could not be {what}: {reason}", node)

    def _on_nodes(self, *command: str) -> tuple[int, str, str]:
        """Runs once on each node; the first failure ends the others. Returns its exit code, the node's name and its
        reason."""
        said = Said(lambda line: None if _SLURMS.match(line) else say(f"[ram] {line}"))
        argv = self._settings.everywhere("--kill-on-bad-exit=1")
        code = self._runner.run([*argv, *command], said)
        error = next(filter(None, map(_ERROR.fullmatch, said.lines)), None)
        if error:
            return code, error[1], error[2]
        return code, "", said.lines[-1] if said.lines else "no node gave a reason"

    def export(self, code: int) -> None:
        """At the job's own end, whatever its exit code. Raises GaveUp if results were not exported and nothing else has
        failed. A stopped job has no time for this, so the epilog does it."""
        if not self._made:
            return
        self.let_go()
        if self._runner.stopped:
            return
        if not os.environ.get("GPUCLUSTER_RAM_EXPORT"):
            left = "cluster.yaml sets no export"
            say(f"[ram] {self._mount} and its contents are deleted with the job: {left}")
            return
        failed, node, why = self._on_nodes(PROGRAM, "export")
        if not failed:
            (self._folder / "exported").touch()
            return
        reason = f"{self._mount} was not written back: {why}"
        if not code:
            raise GaveUp(reason, node)
        say(f"error: {reason}")

    def let_go(self) -> None:
        """Otherwise the watcher mistakes the end of the job for the loss of a node, and requeues it."""
        if self._watcher:
            self._watcher.terminate()

    def lost(self, reason: str) -> str:
        """Why the job was stopped, if a part of the file system was lost. Adds to other reasons what they mean for its
        contents."""
        if not self._made:
            return reason
        try:
            lost = (self._folder / "lost").read_text().strip()
        except FileNotFoundError:
            lost = ""
        if lost:
            return f"lost {lost} and its part of {self._mount}; data only there is lost"
        return f"{reason}; data only in {self._mount} is lost" if reason.startswith("lost the node ") else reason
