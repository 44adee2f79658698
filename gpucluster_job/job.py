"""The job on its first node: finds the nodes, runs the launcher, and writes result.json in every case.

usage: job LAUNCH_LINE... -- COMMAND...
"""

from __future__ import annotations

import os
import signal
import subprocess
import traceback
from contextlib import suppress
from typing import Any

from gpucluster_job import (
    around_proxy,
    chain,
    channels,
    elastic,
    element,
    failures,
    launch,
    make_containers,
    ourselves,
    placement,
    secret_file,
)
from gpucluster_job.ending import Ending, now, runs_again, stop_reason, write_result
from gpucluster_job.hang import Hang
from gpucluster_job.log import LauncherOutput, keep_sent, keep_times, say
from gpucluster_job.log_place import LogPlace
from gpucluster_job.metrics.process import Metrics
from gpucluster_job.network import NetworkError, Port, address_of
from gpucluster_job.packages.ready import prepare as prepare_packages
from gpucluster_job.preflight import broken_nodes
from gpucluster_job.preflight.checks import Preflight
from gpucluster_job.ram import Ram
from gpucluster_job.ranks import feeds
from gpucluster_job.ranks import rank as _rank  # noqa: F401 - compiled here once, before every rank reads it
from gpucluster_job.roles.servers import ServerErrors
from gpucluster_job.runner import TIMED_OUT, Runner, Stopped, ticks
from gpucluster_job.settings import GaveUp, Settings, host_names, plural
from gpucluster_job.task.phases import END, Phases
from gpucluster_job.task.run import Run
from gpucluster_job.wakeup import handle

STOPPED = 143
"""The exit code that a shell reports for a program ended by SIGTERM."""
MOST_LEFT = 3


def main(words: list[str]) -> int:
    keep_sent()
    return Job(*split(words)).run()


def split(words: list[str]) -> tuple[list[str], list[str]]:
    """Splits at the first `--`, which no launch line contains, into the launch line and the ranks' command."""
    at = words.index("--")
    return words[1:at], words[at + 1 :]


