"""Which of the cluster's file systems the head node has mounted, and how full they are."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from gpucluster.config import ClusterConfig

LUSTRE_MISSING = "/var/lib/gpucluster/lustre.missing"
"""bootstrap/lib/lustre.sh writes it if the head node has no Lustre client for its kernel."""
LOGS = "/var/log"
"""On the head node's own disk. Without space there it writes no logs and launches no nodes."""
PATIENCE_S = 20
"""A file system whose servers do not run never answers."""
GIB = 2**30
NEARLY_FULL = 0.9


@dataclass(frozen=True)
class Mount:
    path: str
    type: str
    """The type in the cluster file."""
    mounted: bool
    size_bytes: int | None = None
    free_bytes: int | None = None
    why_not: str = ""
    """The head node's reason if it cannot mount it."""

    def words(self) -> str:
        if not self.mounted:
            return f"not mounted ({self.why_not})" if self.why_not else "not mounted"
        if self.size_bytes is None or self.free_bytes is None:
            return "its servers do not answer"
        if self.size_bytes > 2**60:  # EFS, which has no size
            return f"{(self.size_bytes - self.free_bytes) / GIB:.0f} GiB used"
        return f"{self.free_bytes / GIB:.0f} of {self.size_bytes / GIB:.0f} GiB free{self._warning()}"

    def _warning(self) -> str:
        if self.is_nearly_full and self.size_bytes and self.free_bytes is not None:
            return f" (WARNING: {100 * (1 - self.free_bytes / self.size_bytes):.0f} % full)"
        return ""

    @property
    def is_nearly_full(self) -> bool:
        """As df counts: space that is reserved for Slurm is not free."""
        if not self.size_bytes or self.free_bytes is None:
            return False
        return self.free_bytes < (1 - NEARLY_FULL) * self.size_bytes


def expected(config: ClusterConfig) -> dict[str, str]:
    """Path -> type: the cluster's own file systems and /home, not those in compute nodes' memory."""
    return {each.mount: each.type for each in (config.home, *config.storage) if each.everywhere}


def argv(paths: Sequence[str]) -> list[str]:
    """The kernel's list of mounts, which always answers, then `df` of each, which may not, and of the disk of LOGS."""
    script = (
        "cat /proc/self/mounts; echo; "
        f'if [ -e {LUSTRE_MISSING} ]; then echo "missing fsx-lustre $(cat {LUSTRE_MISSING})"; fi; '
        'for path; do timeout "$0" df -B1 --output=target,size,avail "$path"; done'
    )
    return ["sh", "-c", script, str(PATIENCE_S), *paths, LOGS]


def parse(output: str, wanted: dict[str, str]) -> Iterator[Mount]:
    """output: what the command `argv` prints. The head node's own disk is among them only if it is nearly full."""
    kernel_list, _, rest = output.partition("\n\n")
    mounted = {line.split()[1] for line in kernel_list.splitlines() if line}
    why_not = dict(line.split(maxsplit=2)[1:] for line in rest.splitlines() if line.startswith("missing "))
    sizes = {words[0]: words[1:] for words in map(str.split, rest.splitlines()) if len(words) == 3}
    for path, type_ in wanted.items():
        size, free = map(int, sizes[path]) if path in sizes else (None, None)
        yield Mount(path, type_, path in mounted, size, free, why_not.get(type_, ""))
    for path in sizes.keys() - wanted.keys():
        size, free = map(int, sizes[path])
        disk = Mount(path, "disk", True, size, free)
        if disk.is_nearly_full:
            yield disk
