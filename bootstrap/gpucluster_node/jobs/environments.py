"""On the head node: the state of the Python environments, and Slurm jobs that build missing ones.

usage: environments ensure NAME...     prints for each a line `NAME ready`, or `NAME JOB started` or `NAME JOB waiting`
       environments list               one JSON object: for each its folder, state, partition, job and last error
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path

from gpucluster_node import locks, slurm
from gpucluster_node.fleet import BUNDLE

ENVIRONMENTS = Path("/home/gpucluster/envs")
LOCK = Path("/run/gpucluster-environments.lock")
TIMEOUT_S = 60
LOCK_LIMIT_S = 180.0


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
    """Why the last attempt failed."""


def partitions(bundle: Path = BUNDLE) -> dict[str, str]:
    """Environment -> partition."""
    lines = (line.split() for line in (bundle / "environments/partitions").read_text().splitlines())
    return {name: partition for name, partition, _ in lines}


def folder(name: str) -> Path:
    """The folder of the environment that the newest bundle needs."""
    return ENVIRONMENTS / Path(os.readlink(ENVIRONMENTS / ".wanted" / name)).name


def log(name: str) -> Path:
    return ENVIRONMENTS / ".log" / f"{folder(name).name}.txt"


def job_name(name: str) -> str:
    return f"environment-{name}"


def sbatch_argv(name: str, partition: str) -> list[str]:
    """The command that submits the job: as root, so that no user can write to the environment; on a whole node, because
    compiling uses all processors."""
    build = ENVIRONMENTS / ".recipe/environments/build.sh"
    return [
        "sbatch", "--parsable", f"--job-name={job_name(name)}", f"--partition={partition}", "--nodes=1", "--exclusive",
        "--time=4:00:00", "--requeue", "--chdir=/", f"--output={log(name)}", f"--wrap=exec bash {build} {name}",
    ]  # fmt: skip


def parse_jobs(text: str) -> dict[str, str]:
    """From `squeue --format "%i %T %j"`: a job's name -> its id, unless it has ended."""
    found = (line.split(maxsplit=2) for line in text.splitlines() if line.strip())
    return {name: job for job, state, name in found if state not in slurm.OVER}


def last_error(name: str) -> str:
    try:
        lines = log(name).read_text(errors="replace").splitlines()
    except FileNotFoundError:
        return ""
    said = [line.removeprefix("error: ") for line in lines if line.startswith("error: ")]
    return said[-1] if said and lines[-1].startswith(("error: ", "slurmstepd", "srun")) else ""


def describe(name: str, partition: str, jobs: Mapping[str, str]) -> Environment:
    job, error = jobs.get(job_name(name), ""), ""
    if (folder(name) / "complete").exists():
        state = "ready"
    elif job:
        state = "being made"
    else:
        error = last_error(name)
        state = "failed" if error else "missing"
    return Environment(name, str(folder(name)), state, partition, job, error)


def listed() -> list[Environment]:
    jobs = parse_jobs(_run(slurm.jobs_argv("%i %T %j", "--user=root")))
    return [describe(name, partition, jobs) for name, partition in sorted(partitions().items())]


def ensure(names: list[str]) -> Iterator[str]:
    """Only one job at a time builds an environment, even if several users request it. No lock is held while the caller
    prints: a user may not read the other end of the pipe."""
    where = partitions()
    unknown = [name for name in names if name not in where]
    if unknown:
        raise SystemExit(f"error: no environment {unknown[0]!r} in this cluster, there are: {', '.join(sorted(where))}")
    try:
        with locks.held(LOCK, LOCK_LIMIT_S):
            jobs = parse_jobs(_run(slurm.jobs_argv("%i %T %j", "--user=root")))
            ensured = [_ensured(describe(name, where[name], jobs)) for name in names]
    except locks.HeldError as error:
        raise SystemExit(f"error: {error}") from None
    yield from ensured


def _ensured(environment: Environment) -> str:
    if environment.state == "ready":
        return f"{environment.name} ready"
    if environment.job:
        return f"{environment.name} {environment.job} waiting"
    log(environment.name).unlink(missing_ok=True)
    job = _run(sbatch_argv(environment.name, environment.partition)).strip().partition(";")[0]
    return f"{environment.name} {job} started"


def _run(argv: list[str]) -> str:
    done = subprocess.run(argv, capture_output=True, text=True, timeout=TIMEOUT_S, check=False)
    if done.returncode:
        raise SystemExit(f"error: {argv[0]}: {done.stderr.strip() or done.stdout.strip()}")
    return done.stdout


def main(verb: str, *names: str) -> None:
    if verb == "list":
        print(json.dumps([asdict(each) for each in listed()]))
        return
    for line in ensure(list(names)):
        print(line)


if __name__ == "__main__":
    main(*sys.argv[1:])
