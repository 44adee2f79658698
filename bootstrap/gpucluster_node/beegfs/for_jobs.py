"""A file system in the memory of one job's nodes, from the job's start to its end. Runs on each of its nodes.

usage: job_ram serve JOB_ID FOLDER NODE...      as root: services; the first node returns when all have registered
       job_ram mount                            as root, once `serve` has returned everywhere
       job_ram fill|export [PART OF]            as the job's user: a node's share of the files
       job_ram watch JOB_ID FOLDER PID NODE...  requeues the job when a node no longer serves, or ends PID
       job_ram release                          as root, Slurm's Epilog: writes back what the job could not, ends all

FOLDER is the job's, on shared storage: nodes write messages for each other there. The first node manages.
"""

from __future__ import annotations

import json
import os
import pwd
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from gpucluster_node import fleet
from gpucluster_node.aws import JOB_CREDENTIALS_URL, JOB_CREDENTIALS_VARIABLE
from gpucluster_node.beegfs import files
from gpucluster_node.locations import Refused

STATE = Path("/run/gpucluster/job-ram.json")
PROGRAM = "/opt/gpucluster/bin/job-ram"
SERVICES = fleet.BUNDLE / "beegfs.sh"
RECORDS = "/run/gpucluster/job-ram-management"
MANAGEMENT_PORT, STORAGE_PORT, METADATA_PORT = 8008, 8003, 8005
READY_S = 120
"""How long all nodes together may take until every server has registered."""
CONNECT_S, WATCH_INTERVAL_S = 5.0, 5.0
LOST_AFTER = 3
"""Checks in a row without an answer: a busy server answers late."""
EXPORTED, ENDED, LOST = "exported", "ended", "lost"
"""Files in the job's folder: the job exported everything itself; the first node has finished with the data; the node
whose part is lost."""


@dataclass(frozen=True)
class Job:
    """One node's part of the file system, kept in /run until the node is released."""

    id: str
    user: str
    folder: str
    nodes: tuple[str, ...]
    number: int
    """This node's index in the list, from 0."""
    mount: str
    export: str | None
    generation: str
    """Differs between two creations, so that nothing of an earlier one counts for the next."""

    @property
    def variables(self) -> dict[str, str]:
        """The variables of beegfs.sh."""
        return {"MANAGEMENT": address(self.nodes[0]), "NUMBER": str(self.number + 1), "GENERATION": self.generation}

    @property
    def word(self) -> Path:
        """Where the nodes write their messages."""
        return Path(self.folder, "ram")


def settings() -> dict[str, Any]:
    found: dict[str, Any] = json.loads((fleet.BUNDLE / "beegfs.json").read_text())
    return found


def serve(job_id: str, folder: str, *nodes: str) -> None:
    """Ends a leftover of an earlier job first: its node may have lost power before its epilog."""
    end()
    known, this = settings(), socket.gethostname().partition(".")[0]
    if this not in nodes:
        raise Refused(f"{this} is not a node of the job: {' '.join(nodes)}")
    user = pwd.getpwuid(int(os.environ.get("SUDO_UID", "0"))).pw_name
    generation = f"{job_id}-{time.time_ns()}"
    job = Job(job_id, user, folder, nodes, nodes.index(this), known["mount"], known["export"], generation)
    STATE.parent.mkdir(parents=True, exist_ok=True)
    STATE.write_text(json.dumps(asdict(job)))
    try:
        _serve(job)
    except Refused:
        end()
        raise


def _serve(job: Job) -> None:
    first, until = job.nodes[0], time.monotonic() + READY_S
    if job.number == 0:
        _as(job.user, "rm", "-f", str(job.word / EXPORTED), str(job.word / ENDED))
        services("management", job.variables)
    _await(f"the management service of {first}", lambda: answers(first, MANAGEMENT_PORT), until)
    services("server", job.variables)
    # Only its own node has the certificate for the query.
    if job.number == 0:
        expected = {"meta": len(job.nodes), "storage": len(job.nodes)}
        _await(f"all servers of {len(job.nodes)} nodes", lambda: registered(job) == expected, until)


def mount() -> None:
    job = _held()
    if job is None:
        raise Refused("no file system of this job is here")
    services("client", job.variables)
    own = Path(job.mount, files.OWN)
    own.mkdir(exist_ok=True)
    shutil.chown(own, job.user, job.user)


def _await(what: str, probe: Callable[[], bool], until: float) -> None:
    while not probe():
        if time.monotonic() > until:
            raise Refused(f"{what} did not start within {READY_S} s")
        time.sleep(0.2)


def registered(job: Job) -> dict[str, int]:
    """How many servers of each kind have registered. Nothing while management does not answer: one of its ports opens
    later."""
    try:
        lines = services("list", job.variables).splitlines()
    except Refused:
        return {}
    return {kind: sum(line.startswith(f"{kind} ") for line in lines) for kind in ("meta", "storage")}


