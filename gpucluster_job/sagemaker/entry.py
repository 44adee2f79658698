"""The entry point of a container.

usage: sagemaker [--launcher NAME] [--ranks-per-node N] [--channel NAME=SHARD]... -- COMMAND...
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import time
import traceback
from pathlib import Path
from typing import Any

from gpucluster_job import failures
from gpucluster_job.log import LauncherOutput, say
from gpucluster_job.runner import Runner, Stopped
from gpucluster_job.sagemaker import (
    checkpoints,
    ending,
    handover,
    inputs,
    launchers,
    names,
    ours,
    packages,
    place,
    ssh,
    variables,
)
from gpucluster_job.sagemaker.limits import RANKS_S
from gpucluster_job.sagemaker.meeting import FirstHost, OtherHost
from gpucluster_job.settings import GaveUp, plural

STOPPED = 143
LAST_WORDS_S, STOPPED_WAIT_S = 30.0, 2.0
"""How long the first host waits for what the others have written."""
CAUSE_S = 15.0
"""How long another host waits for the reason of the first one, if it does not know it itself."""


class Patient(Runner):
    """A stopped job's ranks have 100 s before their launcher is ended, instead of the 5 s that Slurm leaves."""

    def _stop(self, number: int = 0, frame: Any = None) -> None:
        if not self.stopped or not number:
            self.stopped = True
            say("[sagemaker] stopping: sending SIGTERM to the ranks of this host")
            self._ends = subprocess.Popen(place.words("sagemaker-end"), stdin=subprocess.DEVNULL)
            self.end_after([self._ends], RANKS_S)

    def wait_for_ranks(self) -> None:
        """In a job that is stopped, where another host has started the ranks of this one."""
        self._ends.wait()


def main(words: list[str]) -> int:
    base = inputs.base()
    try:
        options, command = asked(words[1:])
        return Entry(inputs.read(base), options, command).run()
    except GaveUp as error:
        ending.write_failure(base, str(error))
    except Exception as error:  # noqa: BLE001 - SageMaker shows a reason, whatever happens
        traceback.print_exc()
        ending.write_failure(base, f"the job's own runtime failed: {type(error).__name__}: {error}")
    return 1


def asked(words: list[str]) -> tuple[argparse.Namespace, list[str]]:
    """Raises GaveUp."""
    parser = argparse.ArgumentParser("sagemaker", description="Starts the ranks of this host.")
    parser.add_argument("--launcher", choices=sorted(launchers.VARIABLES), default="torchrun")
    parser.add_argument("--ranks-per-node", type=int, metavar="N", help="default: one for each GPU, or one")
    parser.add_argument("--channel", action="append", default=[], metavar="NAME=SHARD", help="who reads what of it")
    own, command = (words[: words.index("--")], words[words.index("--") + 1 :]) if "--" in words else (words, [])
    options = parser.parse_args(own)
    if not command:
        raise GaveUp("there is no command for the ranks: it follows --, such as `-- python train.py`")
    if options.ranks_per_node is not None and options.ranks_per_node < 1:
        raise GaveUp(f"--ranks-per-node is {options.ranks_per_node}, allowed: 1 or more")
    readers = [each.partition("=") for each in options.channel]
    for name, _, shard in readers:
        if shard not in ours.SHARDS:
            raise GaveUp(f"--channel {name}={shard}: allowed after {name}= are {', '.join(ours.SHARDS)}")
    options.channel = {name: shard for name, _, shard in readers}
    return options, command


