"""The cluster's Python environments as its head node lists them, the jobs that build them, and jobs' own packages."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from gpucluster import account
from gpucluster.head.remote import Completed, Remote
from gpucluster.job.library import PACKAGES
from gpucluster.job.script import ENVIRONMENTS

PROGRAM = ("sudo", "-n", "/opt/gpucluster/bin/node-program", "jobs.environments")
VERIFY = f"{ENVIRONMENTS}/.recipe/environments/verify.py"


@dataclass(frozen=True)
class Environment:
    name: str
    folder: str
    state: str
    """ready, being made, failed, or missing."""
    partition: str
    """The partition whose nodes build it."""
    job: str
    """The job that builds it, or empty."""
    error: str
    """The reason why the last build failed."""


@dataclass(frozen=True)
class Build:
    """A job that builds an environment."""

    environment: str
    job_id: str
    started: bool
    """False: the job was already pending or running."""

    @property
    def description(self) -> str:
        how = "builds" if self.started else "is building"
        return f"the environment {self.environment} is missing: job {self.job_id} {how} it, once for this cluster"


@dataclass(frozen=True)
class Overlay:
    """A folder of jobs' own packages on top of an environment (`gpucluster_job/packages/overlay.py`)."""

    environment: str
    """The folder's name."""
    requirements: tuple[str, ...]
    state: str
    """ready, being made, failed, or unfinished."""
    error: str
    jobs: tuple[str, ...]
    """Pending and running jobs."""
    folder: str


def parse_builds(text: str) -> list[Build]:
    """Parses the output of `ensure`, which has no line for an environment that is ready."""
    words = (line.split() for line in text.splitlines())
    return [Build(each[0], each[1], each[2] == "started") for each in words if len(each) == 3]


def listed(remote: Remote) -> list[Environment]:
    done = remote.run([*PROGRAM, "list"]).check("cannot list the environments")
    return [Environment(**each) for each in json.loads(done.stdout)]


def ensure(remote: Remote, names: Sequence[str]) -> list[Build]:
    """Raises RemoteError."""
    return parse_builds(remote.run([*PROGRAM, "ensure", *names]).check("cannot build the environments").stdout)


def overlays(remote: Remote) -> list[Overlay]:
    """The login user's overlays."""
    return [
        Overlay(**each | {"requirements": tuple(each["requirements"]), "jobs": tuple(each["jobs"])})
        for each in json.loads(_overlay(remote, "list"))
    ]


def prune(remote: Remote) -> list[str]:
    """Deletes the overlays that no job uses, and returns their folders."""
    folders: list[str] = json.loads(_overlay(remote, "prune"))
    return folders


def _overlay(remote: Remote, verb: str) -> str:
    """Runs the overlay program. The head node has it only in jobs' folders."""
    program = (PACKAGES[0] / "packages" / "overlay.py").read_bytes()
    done = remote.run(["/usr/bin/python3", "-IS", "-", verb, account.jobs()], input=program, timeout_s=300)
    return done.check("cannot list the jobs' own packages").stdout


def log(environment: Environment) -> str:
    """The log of the job that builds the environment."""
    return f"{ENVIRONMENTS}/.log/{environment.folder.rpartition('/')[2]}.txt"


def verify(remote: Remote, environment: Environment, *, timeout_s: float) -> Completed:
    """Verifies the environment on a node of its partition, which may have to boot first."""
    lock = f"{ENVIRONMENTS}/.recipe/environments/{environment.name}.txt"
    where = [f"--partition={environment.partition}", "--nodes=1", "--ntasks=1", f"--job-name=verify-{environment.name}"]
    argv = ["srun", "--quiet", "--exclusive", *where, f"{environment.folder}/bin/python", VERIFY, lock]
    return remote.run(argv, timeout_s=timeout_s)


def unmade(environments: Sequence[Environment]) -> Iterator[str]:
    """The reasons of those that could not be built."""
    for each in environments:
        if each.state == "failed":
            yield each.error
