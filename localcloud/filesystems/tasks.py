"""Data repository tasks: exports, imports and releases of many files at once, with a count and a report."""

from __future__ import annotations

import secrets
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from localcloud.filesystems import records
from localcloud.filesystems.association import Association
from localcloud.filesystems.contents import Contents
from localcloud.filesystems.lustre import refused
from localcloud.filesystems.objects import NotExported, Store

Record = dict[str, Any]

EXPORT, IMPORT, RELEASE = "EXPORT_TO_REPOSITORY", "IMPORT_METADATA_FROM_REPOSITORY", "RELEASE_DATA_FROM_FILESYSTEM"
UNFINISHED = ("PENDING", "EXECUTING")
_DAY_S = 86400


def check(request: Record, associations: list[Record], others: list[Record]) -> None:
    """Raises CreateDataRepositoryTask's error. `associations`, `others`: those of the file system."""
    if request["Type"] not in (EXPORT, IMPORT, RELEASE):
        raise refused(f"Type {request['Type']} is not supported for Lustre file systems", "UnsupportedOperation")
    if not associations:
        raise refused("The file system is not linked to a data repository", "UnsupportedOperation")
    if any(other["Lifecycle"] in UNFINISHED for other in others):
        raise refused("Another data repository task of the file system is running", "DataRepositoryTaskExecuting")
    if request["Type"] == RELEASE and not request.get("ReleaseConfiguration"):
        raise refused("ReleaseConfiguration is required to release files")
    _check_paths(request, associations)
    report = request["Report"]
    if report["Enabled"] and not all(report.get(key) for key in ("Path", "Format", "Scope")):
        raise refused("A report needs Path, Format and Scope")


def _check_paths(request: Record, associations: list[Record]) -> None:
    for path in request.get("Paths") or []:
        if not any(_meets(_inside(path), _inside(each["FileSystemPath"])) for each in associations):
            raise refused(f"The path {path} is not within a data repository association")
    exporting = [each for each in associations if ((each.get("S3") or {}).get("AutoExportPolicy") or {}).get("Events")]
    for each in exporting if request["Type"] == EXPORT else []:
        if any(_meets(_inside(path), _inside(each["FileSystemPath"])) for path in request.get("Paths") or ["/"]):
            raise refused(
                f"{each['FileSystemPath']} is exported automatically: it cannot be exported by a task as well"
            )


def record(request: Record, region: str, account_id: str) -> Record:
    task_id = f"task-{secrets.token_hex(9)[:17]}"
    shown = ("Type", "FileSystemId", "Report", "ReleaseConfiguration")
    return {
        **{name: request[name] for name in shown if name in request},
        "Paths": request.get("Paths") or ["/"],
        "TaskId": task_id,
        "ResourceARN": f"arn:aws:fsx:{region}:{account_id}:task/{task_id}",
        "Lifecycle": "PENDING",
        "CreationTime": time.time(),
        "Status": {"TotalCount": 0, "SucceededCount": 0, "FailedCount": 0, "LastUpdatedTime": time.time()},
    }


def start(task: Record, contents: Contents | None) -> None:
    if contents is None:
        _end(task, "SUCCEEDED")
    else:
        contents.run(lambda: _run(task, contents))


def _run(task: Record, contents: Contents) -> None:
    task.update({"Lifecycle": "EXECUTING", "StartTime": time.time()})
    work = {EXPORT: _export, IMPORT: _import, RELEASE: _release}[task["Type"]]
    failures = []
    try:
        for path, failure in work(task, contents):
            failures += [(path, failure)] if failure else []
            _count(task, failed=failure is not None)
            if task["Lifecycle"] == "CANCELING":
                _end(task, "CANCELED")
                return
    except Exception as error:
        _end(task, "FAILED", f"{type(error).__name__}: {error}")
        raise
    if failures:
        _report(task, failures, contents.store)
        _end(task, "FAILED", f"{len(failures)} files failed to be processed")
    else:
        _end(task, "SUCCEEDED")


def _count(task: Record, *, failed: bool) -> None:
    status = task["Status"]
    status["TotalCount"] += 1
    status["FailedCount" if failed else "SucceededCount"] += 1
    status["LastUpdatedTime"] = time.time()


def _end(task: Record, lifecycle: str, failure: str | None = None) -> None:
    task.update({"EndTime": time.time()})
    if failure:
        task["FailureDetails"] = {"Message": failure}
    task["Lifecycle"] = lifecycle


Done = Iterator[tuple[str, str | None]]
"""The path, and why it failed."""


def _scopes(task: Record, contents: Contents) -> Iterator[tuple[Association, str]]:
    """Each association that a path of the task overlaps, with that part of it, relative."""
    for association in contents.associations(task["FileSystemId"]):
        linked = str(association.folder.relative_to(contents.root(task["FileSystemId"])))
        for path in task["Paths"]:
            asked, ours = _inside(path), _inside("" if linked == "." else linked)
            if _meets(asked, ours):
                yield association, asked[len(ours) :].strip("/")


def _export(task: Record, contents: Contents) -> Done:
    for association, below in _scopes(task, contents):
        for path in [each for each, _, _ in association.changes(below)]:
            yield str(association.folder / path), association.export(path)


def _import(task: Record, contents: Contents) -> Done:
    for association, below in _scopes(task, contents):
        taken, failed = association.import_changes(below=below)
        yield from ((str(association.folder), None) for _ in range(taken))
        yield from ((str(association.folder), "not imported; see the event log") for _ in range(failed))


def _release(task: Record, contents: Contents) -> Done:
    files = contents.files(task["FileSystemId"])
    age = task["ReleaseConfiguration"].get("DurationSinceLastAccess") or {"Value": 0}
    for association, below in _scopes(task, contents):
        for path in list(association.paths(below)):
            place = association.folder / path
            if _may_go(place, age["Value"] * _DAY_S):
                task["Status"]["ReleasedCapacity"] = task["Status"].get("ReleasedCapacity", 0) + files.release(place)
                yield str(place), None


def _may_go(place: Path, unused_s: float) -> bool:
    if place.is_symlink() or not place.is_file() or records.state(place) != records.EXISTS | records.ARCHIVED:
        return False
    found = place.stat()
    return time.time() - max(found.st_atime, found.st_mtime, found.st_ctime) >= unused_s


def _report(task: Record, failures: list[tuple[str, str]], store: Store) -> None:
    if task["Report"]["Enabled"]:
        lines = "".join(f'"{path}","{why}"\n' for path, why in failures)
        try:
            store.repository(task["Report"]["Path"]).write(f"{task['TaskId']}/failures.csv", lines.encode(), {})
        except NotExported as error:
            failures.append((task["Report"]["Path"], str(error)))


def _inside(path: str) -> str:
    """`/a/b/` as `a/b/`; the root as ""."""
    return f"{path.strip('/')}/" if path.strip("/") else ""


def _meets(one: str, other: str) -> bool:
    return one.startswith(other) or other.startswith(one)