class Entry:
    def __init__(self, host: inputs.Host, options: argparse.Namespace, command: list[str]) -> None:
        machine, launcher = variables.machine(), options.launcher
        self._host, self._launcher, self._command = host, launcher, command
        self._ranks = options.ranks_per_node or machine.gpus or 1
        self._job = os.environ.get("TRAINING_JOB_NAME", "")
        toolkits = variables.of_toolkit(host, machine, command, self._job)
        own = ours.variables(host, launcher, self._ranks, machine.gpus, os.environ)
        own[ours.READERS] = json.dumps(options.channel)
        self._place = place.folder(self._job, host.name)
        self._failures = str(self._place / place.FAILURES)
        self._environment = {**os.environ, **toolkits, **own, "GPUCLUSTER_FAILURES": self._failures}
        place.make(self._job, host.name, self._environment)
        self._port, self._began = int(own["MASTER_PORT"]), time.time()
        self._runner, self._heard = Patient(), ending.Heard()
        self._output = LauncherOutput(self._heard.hear)
        self._server: subprocess.Popen[bytes] | None = None
        self._by_others: list[str] = []
        self._by_first = ""
        """Why the job failed, as the first host says."""

    def run(self) -> int:
        reason, failed = "", None
        try:
            code = self._run()
        except Stopped:
            code = STOPPED
        except GaveUp as error:
            code, reason = 1, str(error)
        failed = ending.first(self._failures, self._heard)
        code = code or (failed.code if failed and not self._runner.stopped else 0)
        if self._server:
            self._server.terminate()
        for line in ending.remarks(self._host.base, self._host.name, self._host.number):
            say(line)
        folder, stopped = self._host.base / "checkpoints", self._runner.stopped
        if self._host.number == 0:
            handover.write(folder, self._by_others, self._environment, stopped)
        for line in checkpoints.compared(folder, self._environment, stopped):
            say(line)
        if code and not self._runner.stopped:
            ending.write_failure(self._host.base, reason or self._reason(failed, code))
        return code

    def _reason(self, failed: failures.Failure | None, code: int) -> str:
        if self._by_first and not ending.is_cause(failed):
            return self._by_first
        return ending.reason(failed, self._launcher, code, self._output.words.last)

    def _run(self) -> int:
        host = self._host
        for folder in ("model", "output/data", "output/tensorboard", "checkpoints", *ours.outputs(os.environ)):
            Path(host.base, folder).mkdir(parents=True, exist_ok=True)
        ranks = plural(self._ranks, "rank")
        say(f"[sagemaker] {host.name}, host {host.number + 1} of {len(host.hosts)}: {ranks}, {self._launcher}")
        packages.install(self._runner)
        if len(host.hosts) == 1:
            return self._launch()
        names.wait_for(host.hosts, self._runner.check)
        return self._as_first() if host.number == 0 else self._as_other()

    def _as_first(self) -> int:
        first, client = FirstHost(self._port + 1, self._host.hosts[1:], self._runner.check), ""
        code, why = 1, ""
        try:
            key = ""
            if self._launcher in launchers.FROM_FIRST:
                key = ssh.make_key(self._place, "key")
                client = ssh.make_client(self._place, "key", self._port + 2)
            first.gather(key)
            code = self._launch(client)
            why = self._reason(ending.first(self._failures, self._heard), code) if code else ""
            return code
        except GaveUp as error:
            why = str(error)
            raise
        finally:
            stopped = self._runner.stopped
            others = first.end(STOPPED if stopped else code, STOPPED_WAIT_S if stopped else LAST_WORDS_S, why)
            self._by_others = [name for names in others.values() for name in names]
            for line in checkpoints.twice({self._host.name: self._written(), **others}):
                say(line)

    def _as_other(self) -> int:
        host = self._host
        other = OtherHost(host.hosts[0], self._port + 1, host.name, self._runner.check)
        try:
            if self._launcher in launchers.FROM_FIRST:
                address = names.address_of(host.name)
                self._server = ssh.start_server(self._place, other.key, address, self._port + 2)
            other.ready()
            if self._server:
                code, self._by_first = other.end_of_job()
            elif (code := self._launch()) and not ending.is_cause(ending.first(self._failures, self._heard)):
                self._by_first = other.reason(CAUSE_S)
            return code
        except Stopped:
            self._runner.wait_for_ranks()
            raise
        finally:
            other.close(self._written())

    def _written(self) -> list[str]:
        return checkpoints.written(self._host.base / "checkpoints", self._began)

    def _launch(self, client: str = "") -> int:
        host = self._host
        launch = launchers.Launch(
            self._launcher,
            host.hosts,
            host.number,
            self._ranks,
            host.interface,
            self._port,
            rank=place.words("sagemaker-rank"),
            ranks=place.words("sagemaker-ranks"),
            ssh=client,
        )
        environment = dict(self._environment)
        if client:
            environment["PATH"] = f"{Path(client).parent}:{environment.get('PATH', os.defpath)}"
        return self._runner.run(launchers.argv(launch, self._command), self._output.take, environment=environment)
