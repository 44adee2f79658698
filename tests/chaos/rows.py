"""A row of the chaos table: one fault on booted nodes, what its user saw, and what was left when it was over."""

from __future__ import annotations

import json
import re
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from itertools import pairwise
from pathlib import Path
from typing import Any

from bed import Bed, wait_for
from table import Cells

from localcloud.testing.patience import stretched

ANSWER = "the answer is 5050"
"""The last line of a job that did all of its work."""
ENDED = ("COMPLETED", "FAILED", "CANCELLED", "TIMEOUT", "OUT_OF_MEMORY")
FAILED = "**the row failed**"
"""The outcome, in the table."""
ERROR = re.compile(r"\[[^]]*\] (error|fatal): ")
"""A line of slurmctld's log. A node's reason may quote a slurmd's `fatal:`."""
SERVICES = ("slurmctld", "slurmdbd", "gpucluster-power")
"""Services of the head node. systemd starts them again whenever they end."""
SLURM_SAVES_WITHIN_S = 10
"""SAVE_MAX_WAIT in slurmctld/state_save.c is five seconds; a job that started since then would run again."""
GRACE_S = 330
"""A node is tried again 300 s after its boot failed, and an instance without a node is terminated after 60 s."""
USUAL = re.compile(
    r"|\[\d+ [a-z]+-\d+\] .*|job \d+ ((is starting|runs|is completing) on \S+|completed"
    r"|is pending: (it is next in the queue|Slurm has not considered it yet).*)"
)
"""What `gpucluster logs -f` prints of a job that nothing happens to: the lines of its ranks, its start and its end."""


def counting(seconds: int) -> list[str]:
    """A command that needs this long and whose last line proves that it did all of its work."""
    count = f'sum=0; for i in $(seq 100); do sum=$((sum + i)); sleep {seconds / 100}; done; echo "the answer is $sum"'
    return ["bash", "-c", f"echo started; {count}"]


def waiting(before: str = "", meanwhile: str = "") -> list[str]:
    """A command that does the rest of its work after `Job.goes_on`. meanwhile: once a second."""
    until = f"until [ -e $GPUCLUSTER_JOB_DIR/go-on ]; do {meanwhile}sleep 1; done"
    return ["bash", "-c", f"{before}echo started; {until}; echo {ANSWER}"]


class Followed:
    """`gpucluster logs -f JOB` in a terminal of its own."""

    def __init__(self, bed: Bed, job_id: str) -> None:
        self._lines: list[str] = []
        self._at: list[float] = []
        self._process = bed.start("logs", "-f", job_id)
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self) -> None:
        assert self._process.stdout
        for line in self._process.stdout:
            self._lines.append(line.rstrip("\n"))
            self._at.append(time.monotonic())

    @property
    def text(self) -> str:
        return "\n".join(self._lines)

    @property
    def longest_silence_s(self) -> float:
        """The longest time between two lines."""
        return max((later - earlier for earlier, later in pairwise(self._at)), default=0.0)

    @property
    def ended(self) -> bool:
        return self._process.poll() is not None

    def ends(self) -> None:
        wait_for("the end of `gpucluster logs -f`", lambda: self.ended, 120)

    def kill(self) -> None:
        self._process.kill()
        self._process.wait()
        self._reader.join(10)
        if self._process.stdout and not self._reader.is_alive():
            self._process.stdout.close()


@dataclass
class Job:
    bed: Bed
    id: str
    folder: str
    followed: Followed | None = None

    @property
    def log(self) -> str:
        return self.bed.ssh("sh", "-c", f"cat {self.folder}/log.txt 2>/dev/null || :")

    @property
    def state(self) -> str:
        """Slurm's word, which slurmctld keeps for an hour (MinJobAge) and the accounts longer."""
        ask = f"squeue -h -t all -j {self.id} -o %T 2>/dev/null | grep . || sacct -X -n -P -o State -j {self.id}"
        return (self.bed.ssh("sh", "-c", f"{ask} || :").split() or [""])[0]

    @property
    def nodes(self) -> list[str]:
        """Those of its last run, also after its end."""
        listed = self.bed.ssh("squeue", "-h", "-t", "all", "-j", self.id, "-o", "%N").strip()
        return self.bed.ssh("scontrol", "show", "hostnames", listed).split() if listed else []

    def wait_until(self, what: str, count: int = 1, limit_s: float = 300) -> None:
        """Until its log has this text so many times."""
        wait_for(f"{count} x {what!r} in the log of job {self.id}", lambda: self.log.count(what) >= count, limit_s)

    def ends(self, limit_s: float = 400) -> str:
        """The state in which it ends."""
        wait_for(f"the end of job {self.id}", lambda: self.state in ENDED, limit_s)
        return self.state

    def completes(self, limit_s: float = 400) -> None:
        """Waits for its end, and asserts that it did all of its work."""
        assert (state := self.ends(limit_s)) == "COMPLETED", f"{state}: {self.log}"
        assert ANSWER in self.log, self.log

    def goes_on(self) -> None:
        """Lets a job of `waiting` end. Its user sees that."""
        self.bed.ssh("touch", f"{self.folder}/go-on")
        self.completes()
        if followed := self.followed:
            followed.ends()
            assert ANSWER in followed.text, followed.text

    def is_same_process(self) -> None:
        self.goes_on()
        assert self.log.count("started") == 1, self.log


