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
    inodes: int = 0
    """How many files it can have. 0 if it has no limit, as BeeGFS and NFS servers say."""
    free_inodes: int = 0
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
        if self._lacks(self.free_bytes, self.size_bytes) and self.size_bytes:
            return f" (WARNING: {_percent(self.free_bytes, self.size_bytes)} % full)"
        if self._lacks(self.free_inodes, self.inodes):
            used = _percent(self.free_inodes, self.inodes)
            return f" (WARNING: {used} % of its inodes are used: each file and folder takes one)"
        return ""

    @property
    def is_nearly_full(self) -> bool:
        """As df counts: space that is reserved for Slurm is not free."""
        return self._lacks(self.free_bytes, self.size_bytes) or self._lacks(self.free_inodes, self.inodes)

    def _lacks(self, free: int | None, whole: int | None) -> bool:
        return bool(whole) and free is not None and free < (1 - NEARLY_FULL) * (whole or 0)


def _percent(free: int | None, whole: int) -> str:
    return f"{100 * (1 - (free or 0) / whole):.0f}"


def expected(config: ClusterConfig) -> dict[str, str]:
    """Path -> type: the cluster's own file systems and /home, not those in compute nodes' memory."""
    return {each.mount: each.type for each in (config.home, *config.storage) if each.everywhere}


def argv(paths: Sequence[str]) -> list[str]:
    """The kernel's list of mounts, which always answers, then `df` of each, which may not, and of the disk of LOGS."""
    script = (
        "cat /proc/self/mounts; echo; "
        f'if [ -e {LUSTRE_MISSING} ]; then echo "missing fsx-lustre $(cat {LUSTRE_MISSING})"; fi; '
        'for path; do timeout "$0" df -B1 --output=target,size,avail,itotal,iavail "$path"; done'
    )
    return ["sh", "-c", script, str(PATIENCE_S), *paths, LOGS]


def parse(output: str, wanted: dict[str, str]) -> Iterator[Mount]:
    """output: what the command `argv` prints. The head node's own disk is among them only if it is nearly full."""
    kernel_list, _, rest = output.partition("\n\n")
    mounted = {line.split()[1] for line in kernel_list.splitlines() if line}
    why_not = dict(line.split(maxsplit=2)[1:] for line in rest.splitlines() if line.startswith("missing "))
    sizes = {
        words[0]: words[1:] for words in map(str.split, rest.splitlines()) if len(words) == 5 and words[0][0] == "/"
    }
    for path, type_ in wanted.items():
        yield Mount(path, type_, path in mounted, *_counts(sizes.get(path)), why_not.get(type_, ""))
    for path in sizes.keys() - wanted.keys():
        disk = Mount(path, "disk", True, *_counts(sizes[path]))
        if disk.is_nearly_full:
            yield disk


def _counts(words: Sequence[str] | None) -> tuple[int | None, int | None, int, int]:
    """df prints - for a number that it does not know."""
    if not words:
        return None, None, 0, 0
    size, free = int(words[0]), int(words[1])
    inodes, free_inodes = (int(word) if word.isdecimal() else 0 for word in words[2:])
    return size, free, inodes, free_inodes