class Job:
    def __init__(self, line: list[str], command: list[str]) -> None:
        self._line, self._command = line, command
        self._settings, self._started_at = Settings.read(), now()
        self._log_start, self._log_place = _size(str(self._settings.log)), LogPlace(self._settings)
        self._runner, self._phase = Runner(), Phases(self._settings)
        self._hang = Hang(self._settings, self._on_each_node, self._end_ranks)
        self._metrics = Metrics(self._settings, self._log_start)
        self._servers = ServerErrors()
        self._output = LauncherOutput(self._hear)
        self._nodes: list[str] = []
        self._server_nodes: list[str] = []
        self._ending = Ending(code=0)
        self._port: Port | None = None
        self._failures = self._feeds = ""
        self._preflight: Preflight | None = None
        self._ram: Ram | None = None
        self._run = Run(self._runner, self._settings)
        self._settings.result.unlink(missing_ok=True)
        handle((signal.SIGUSR1, signal.SIGUSR2), self._signal_ranks)

    def run(self) -> int:
        times = keep_times(self._settings.log.with_name("log.times"), self._settings.runs_before + 1)
        with suppress(OSError):  # such as a full /home
            (self._settings.folder / "started").write_text(f"{self._started_at}\n", encoding="utf-8")
        self._metrics.start()
        try:
            self._phases()
        except Stopped:
            self._ending.code = STOPPED
        except (GaveUp, NetworkError) as error:
            self._ending = Ending(1, node=getattr(error, "node", ""), reason=str(error))
        except Exception as error:  # noqa: BLE001 - the job ends with a result, whatever happens
            traceback.print_exc()
            self._ending = Ending(1, reason=f"the job's own runtime failed: {type(error).__name__}: {error}")
        code = self._finish()
        times.note()
        return code

    def _phases(self) -> None:
        self._phase.begin("start")
        self._log_place.begin()
        self._command = element.enter(self._settings, self._command)
        secret_file.check(self._settings)
        self._find_nodes()
        self._preflight = Preflight(self._runner, self._settings, self._nodes)
        self._phase.begin("preflight")
        self._preflight.quick()
        self._phase.begin("packages")
        prepare_packages(self._runner, self._settings)
        self._phase.begin("data")
        self._ram = Ram(self._runner, self._settings, self._nodes)
        self._ram.make()
        chain.make_outputs()
        channels.prepare(self._runner, self._settings, self._nodes)
        self._run.prepare()
        self._phase.begin("containers")
        make_containers.make(self._runner, self._settings)
        self._phase.begin("preflight")
        self._preflight.full(self._line)
        self._preflight.watch_nccl(self._log_start)
        self._phase.begin("running")
        self._ending.code = self._launch()
        while left := self._left():
            lost = [node for node in self._nodes if node not in left]
            say(f"[launcher] lost {' '.join(lost)}: the ranks start again on {plural(len(left), 'node')}")
            self._nodes = left
            in_order = [node for node in os.environ["GPUCLUSTER_NODES"].split() if node in left]
            os.environ["GPUCLUSTER_NODES"] = " ".join(in_order)
            self._ending.code = self._launch()
        self._phase.begin("export")
        self._ram.export(self._ending.code)

    def _left(self) -> list[str]:
        """The nodes on which the ranks start again, because the job is elastic; none if it has ended."""
        ended = self._runner.stopped or self._run.reached_limit or self._hang.reason
        if not self._ending.code or ended:
            return []
        return elastic.left(self._settings, self._nodes, self._failures, self._runner)

    def _hear(self, line: bytes) -> None:
        self._hang.hear(line)
        if self._server_nodes or self._settings.has_roles:
            self._servers.hear(line)

    def _launch(self) -> int:
        assert self._preflight
        self._failures = failures.folder(f"run-{self._settings.runs_before}")
        os.environ["GPUCLUSTER_FAILURES"] = self._failures
        self._feeds = os.environ["GPUCLUSTER_FEEDS"] = feeds.folder(self._settings.folder, self._settings.runs_before)
        os.environ.update(self._hang.record())
        argv = launch.argv(self._line, self._command)
        limit = self._run.watch_limit(self._end_ranks)
        tick = ticks(self._watch_nccl if self._preflight.nccl else None, limit, self._hang.watch())
        return self._runner.run(argv, self._output.take, tick=tick)

    def _find_nodes(self) -> None:
        settings, environ = self._settings, os.environ
        self._nodes = _found(environ["SLURM_JOB_NODELIST"], settings.nodes, "nodes")
        if settings.server_nodes:
            several = environ["SLURM_JOB_NODELIST_HET_GROUP_1"]
            self._server_nodes = _found(several, settings.server_nodes, "nodes for servers")
        has_order = settings.launcher in placement.ORDERED and "--mpi" not in self._line  # Horovod over MPI: not tried
        in_order = placement.ordered(self._nodes, environ["SLURM_JOB_NODELIST"]) if has_order else self._nodes
        environ["GPUCLUSTER_NODES"] = " ".join(in_order)
        environ["MASTER_ADDR"] = address_of(self._nodes[0])
        environ.update(around_proxy.variables([*self._nodes, *self._server_nodes], environ))
        self._port = Port()
        environ["MASTER_PORT"], environ["WORLD_SIZE"] = str(self._port.number), str(settings.world_size)

    def _watch_nccl(self) -> float | None:
        assert self._preflight and self._preflight.nccl
        pause = self._preflight.nccl.look()
        if self._preflight.nccl.error:
            self._end_ranks()
        return pause

    def _signal_ranks(self, number: int, frame: Any) -> None:
        """Slurm sends the job's `signal` only to this process. We pass it on to the ranks' programs and to no other
        process of the job."""
        if not self._runner.runs(self._output.take):
            return
        name = signal.Signals(number).name
        say(f"[launcher] sending {name} to the ranks: the job is about to be stopped")
        self._run.warned = True
        self._on_each_node(ourselves.words("signal", name[len("SIG") :]))

    def _end_ranks(self) -> None:
        """Their programs first, because most launchers kill them at once. Slurm signals the programs of a job that it
        ends itself."""
        self._runner.end_after(self._on_each_node(ourselves.words("end")))

    def _on_each_node(self, command: list[str]) -> list[subprocess.Popen[bytes]]:
        return ourselves.on_each_node(self._nodes, command)

    def _finish(self) -> int:
        self._runner.ignore_signals()
        self._phase.begin("ending")
        stopped = self._runner.stopped
        if (stopped or self._run.reached_limit) and not self._ending.code:
            self._ending.code = STOPPED
        if self._hang.reason and not stopped:
            self._ending.code = TIMED_OUT
        found = self._finish_preflight()
        if self._ram:
            self._ram.let_go()
        if self._ending.code:
            self._explain()
        more = {**self._metrics.result(stopped=stopped), **found, **self._servers.result()}
        more.update(feeds.result(self._feeds, self._settings.world_size))
        more.update(self._hang.result())
        if pending := self._run.pending():
            self._write({**more, **pending})
        more.update(self._run.finish(self._ending))
        elsewhere = bool(self._preflight and self._preflight.drains) and not (stopped or self._run.goes_on)
        again = self._run.goes_on or elsewhere or (bool(self._ending.code) and runs_again(self._settings))
        if not again:
            secret_file.remove(self._settings)
        self._run.keep(self._write(more))
        if elsewhere and not broken_nodes.run_elsewhere(self._settings):
            again = False
            secret_file.remove(self._settings)
        if not again:
            self._log_place.end()  # last, because a large log may take longer than Slurm waits for a stopped job
        self._phase.begin(END)
        return self._ending.code

    def _write(self, more: dict[str, object]) -> dict[str, object]:
        nodes = [*self._nodes, *self._server_nodes]
        return write_result(self._settings, self._ending, nodes, self._started_at, more)

    def _finish_preflight(self) -> dict[str, object]:
        """A job that requires EFA has failed if it ran without it."""
        if not self._preflight:
            return {}
        nccl = self._preflight.nccl
        if nccl:
            nccl.finish()
            if nccl.error and not self._runner.stopped:
                self._ending = Ending(1, reason=nccl.error)
        return self._preflight.result()

    def _explain(self) -> None:
        """The rank that failed and its reason, or the launcher's exit code if no rank recorded a failure."""
        ending, failed = self._ending, failures.recorded(self._failures) if self._failures else []
        lost = self._output.words.lost_node
        if self._runner.stopped or (lost and not failed and not ending.reason):
            survives = self._runner.stopped and "MIN_NODES" in os.environ
            ending.reason = stop_reason(self._settings, self._log_start, lost, survives=survives)
            ending.reason = self._ram.lost(ending.reason) if self._ram else ending.reason
        elif self._run.reached_limit:
            ending.reason = self._run.limit_reason
        elif self._hang.reason:
            ending.reason = self._hang.reason
        elif not ending.reason and failed:
            first = self._hang.own(failed)[0]
            blame = self._hang.blame() if failures.waited(first.reason) else ""
            if blame:
                ending.code, ending.reason = first.code, f"{blame}; {first.who} on {first.node} says: {first.reason}"
                say(f"error: {ending.reason}")
                return
            ending.code, ending.label, ending.node = first.code, first.label, first.node
            ending.reason = first.reason + self._left_early()
            say(f"error: {first.who} on {first.node} exited with code {first.code}: {ending.reason}")
            return
        elif not ending.reason:
            ending.reason = f"{self._settings.launcher} exited with code {ending.code}: {self._output.words.last}"
            ending.reason += self._left_early()
        say(f"error: {ending.reason}")

    def _left_early(self) -> str:
        """Ranks of an elastic job that ended before the others, which then failed because of them."""
        left = failures.left_early(self._failures) if self._failures else []
        said = (f"{each.who} on {each.node} had exited with code 0" for each in left[:MOST_LEFT])
        return "".join(f"; {each}" for each in said) + ("; and others" if len(left) > MOST_LEFT else "")


def _found(node_list: str, expected: int, what: str) -> list[str]:
    nodes = host_names(node_list)
    if len(nodes) != expected:
        raise GaveUp(f"the job has {len(nodes)} {what} ({' '.join(nodes) or 'none'}), expected {expected}")
    return nodes


def _size(path: str) -> int:
    try:
        return os.stat(path).st_size
    except OSError:
        return 0