@dataclass
class Row:
    """What a row's test does, and the cells that it fills."""

    fault: str
    bed: Bed
    partitions: tuple[str, ...] = ()
    """Those that only this row uses, or none: the row runs alone and uses any. Its jobs are in the first one."""
    saw: str = ""
    outcome: str = ""
    leaked: int = 0
    lost: int = 0
    killed: tuple[str, ...] = ()
    """Services of the head node that the row kills, once each. All others of SERVICES must not end by themselves."""
    started_again: dict[str, int] = field(default_factory=dict)
    jobs: list[Job] = field(default_factory=list)
    _faults: list[str] = field(default_factory=list)
    _began: float = 0.0
    _since: str = ""
    _seconds: float = 0.0

    @property
    def cells(self) -> Cells:
        return Cells(self.fault, self.saw, self.outcome, round(self._seconds), self.leaked, self.lost)

    @property
    def own(self) -> tuple[str, ...]:
        """The option of Slurm's commands for the row's partitions."""
        return ("-p", ",".join(self.partitions)) if self.partitions else ()

    @property
    def options(self) -> tuple[str, ...]:
        """The options of each submission: one rank on each node, and no files of the user."""
        own = self.bed.folder / "empty"
        own.mkdir(exist_ok=True)
        return "--launcher", "srun", "--ntasks-per-node", "1", "--preflight", "off", "--workdir", str(own)

    def submit(self, *arguments: str, follow: bool = False) -> Job:
        """A job that the row must not lose, with one rank on each node. follow: a user watches it meanwhile."""
        own = ("--partition", self.partitions[0]) if self.partitions and "--partition" not in arguments else ()
        submitted = self.bed.submit(*self.options, *own, *arguments)
        job = Job(self.bed, str(submitted.last["job_id"]), submitted.last["folder"])
        if follow:
            followed = job.followed = Followed(self.bed, job.id)
            wait_for("the followed log's first line", lambda: followed.text, 60)
        self.jobs.append(job)
        return job

    def running(self, *arguments: str, follow: bool = False) -> Job:
        """A job whose program has started on all of its nodes, and which ends after `Job.goes_on`."""
        job = self.submit(*arguments, "--", *waiting(), follow=follow)
        wait_for(f"job {job.id} to run", lambda: job.state == "RUNNING", 300)
        job.wait_until("started", max(1, len(job.nodes)))
        return job

    def settled(self) -> Job:
        """A running job that Slurm has written to its state, followed by its user."""
        job = self.running("--nodes", "1", follow=True)
        time.sleep(stretched(SLURM_SAVES_WITHIN_S))
        return job

    def fault_add(self, kind: str, *options: str) -> None:
        """A fault of the local cloud."""
        done = self.bed.localcloud("fault", "add", kind, *options)
        assert done.returncode == 0, done.stderr
        if fault := json.loads(done.stdout).get("id"):
            self._faults.append(fault)

    def fault_of(self, node: str, kind: str, *options: str) -> None:
        """A fault of the node's instance."""
        self.fault_add(kind, "--instance-id", self.bed.instance_of(node), *options)

    def clear(self) -> None:
        """Removes the row's faults."""
        while self._faults:
            self.bed.localcloud("fault", "clear", self._faults.pop())

    def kills(self, service: str) -> None:
        """With SIGKILL. systemd starts it again."""
        self.bed.ssh("sudo", "systemctl", "kill", "--signal=KILL", "--kill-whom=main", service)
        self.killed += (service,)

    def begins(self) -> None:
        """The fault is caused now."""
        self._began = time.monotonic()
        self._since = f"{datetime.now(UTC):%Y-%m-%dT%H:%M:%S}"

    def ends(self, outcome: str) -> None:
        """All is well again, in these words."""
        self.outcome, self._seconds = outcome, time.monotonic() - self._began

    def why(self, job: Job, words: str, limit_s: float = 180) -> str:
        """The line of `gpucluster why` that has these words, as soon as there is one: what the user saw."""
        return self._line("why", words, limit_s, job.id)

    def status(self, words: str, limit_s: float = 180) -> str:
        return self._line("status", words, limit_s)

    def sees_nothing(self, *jobs: Job) -> None:
        """Asserts that nobody who followed these jobs to their end read of the fault, and that `status` has not either.

        A node keeps the reason for which it was out of service when it is back.
        """
        for followed in (job.followed for job in jobs):
            assert followed
            followed.ends()
            unusual = [line for line in followed.text.splitlines() if not USUAL.fullmatch(line)]
            assert not unusual, f"`gpucluster logs -f` says:\n{followed.text}"
        report = self.bed.status()
        own = [each["nodes"] for each in report["partitions"] if each["name"] in (self.partitions or each["name"])]
        troubled = [node for nodes in own for node in nodes if _troubled(node, self._since)]
        assert not (report["problem"] or troubled), f"`gpucluster status` says: {report['problem']} {troubled}"
        self.saw = "nothing"

    def _line(self, verb: str, words: str, limit_s: float, *arguments: str) -> str:
        def text() -> str:
            done = self.bed.gpucluster(verb, *arguments, timeout_s=stretched(120))
            return done.stdout + done.stderr

        return self._sees(verb, words, text, limit_s)

    def follows(self, job: Job, words: str, limit_s: float = 180) -> str:
        """The line with these words, in the terminal of the user who follows the job."""
        assert job.followed
        followed = job.followed

        def text() -> str:
            ended, found = followed.ended, followed.text
            assert words in found or not ended, f"`gpucluster logs -f` has ended without {words!r}:\n{found}"
            return found

        return self._sees("logs -f", words, text, limit_s)

    def _sees(self, verb: str, words: str, text: Callable[[], str], limit_s: float) -> str:
        """The first line of the command's output with these words. The first one of a row is its cell."""
        last = [""]

        def look() -> str:
            last[0] = text()
            return next((line.strip() for line in last[0].splitlines() if words in line), "")

        try:
            line: str = wait_for(f"{words!r} in `gpucluster {verb}`", look, limit_s)
        except AssertionError as error:
            raise AssertionError(f"{error}; it says:\n{last[0]}") from None
        self.saw = self.saw or f"`{verb}`: {line}"
        return line


