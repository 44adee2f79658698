"""Files that are only on Lustre, and would be lost with the file system.

usage: unexported [--export]    prints a JSON list with path, files, not_exported and first (of those) of each folder
that is linked to S3. With --export it first exports files that are only on Lustre. For a file system with
`lifetime: jobs` the list includes files outside those folders, under the path of its mount, because a program deletes
it without asking.
"""

from __future__ import annotations

import json
import stat
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from gpucluster_node import fleet
from gpucluster_node.log import start_logging
from gpucluster_node.lustre import hsm, staging, users
from gpucluster_node.lustre.transfer import Transfer

MOST_NAMED = 5


def report(
    mounts: Sequence[Mapping[str, Any]],
    *,
    export: bool,
    run: hsm.Run = hsm.run,
    is_mount: Callable[[str], bool] = staging.is_mounted,
    is_there: Callable[[str], bool] = lambda mount: users.FileSystem.of(mount).state().phase == "ready",
) -> Iterator[dict[str, Any]]:
    """mounts: from storage.json. A file whose state lfs cannot read counts as not exported.

    Raises StagingError if a file system is not mounted, unless it does not exist because no job uses it.
    """
    for mount in mounts:
        folders = [(mount["mount"] + path).rstrip("/") for path in mount.get("data_repositories", ())]
        with_jobs = mount.get("lifetime") == "jobs"
        if with_jobs and not is_mount(mount["mount"]) and not is_there(mount["mount"]):
            continue
        for path in folders:
            yield _linked(path, mount["mount"], export, run, is_mount)
        if with_jobs:
            yield _unlinked(mount["mount"], folders)


def _linked(path: str, mount: str, export: bool, run: hsm.Run, is_mount: Callable[[str], bool]) -> dict[str, Any]:
    try:
        files = list(staging.files(staging.checked(path, [mount], is_mount)))
    except staging.MissingError:
        files = []
    if export:
        Transfer("hsm_archive", lambda state: state.exported, run=run).of(files)
    found, failed = hsm.states(files, run)
    return _entry(path, files, [*failed, *(each for each, state in found.items() if not state.exported)])


def _unlinked(mount: str, folders: Sequence[str]) -> dict[str, Any]:
    """Files outside, and symbolic links anywhere, which have no content that could be archived."""
    found = [each for each, mode in staging.entries(mount) if not stat.S_ISREG(mode) or not _within(each, folders)]
    return _entry(mount, found, found)


def _entry(path: str, files: Sequence[str], left: Sequence[str]) -> dict[str, Any]:
    return {"path": path, "files": len(files), "not_exported": len(left), "first": sorted(left)[:MOST_NAMED]}


def _within(path: str, folders: Sequence[str]) -> bool:
    return any(path.startswith(f"{folder}/") for folder in folders)


def main() -> None:
    start_logging()
    try:
        mounts = json.loads((fleet.BUNDLE / "storage.json").read_text())["mounts"]
        found = list(report(mounts, export="--export" in sys.argv[1:]))
    except (OSError, staging.StagingError, hsm.LfsError) as error:
        sys.exit(f"{error}")
    print(json.dumps(found))


if __name__ == "__main__":
    main()
