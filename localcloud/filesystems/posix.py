"""FSx's form of POSIX metadata in an object's metadata.

The names and forms are those of "POSIX metadata support for data repositories" in the FSx for Lustre User Guide.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

PREFIX = "x-amz-meta-"
DEFAULT_PERMISSIONS = 0o755
_NEVER_KEPT = stat.S_ISUID | stat.S_ISGID


@dataclass(frozen=True)
class Attributes:
    mode: int  # type and permissions
    uid: int
    gid: int
    mtime_ns: int

    @classmethod
    def of(cls, metadata: Mapping[str, str], kind: int, modified_ns: int) -> Attributes:
        """An object's metadata; without it, `kind` and the other defaults apply, with root as the owner."""
        mode = int(metadata.get(f"{PREFIX}file-permissions", f"{kind | DEFAULT_PERMISSIONS:o}"), 8)
        owner, group = (int(metadata.get(f"{PREFIX}file-{who}", 0)) for who in ("owner", "group"))
        time = metadata.get(f"{PREFIX}file-mtime")
        return cls(mode & ~_NEVER_KEPT, owner, group, _nanoseconds(time) if time else modified_ns)

    def apply(self, path: Path) -> None:
        os.chown(path, self.uid, self.gid, follow_symlinks=False)
        if not stat.S_ISLNK(self.mode):
            path.chmod(stat.S_IMODE(self.mode))
        os.utime(path, ns=(self.mtime_ns, self.mtime_ns), follow_symlinks=False)


def describe(found: os.stat_result) -> dict[str, str]:
    return {
        f"{PREFIX}user-agent": "aws-fsx-lustre",
        f"{PREFIX}file-permissions": f"0{found.st_mode:o}",
        f"{PREFIX}file-owner": str(found.st_uid),
        f"{PREFIX}file-group": str(found.st_gid),
        f"{PREFIX}file-atime": f"{found.st_atime_ns}ns",
        f"{PREFIX}file-mtime": f"{found.st_mtime_ns}ns",
    }


def _nanoseconds(text: str) -> int:
    """Milliseconds, unless it ends in `ns`."""
    return int(text.removesuffix("ns")) * (1 if text.endswith("ns") else 1_000_000)