def services(verb: str, variables: Mapping[str, str] | None = None) -> str:
    """The output of beegfs.sh. Raises Refused with its last line."""
    environment = {**os.environ, "FOLDER": RECORDS, **(variables or {})}
    argv = ["bash", str(SERVICES), verb]
    done = subprocess.run(argv, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, env=environment)
    if done.returncode:
        said = [line for line in done.stdout.splitlines() if line.strip()] or [f"it exited with code {done.returncode}"]
        raise Refused(f"{verb}: {said[-1].strip()}")
    return done.stdout


def address(node: str) -> str:
    return f"{node}.{fleet.load().zone}"


def answers(node: str, port: int) -> bool:
    try:
        socket.create_connection((address(node), port), CONNECT_S).close()
    except OSError:
        return False
    return True


def serves(node: str) -> bool:
    return answers(node, STORAGE_PORT) and answers(node, METADATA_PORT)


def watch(job_id: str, folder: str, pid: str, *nodes: str) -> None:
    lost, mount = _first_lost(nodes), settings()["mount"]
    Path(folder, "ram", LOST).write_text(f"{lost}\n")
    print(f"[ram] lost: {lost} and its part of {mount}; data only in {mount} is lost", flush=True)
    requeued = subprocess.run(["scontrol", "requeue", job_id], capture_output=True, text=True)
    if requeued.returncode:
        print(f"[ram] the job is not requeued but ended: {requeued.stderr.strip()}", flush=True)
        os.kill(int(pid), signal.SIGTERM)


def _first_lost(nodes: Sequence[str]) -> str:
    """Returns when there is one."""
    silent = dict.fromkeys(nodes, 0)
    while True:
        for node in nodes:
            silent[node] = 0 if serves(node) else silent[node] + 1
            if silent[node] >= LOST_AFTER:
                return node
        time.sleep(WATCH_INTERVAL_S)


def release() -> None:
    """Slurm drains a node whose epilog fails: a node whose memory is still in use must get no other job."""
    job = _held()
    if job is None or os.environ.get("SLURM_JOB_ID", job.id) != job.id:
        return  # a job that ends has no other
    if job.export and not (job.word / EXPORTED).exists():
        if job.number == 0:
            _write_back(job)
            _as(job.user, "touch", str(job.word / ENDED))
        else:
            _await_first(job)
    end()


def _held() -> Job | None:
    try:
        found = json.loads(STATE.read_text())
    except FileNotFoundError:
        return None
    return Job(**{**found, "nodes": tuple(found["nodes"])})


def _write_back(job: Job) -> None:
    """The job was stopped before its export. If a server is lost, half of each file is lost: nothing overwrites the
    safe copy."""
    lost = [node for node in job.nodes if not serves(node)]
    if lost:
        return _tell(job, f"warning: nothing is exported: {', '.join(lost)} and its part of {job.mount} are lost")
    argv = [PROGRAM, "export", "0", "1"]
    done = subprocess.run(as_user(job.user, *argv), stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    said = done.stdout.strip().splitlines() or [f"error: it exited with code {done.returncode}"]
    return _tell(job, said[-1] if done.returncode == 0 else f"{said[-1]}; files that did not get there are lost")


def _tell(job: Job, line: str) -> None:
    """Writes to the job's log as the job's user, who owns the file."""
    print(line, flush=True)
    _as(job.user, "sh", "-c", 'echo "$1" >>"$2"', "sh", f"[ram] {line}", f"{job.folder}/log.txt")


def _await_first(job: Job) -> None:
    """Waits: this part is needed until the first node has exported the data, or is lost itself."""
    silent = 0
    while not (job.word / ENDED).exists() and silent < LOST_AFTER:
        silent = 0 if answers(job.nodes[0], MANAGEMENT_PORT) else silent + 1
        time.sleep(1)


def end() -> None:
    """Ends every part that exists. Raises Refused if memory stays in use."""
    services("leave")
    STATE.unlink(missing_ok=True)


def as_user(user: str, *argv: str) -> list[str]:
    return ["runuser", "-u", user, "--", "env", f"{JOB_CREDENTIALS_VARIABLE}={JOB_CREDENTIALS_URL}", *argv]


def _as(user: str, *argv: str) -> None:
    subprocess.run(as_user(user, *argv), check=False)


def copy(verb: str, *share: str) -> None:
    """A job's step knows its share from Slurm."""
    known = settings()
    if location := known[{"fill": "source", "export": "export"}[verb]]:
        os.environ.setdefault(JOB_CREDENTIALS_VARIABLE, JOB_CREDENTIALS_URL)
        mine = share or (os.environ.get("SLURM_PROCID", "0"), os.environ.get("SLURM_NTASKS", "1"))
        print(f"{_name()}: {files.main(verb, known['mount'], location, *mine)}", flush=True)


def main(verb: str, *words: str) -> None:
    work: dict[str, Callable[..., None]] = {"serve": serve, "mount": mount, "watch": watch, "release": release}
    copy(verb, *words) if verb in ("fill", "export") else work[verb](*words)


def _name() -> str:
    return socket.gethostname().partition(".")[0]


def _run(words: Sequence[str]) -> int:
    try:
        main(*words)
    except Refused as refusal:
        print(f"error: {_name()}: {refusal}", file=sys.stderr, flush=True)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(_run(sys.argv[1:]))
