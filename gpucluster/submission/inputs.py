"""Local folders that a job's channels name. Each is uploaded once, to a folder named by a hash of its content.

A folder in ~/inputs is complete: it is uploaded under another name and then renamed. The next upload of the same
content continues an interrupted one.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path
from typing import NoReturn

from gpucluster import account
from gpucluster.errors import UsageError
from gpucluster.head.remote import Remote
from gpucluster.job.channels import name_flaw
from gpucluster.job.spec import JobSpec
from gpucluster.layout import Real, as_it_is
from gpucluster.submission.upload import in_words

RSYNC_OPTIONS = ("--copy-links", "--delete", "--prune-empty-dirs", "--chmod=D755,F444")
"""Links are followed. Files are read-only, so that no job changes what other jobs read."""


COUNT_TIMEOUT_S = 600
_RSYNCS_OWN = b".*.??????"
"""rsync's name for an incomplete file (get_tmpname in its receiver.c). Another user may upload the same folder."""


@dataclass(frozen=True)
class Input:
    folder: Path
    digest: str
    sizes: dict[Path, tuple[int, int]]
    """File, relative to the folder -> size in bytes, and time of its last change in nanoseconds."""
    uploads: str
    """The folder on the cluster for all inputs."""

    @property
    def target(self) -> str:
        return f"{self.uploads}/{self.digest}"

    @property
    def unfinished(self) -> str:
        return f"{self.uploads}/.{self.digest}.part"

    @property
    def summary(self) -> str:
        count = len(self.sizes)
        return (
            f"{self.folder}: {count} file{'s' * (count != 1)}, {in_words(sum(size for size, _ in self.sizes.values()))}"
        )


def localized(spec: JobSpec, bases: Mapping[str, Path], real: Real = as_it_is) -> tuple[JobSpec, tuple[Input, ...]]:
    """The job with its local folders replaced by their paths on the cluster, and these folders. `bases`: the folder
    that each channel's path is relative to.

    Raises UsageError.
    """
    local = {name: channel for name, channel in spec.channels.items() if channel.is_local}
    found = {
        name: read(bases[name] / Path(channel.source).expanduser(), f"channels.{name}", real)
        for name, channel in local.items()
    }
    moved = {name: local[name].model_copy(update={"source": each.target}) for name, each in found.items()}
    by_digest = {each.digest: each for each in found.values()}
    return spec.model_copy(update={"channels": {**spec.channels, **moved}}), tuple(by_digest.values())


def read(folder: Path, key: str, real: Real = as_it_is) -> Input:
    """Raises UsageError if the folder or a file in it cannot be read."""
    if not folder.is_dir():
        other = "is a file: name its folder" if folder.exists() else "no such folder on this machine"
        raise UsageError(f"{key}: {folder}: {other}", "a path on the cluster begins with /, such as /fsx/data")
    try:
        names = sorted(_files(folder, Path(), ()))
        stamps = {name: _stamp(folder / name) for name in names}
        content = hashlib.sha256()
        for name in names:
            content.update(os.fsencode(name) + b"\0" + _digest(folder / name))
    except OSError as error:
        raise UsageError(f"{key}: {error.filename}: cannot be read: {error.strerror}") from None
    if not names:
        raise UsageError(f"{key}: {folder}: contains no files")
    _refuse_unlistable(folder, names, key)
    return Input(folder, content.hexdigest()[:32], stamps, real(account.inputs()))


def _refuse_unlistable(folder: Path, names: Sequence[Path], key: str) -> None:
    """Before the upload, and before the job has nodes: its first node would refuse them. Hidden files are not shards,
    nor are those that a manifest does not name (gpucluster_train/sources.py)."""
    if Path("manifest.json") in names:
        return
    for name in names:
        if not any(part.startswith((".", "_")) for part in name.parts) and (flaw := name_flaw(str(name))):
            raise UsageError(f"{key}: {folder}: {flaw}")


def _files(root: Path, below: Path, above: tuple[str, ...]) -> Iterator[Path]:
    """Every file, including those behind links. `above`: the real paths of the parent folders. Raises UsageError."""
    real = os.path.realpath(root / below)
    if real in above:
        raise UsageError(f"{root / below}: this link points to one of its parent folders", "delete it")
    with os.scandir(root / below) as entries:
        found = list(entries)
    for entry in found:
        name = below / entry.name
        if entry.is_dir():
            yield from _files(root, name, (*above, real))
        elif entry.is_file():
            yield name
        else:
            what = "the link is broken" if entry.is_symlink() else "neither a file nor a folder"
            raise UsageError(f"{root / name}: {what}", "delete it, or name another folder")


def _stamp(path: Path) -> tuple[int, int]:
    found = path.stat()
    return found.st_size, found.st_mtime_ns


def _digest(path: Path) -> bytes:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").digest()


Copy = Callable[[Path, str], None]
"""Makes the folder at the second path, on the cluster, equal to the local one, and continues an interrupted upload."""


def upload(remote: Remote, found: Input, copy: Copy, tell: Callable[[str], None]) -> None:
    """Raises GpuClusterError; the next try continues from the files uploaded so far."""
    if remote.run(["test", "-d", found.target]).exit_code == 0:
        tell(f"{found.summary}: already on the cluster, in {found.target}")
        return
    tell(f"uploading {found.summary}, to {found.target}")
    remote.run(["mkdir", "-p", found.unfinished]).check(f"cannot make {found.unfinished} on the head node")
    copy(found.folder, found.unfinished)
    _check_unchanged(remote, found)
    # another user who uploads the same folder may have finished first
    finish = 'mv -T "$1" "$2" || { [ -d "$2" ] && rm -rf "$1"; }'
    remote.run(["sh", "-c", finish, "sh", found.unfinished, found.target]).check("the upload cannot be finished")
    tell(f"uploaded {found.summary}")


def _check_unchanged(remote: Remote, found: Input) -> None:
    """Checks that exactly the files that were read have been uploaded."""
    changed = [name for name, stamp in found.sizes.items() if _stamp_now(found.folder / name) != stamp]
    if changed:
        _discard(remote, found, f"{found.folder / changed[0]}: was changed during the upload")
    expected = sum(not fnmatchcase(os.fsencode(name.name), _RSYNCS_OWN) for name in found.sizes)
    uploaded = _count(remote, found)
    if uploaded not in (None, expected):
        counts = f"{uploaded} files were uploaded instead of {expected}"
        _discard(remote, found, f"{found.folder}: files were added during the upload: {counts}")


def _count(remote: Remote, found: Input) -> int | None:
    """None if another user who uploads the same folder has finished it."""
    script = 'cd "$1" || exit 0; LC_ALL=C find . -type f ! -name "$2" -printf x | wc --bytes'
    argv = ["sh", "-c", script, "sh", found.unfinished, _RSYNCS_OWN.decode()]
    said = remote.run(argv, timeout_s=COUNT_TIMEOUT_S).check(f"cannot list {found.unfinished} on the head node").stdout
    return int(said) if said.strip() else None


def _discard(remote: Remote, found: Input, problem: str) -> NoReturn:
    remote.run(["rm", "-rf", found.unfinished])
    raise UsageError(problem, "run the same command again")


def _stamp_now(path: Path) -> tuple[int, int] | None:
    try:
        return _stamp(path)
    except OSError:
        return None
