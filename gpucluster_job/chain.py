"""Chains of jobs. On the head node, before a job is queued: which runs of other tasks it waits for.

usage: chain JOB            prints `:ID` for each job that Slurm must wait for
       chain JOB outputs    after the job is queued: declares its outputs

Exit code 3: refused, and stderr says why.

JOB/waits then has a line for each run that the job depends on: its id, `queued` or `done`, and its name. An output is
a folder in the task's folder `outputs`, or a link to another folder.
"""

from __future__ import annotations

import hashlib
import json
import os
import sys
from difflib import get_close_matches
from pathlib import Path
from typing import Any, NamedTuple

from gpucluster_job import elements
from gpucluster_job.settings import GaveUp
from gpucluster_job.task import check
from gpucluster_job.task.asked import Asked

REFUSED = 3
OUTPUT = "GPUCLUSTER_OUTPUT_"


class Refused(Exception):
    pass


class Run(NamedTuple):
    """A run of a task, or another job, that the job waits for or has waited for."""

    job_id: str
    queued: bool
    what: str
    depends_on: tuple[str, ...] = ()
    """The jobs for Slurm to wait for: for an array, also those in which elements ran again."""
    made_by: str = ""
    """The newest runs of its elements."""

    @property
    def line(self) -> str:
        return f"{self.job_id} {'queued' if self.queued else 'done'} {self.what}\n"


def main(words: list[str]) -> int:
    job = Path(words[1])
    asked = json.loads((job / "chain.json").read_text(encoding="utf-8"))
    if words[2:] == ["outputs"]:
        _declare(asked["outputs"], asked["folder"])
        return 0
    try:
        found = [run for each in asked["waits"] for run in _runs(each, Path(asked["tasks"]), job)]
        _check_own(asked["outputs"], asked["folder"])
    except Refused as error:
        print(f"error: {error}", file=sys.stderr)
        return REFUSED
    (job / "waits").write_text("".join(each.line for each in found), encoding="utf-8")
    _compare(job, found)
    ids = (job_id for each in found if each.queued for job_id in each.depends_on or (each.job_id,))
    print("".join(f":{job_id}" for job_id in dict.fromkeys(ids)))
    return 0


def _runs(wait: dict[str, Any], tasks: Path, job: Path) -> list[Run]:
    """Raises Refused."""
    if "job_id" in wait:
        return _job(wait["job_id"], job.parent)
    label, key = wait["label"], wait["key"]
    folder = tasks / label
    if not _is_task(folder):
        raise Refused(f"{key}: there is no task {label}{_known(label, _labels(tasks))}")
    _check_output(wait, folder)
    asked, what = Asked(job, folder=str(folder)), f"the task {label}"
    queued_last = check.latest_queued(asked)
    if queued_last and (arrays := list(elements.arrays(job.parent / queued_last[1]))):
        return _array(job.parent / queued_last[1], arrays[0], key, what)
    if job_id := check.queued(asked):
        return [Run(job_id, True, what)]
    last = check.latest(asked)
    if last is None or last["exit_code"]:
        left_none = f"job {queued_last[0]} has no result" if queued_last else "its last job has no result"
        said = f"job {last['job_id']} failed: {last['reason']}" if last else left_none
        raise Refused(f"{key}: {what} has not succeeded: {said}; submit it again first")
    return [Run(last["job_id"], False, what)]


def _array(folder: Path, array_id: str, key: str, what: str) -> list[Run]:
    """The newest runs of an array's elements: failed ones may have run again in a later array. Raises Refused."""
    arrays = elements.arrays(folder)
    live = check.unfinished(folder, *arrays)  # read first, so that a job that ends later has written its result
    found = elements.read(folder, array_id, newest=True)
    counts = elements.summary([each for each in found if each["job_id"] not in live])["elements"]
    if bad := ", ".join(f"{counts[how]} {how}" for how in ("failed", "cancelled", "without result") if counts[how]):
        again = f"`gpucluster resubmit {array_id} --failed` runs them again"
        raise Refused(f"{key}: {what} has not succeeded: of its {len(found)} elements, {bad}; {again}")
    newest: dict[str, list[str]] = {}
    for each in found:
        newest.setdefault(each["job_id"].partition("_")[0], []).append(each["job_id"])
    whole = {number for number, ids in newest.items() if len(ids) == len(arrays[number])}
    made_by = " ".join(number if number in whole else " ".join(ids) for number, ids in newest.items())
    queued = {number: tuple(each for each in ids if each in live) for number, ids in newest.items()}
    return [
        Run(number, True, what, (number,) if number in whole else ids, made_by) for number, ids in queued.items() if ids
    ] or [Run(array_id, False, what, made_by=made_by)]


