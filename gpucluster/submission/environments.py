"""The cluster's Python environments as its head node tells of them, the jobs that make them, and what lies on top."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from gpucluster.head.remote import Completed, Remote
from gpucluster.job.script import ENVIRONMENTS, JOBS, PACKAGES

PROGRAM = ("sudo", "-n", "/opt/gpucluster/bin/node-program", "jobs.environments")
VERIFY = f"{ENVIRONMENTS}/.recipe/environments/verify.py"


@dataclass(frozen=True)
class Environment:
    name: str
    folder: str
    state: str
    """ready, being made, failed, or missing."""
    partition: str
    """Whose nodes make it."""
    job: str
    """That makes it, or empty."""
    error: str
    """Why it could not be made the last time."""


@dataclass(frozen=True)
class Build:
    """A job that makes an environment."""

    environment: str
    job_id: str
    started: bool
    """False: it was under way already."""

    @property
    def told(self) -> str:
        how = "builds" if self.started else "is building"
        return f"the environment {self.environment} is missing: job {self.job_id} {how} it, once for this cluster"


@dataclass(frozen=True)
class Overlay:
    """Jobs' own packages on top of an environment (`gpucluster_job/overlay.py`)."""

    environment: str
    """The folder's name."""
    requirements: tuple[str, ...]
    state: str
    """ready, being made, failed, or unfinished."""
    error: str
    jobs: tuple[str, ...]
    """Those that are queued or run."""
    folder: str


def parse_builds(text: str) -> list[Build]:
    """Of what `ensure` prints. Those that are ready have none."""
    words = (line.split() for line in text.splitlines())
    return [Build(each[0], each[1], each[2] == "started") for each in words if len(each) == 3]


def listed(remote: Remote) -> list[Environment]:
    done = remote.run([*PROGRAM, "list"]).check("cannot list the environments")
    return [Environment(**each) for each in json.loads(done.stdout)]


def ensure(remote: Remote, names: Sequence[str]) -> list[Build]:
    """Raises RemoteError."""
    return parse_builds(remote.run([*PROGRAM, "ensure", *names]).check("cannot build the environments").stdout)


def overlays(remote: Remote) -> list[Overlay]:
    """The login user's."""
    return [
        Overlay(**each | {"requirements": tuple(each["requirements"]), "jobs": tuple(each["jobs"])})
        for each in json.loads(_overlay(remote, "list"))
    ]


def prune(remote: Remote) -> list[str]:
    """Deletes those that no job uses; their folders."""
    folders: list[str] = json.loads(_overlay(remote, "prune"))
    return folders


def _overlay(remote: Remote, verb: str) -> str:
    """The head node has this program only in folders of jobs."""
    program = (PACKAGES[0] / "overlay.py").read_bytes()
    done = remote.run(["/usr/bin/python3", "-IS", "-", verb, JOBS], input=program, timeout_s=300)
    return done.check("cannot list the jobs' own packages").stdout


def log(environment: Environment) -> str:
    """Where the job that makes it writes."""
    return f"{ENVIRONMENTS}/.log/{environment.folder.rpartition('/')[2]}.txt"


def verify(remote: Remote, environment: Environment, *, timeout_s: float) -> Completed:
    """On a node of its partition, which may have to boot."""
    lock = f"{ENVIRONMENTS}/.recipe/environments/{environment.name}.txt"
    where = [f"--partition={environment.partition}", "--nodes=1", "--ntasks=1", f"--job-name=verify-{environment.name}"]
    argv = ["srun", "--quiet", "--exclusive", *where, f"{environment.folder}/bin/python", VERIFY, lock]
    return remote.run(argv, timeout_s=timeout_s)


def unmade(environments: Sequence[Environment]) -> Iterator[str]:
    """Why, of each that could not be made."""
    for each in environments:
        if each.state == "failed":
            yield each.error
