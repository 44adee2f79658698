"""What is on Lustre alone, of the folders that are linked to S3: it would be lost with the file system.

usage: linked [--export]    prints a JSON list, of each linked folder: path, files, not_exported, first (of those).
With --export what is on Lustre alone is exported first.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from gpucluster_node import fleet, hsm, staging
from gpucluster_node.log import start_logging
from gpucluster_node.transfer import Transfer

MOST_NAMED = 5


def folders(bundle: Path = fleet.BUNDLE) -> list[str]:
    """As they are called on nodes."""
    mounts = json.loads((bundle / "storage.json").read_text())["mounts"]
    return [(each["mount"] + path).rstrip("/") for each in mounts for path in each.get("linked", ())]


def report(
    paths: Sequence[str], mounts: Sequence[str], *, export: bool, run: hsm.Run = hsm.run
) -> Iterator[dict[str, Any]]:
    """A file that lfs cannot tell of counts as not exported. Raises StagingError where a file system is not mounted."""
    for path in paths:
        try:
            files = list(staging.files(staging.checked(path, mounts)))
        except staging.MissingError:
            files = []
        if export:
            Transfer("hsm_archive", lambda state: state.exported, run=run).of(files)
        found, failed = hsm.states(files, run)
        left = sorted([*failed, *(each for each, state in found.items() if not state.exported)])
        yield {"path": path, "files": len(files), "not_exported": len(left), "first": left[:MOST_NAMED]}


def main() -> None:
    start_logging()
    try:
        found = list(report(folders(), staging.lustre_mounts(), export="--export" in sys.argv[1:]))
    except (OSError, staging.StagingError, hsm.LfsError) as error:
        sys.exit(f"{error}")
    print(json.dumps(found))


if __name__ == "__main__":
    main()