def _check_output(wait: dict[str, Any], folder: Path) -> None:
    output = wait.get("output")
    if not output or os.path.lexists(str(folder / "outputs" / output)):
        return
    names = sorted(each.name for each in folder.glob("outputs/*"))
    raise Refused(f"{wait['key']}: the task {wait['label']} has no output {output}{_known(output, names)}")


def _known(got: str, names: list[str]) -> str:
    near = get_close_matches(got, names, n=1)
    if near:
        return f"; did you mean {near[0]}?"
    return f"; known: {', '.join(names[:10])}{', …' if len(names) > 10 else ''}" if names else "; there are none yet"


def _labels(tasks: Path) -> list[str]:
    return sorted(str(each.relative_to(tasks)) for each in tasks.glob("*/*") if _is_task(each))


def _is_task(folder: Path) -> bool:
    """Whether a job of the task was queued, on this cluster or an earlier one."""
    return (folder / "job").exists() or (folder / "runs").is_dir()


def _job(job_id: str, jobs: Path) -> list[Run]:
    """A job that Slurm knows, or whose folder has its result. Raises Refused."""
    folder, found = jobs / (jobs / "by-id" / job_id).resolve().name, check.known(job_id)
    is_ours = not found or found[0].is_in(folder)
    if is_ours and job_id in elements.arrays(folder):
        return _array(folder, job_id, "after", f"job {job_id}")
    if any(each.state not in check.OVER for each in found):
        return [Run(job_id, True, f"job {job_id}")]
    states = [each.state for each in found]
    if is_ours and set(states) <= {"COMPLETED"}:  # its exports are checked after its end
        states.append(_state_of(folder, job_id, "COMPLETED" if found else "it has no result"))
    failed = next((state for state in states if state != "COMPLETED"), None)
    if failed:
        raise Refused(f"after: job {job_id} has not succeeded: {failed}")
    return [Run(job_id, False, f"job {job_id}")]


def _state_of(folder: Path, job_id: str, otherwise: str) -> str:
    try:
        result = json.loads((folder / "result.json").read_text(encoding="utf-8"))
    except (OSError, ValueError):
        if not folder.exists():
            raise Refused(f"after: there is no job {job_id}; `gpucluster jobs` lists them") from None
        return otherwise
    return "COMPLETED" if result["exit_code"] == 0 else f"exit code {result['exit_code']}"


def _check_own(outputs: dict[str, Any], task: str) -> None:
    """Raises Refused if a link would hide files."""
    for name, place in outputs.items():
        path = Path(task, "outputs", name)
        if place and path.is_dir() and not path.is_symlink() and any(path.iterdir()):
            raise Refused(f"outputs.{name}: {path} holds files of earlier runs; move them to {place}")


def _declare(outputs: dict[str, Any], task: str) -> None:
    """Declares the outputs: other jobs may name them from now on, although the job has not run."""
    for name, place in outputs.items():
        path = Path(task, "outputs", name)
        path.parent.mkdir(parents=True, exist_ok=True)
        if place is None and path.is_symlink():
            path.unlink()
        if place is None:
            path.mkdir(exist_ok=True)
            continue
        if path.is_dir() and not path.is_symlink():
            path.rmdir()
        link = path.with_name(f".{name}.{os.getpid()}")
        link.symlink_to(place)
        link.replace(path)


def _compare(job: Path, found: list[Run]) -> None:
    """The runs that it depends on are part of its key: with new input the task is not the same."""
    path = job / "task.json"
    if not found or not path.exists():
        return
    asked = json.loads(path.read_text(encoding="utf-8"))
    if "key" not in asked:
        return
    stands_on = sorted({(each.what, each.made_by or each.job_id) for each in found})
    asked["key"] = hashlib.sha256(json.dumps([asked["key"], stands_on]).encode()).hexdigest()
    path.write_text(json.dumps(asked, indent=2) + "\n", encoding="utf-8")


def make_outputs() -> None:
    """On the job's first node. Raises GaveUp."""
    for name, folder in os.environ.items():
        if name.startswith(OUTPUT):
            try:
                Path(folder).mkdir(parents=True, exist_ok=True)
            except OSError as error:
                raise GaveUp(f"the output {name[len(OUTPUT) :].lower()}: {folder}: {error.strerror}") from None