@contextmanager
def at_rest_afterwards(row: Row) -> Iterator[None]:
    """Afterwards nothing may be left: no fault, no job, no node that is down, no instance without a node.

    The jobs of a row that failed are cancelled, also one whose submission was interrupted.
    """
    yield
    row.clear()
    if not row.outcome:
        for partition in row.partitions or ("",):
            row.bed.ssh("sh", "-c", f"scancel --user=$USER --partition={partition}".removesuffix(" --partition="))
    for followed in (job.followed for job in row.jobs if job.followed):
        followed.kill()
    wait_for("an empty queue", lambda: not row.bed.ssh("squeue", "-h", *row.own, "-o", "%i").strip(), 120)
    wait_for("nodes at rest", lambda: not _restless(row), GRACE_S)
    row.leaked, row.lost = _leaked(row), sum(job.state not in ENDED for job in row.jobs)
    row.started_again = started_again(row.bed)


def started_again(bed: Bed) -> dict[str, int]:
    """Service -> how often it has ended and systemd has started it again, since the last call. `systemctl restart` does
    not count, and sets the count to 0 (service_enter_dead in systemd's src/core/service.c), as reset-failed does."""
    services = " ".join(SERVICES)
    ask = f"systemctl show --property=NRestarts --value {services} && systemctl reset-failed {services}"
    counts = map(int, bed.ssh("sudo", "sh", "-c", ask).split())
    return {service: count for service, count in zip(SERVICES, counts, strict=True) if count}


def _troubled(node: Mapping[str, Any], since: str) -> bool:
    """A node of `status --json` that is out of service or does not respond, or was so since that time."""
    out_of_service = not node["available"] or (node["reason"] and node["since"] >= since)
    return out_of_service or "does not respond" in node["words"]


def states(row: Row) -> dict[str, str]:
    """Node of the row's partitions -> its short state in sinfo: `idle~` is powered off, `idle*` does not answer."""
    lines = row.bed.ssh("sinfo", "-h", "-N", *row.own, "-o", "%n %t").splitlines()
    return dict((line.split()[0], line.split()[1]) for line in lines)


def _restless(row: Row) -> list[str]:
    """Nodes that are neither idle nor powered off."""
    return [node for node, state in states(row).items() if state not in ("idle", "idle~")]


def _leaked(row: Row) -> int:
    """Instances whose node is powered off or has a newer one, or which have none, for longer than the grace of
    reconcile."""

    def left() -> set[str]:
        nodes = {id_: each["node"] for id_, each in row.bed.instances("compute").items()}
        newest = {node: id_ for id_, node in nodes.items()}
        on = {node for node, state in states(row).items() if not state.endswith("~")}
        whose = ("", *row.partitions)
        return {
            id_
            for id_, node in nodes.items()
            if (node not in on or newest[node] != id_) and (not row.partitions or node.rpartition("-")[0] in whose)
        }

    first = left()
    limit = time.monotonic() + stretched(120)
    while first and time.monotonic() < limit:
        time.sleep(2)
        first &= left()
    return len(first)


def explain_errors(bed: Bed) -> None:
    """Every kind of error in slurmctld's log has an explanation, also one that ended slurmctld (`fatal:`). The log ends
    with the head node."""
    lines = bed.ssh("sudo", "cat", "/var/log/slurm/slurmctld.log").splitlines()
    text = Path(__file__).with_name("explained-errors.txt").read_text()
    explained = [line for line in text.splitlines() if line[:1] not in ("", "#")]
    errors = [line for line in lines if ERROR.match(line)]
    unexplained = [line for line in errors if not any(re.search(each, line) for each in explained)]
    assert not unexplained, "errors of slurmctld without an explanation:\n" + "\n".join(unexplained)
