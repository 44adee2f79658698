"""What of the cluster's file systems the head node has mounted, and how full they are."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from gpucluster.config import ClusterConfig

LUSTRE_MISSING = "/var/lib/gpucluster/lustre.missing"
"""Named by bootstrap/lib/lustre.sh; written where the head node has no Lustre client for its kernel."""
PATIENCE_S = 20
"""A file system whose servers are away does not answer at all."""
GIB = 2**30


@dataclass(frozen=True)
class Mount:
    path: str
    type: str
    """As the cluster file says it."""
    mounted: bool
    size_bytes: int | None = None
    free_bytes: int | None = None
    why_not: str = ""
    """What the head node wrote down when it could not get ready to mount it."""

    def words(self) -> str:
        if not self.mounted:
            return f"not mounted ({self.why_not})" if self.why_not else "not mounted"
        if self.size_bytes is None or self.free_bytes is None:
            return "its servers do not answer"
        if self.size_bytes > 2**60:  # EFS, which ends nowhere
            return f"{(self.size_bytes - self.free_bytes) / GIB:.0f} GiB used"
        return f"{self.free_bytes / GIB:.0f} of {self.size_bytes / GIB:.0f} GiB free"


def expected(config: ClusterConfig) -> dict[str, str]:
    """Path -> type; the cluster's own file systems and /home, not those in the memory of compute nodes."""
    return {each.mount: each.type for each in (config.home, *config.storage) if each.everywhere}


def argv(paths: Sequence[str]) -> list[str]:
    """The kernel's list of mounts, which always answers, then what each says of itself, which may not."""
    script = (
        "cat /proc/self/mounts; echo; "
        f'if [ -e {LUSTRE_MISSING} ]; then echo "missing fsx-lustre $(cat {LUSTRE_MISSING})"; fi; '
        'for path; do timeout "$0" df -B1 --output=target,size,avail "$path"; done'
    )
    return ["sh", "-c", script, str(PATIENCE_S), *paths]


def parse(output: str, wanted: dict[str, str]) -> Iterator[Mount]:
    """`output`: of `argv`."""
    kernels, _, told = output.partition("\n\n")
    there = {line.split()[1] for line in kernels.splitlines() if line}
    why_not = dict(line.split(maxsplit=2)[1:] for line in told.splitlines() if line.startswith("missing "))
    sizes = {words[0]: words[1:] for words in map(str.split, told.splitlines()) if len(words) == 3}
    for path, type_ in wanted.items():
        size, free = map(int, sizes[path]) if path in sizes else (None, None)
        yield Mount(path, type_, path in there, size, free, why_not.get(type_, ""))
