"""A job's upload as one archive: the files of the working directory as git lists them, and the job's own files."""

from __future__ import annotations

import gzip
import io
import os
import subprocess
import tarfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from gpucluster.errors import UsageError

MAX_BYTES = 200 * 2**20
"""Before compression. Data sets belong on shared storage, not in every job's folder."""
_SKIPPED = {".git", ".gpucluster", "__pycache__"}
_MARK = "# `gpucluster fetch` made this folder"
FETCHED = f"{_MARK}: `gpucluster submit` does not upload it, and git ignores it.\n*\n"
"""The .gitignore of such a folder."""


@dataclass(frozen=True)
class File:
    """A small generated file."""

    text: str
    mode: int = 0o644
    link: bool = False
    """Whether it is a symbolic link with the target `text`."""


def code_files(workdir: Path) -> list[Path]:
    """Relative paths of all files that git does not ignore; without git, of all files. None of folders that were
    fetched, unless the workdir is in one. Raises UsageError."""
    found = listed(workdir)
    _check_size(workdir, found)
    return found


def listed(workdir: Path) -> list[Path]:
    """As `code_files`, whatever their size."""
    tracked = None if _in_fetched(workdir.resolve()) else _git_files(workdir)
    names = tracked if tracked is not None else list(_all_files(workdir))
    return sorted(name for name in names if os.path.lexists(workdir / name))


def has_files(workdir: Path) -> bool:
    """Whether files would be uploaded if there were no git."""
    return any(True for _ in _all_files(workdir))


def archive(root: str, files: Mapping[str, File], workdir: Path | None) -> bytes:
    """A gzipped tar with everything under `root`/; the working directory becomes `root`/code. Raises UsageError."""
    packed = io.BytesIO()
    with (
        gzip.GzipFile(fileobj=packed, mode="wb", compresslevel=1, mtime=0) as stream,
        tarfile.open(fileobj=stream, mode="w", format=tarfile.PAX_FORMAT) as tar,
    ):
        for folder in _folders(root, files):
            tar.addfile(_entry(folder, 0o755, kind=tarfile.DIRTYPE))
        for name, file in files.items():
            tar.addfile(*_own(f"{root}/{name}", file))
        for path in code_files(workdir) if workdir else []:
            tar.add(workdir / path if workdir else path, f"{root}/code/{path}", recursive=False, filter=_anonymous)
    return packed.getvalue()


def _own(name: str, file: File) -> tuple[tarfile.TarInfo, io.BytesIO]:
    content = b"" if file.link else file.text.encode()
    entry = _entry(name, file.mode, size=len(content), kind=tarfile.SYMTYPE if file.link else tarfile.REGTYPE)
    entry.linkname = file.text if file.link else ""
    return entry, io.BytesIO(content)


def _folders(root: str, files: Mapping[str, File]) -> list[str]:
    inner = {str(Path(name).parent) for name in files} - {"."}
    return [root, f"{root}/code", *(f"{root}/{folder}" for folder in sorted(inner))]


def _entry(name: str, mode: int, *, size: int = 0, kind: bytes = tarfile.REGTYPE) -> tarfile.TarInfo:
    entry = tarfile.TarInfo(name)
    entry.mode, entry.size, entry.type = mode, size, kind
    return entry


def _anonymous(entry: tarfile.TarInfo) -> tarfile.TarInfo:
    """Removes the owner: users differ between the two machines."""
    entry.uid = entry.gid = 0
    entry.uname = entry.gname = ""
    return entry


def leading_out(workdir: Path) -> Iterator[str]:
    """`data -> /home/me/data`: the links to targets outside the workdir, which are not uploaded."""
    root = os.path.realpath(workdir)
    for path in code_files(workdir):
        link = workdir / path
        if link.is_symlink() and not Path(os.path.realpath(link)).is_relative_to(root):
            yield f"{path} -> {os.readlink(link)}"


def _git_files(workdir: Path) -> list[Path] | None:
    """None without git or a repository. Raises UsageError if git cannot read the repository."""
    command = ["git", "-C", str(workdir), "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    try:
        done = subprocess.run(command, capture_output=True, check=False, env={**os.environ, "LC_ALL": "C"})
    except FileNotFoundError:
        return None
    if done.returncode != 0:
        said = done.stderr.decode(errors="replace").strip()
        if "not a git repository" in said:
            return None
        raise UsageError(
            f"workdir {workdir}: git cannot list the files: {said.splitlines()[0]}", _way_out(said, workdir)
        )
    names = [Path(os.fsdecode(name)) for name in done.stdout.split(b"\0") if name]
    return list(_with_repositories_inside(workdir, [name for name in names if not _SKIPPED & set(name.parts)]))


def _way_out(said: str, workdir: Path) -> str:
    if "dubious ownership" in said:
        return f"git config --global --add safe.directory {workdir.resolve()}"
    return f"`git -C {workdir} status` shows what is wrong"


def _with_repositories_inside(workdir: Path, names: list[Path]) -> Iterator[Path]:
    """Adds the files of submodules and of nested repositories, which git lists as one name each."""
    for name in names:
        folder = workdir / name
        if folder.is_symlink() or not folder.is_dir():
            yield name
        elif (folder / ".git").exists():
            yield from (name / inner for inner in _git_files(folder) or [])
        else:
            raise UsageError(
                f"workdir {workdir}: the submodule {name} is not checked out, and its files would be missing",
                f"git -C {workdir} submodule update --init --recursive",
            )


def _all_files(workdir: Path) -> Iterator[Path]:
    for folder, subfolders, names in os.walk(workdir):
        links = [name for name in subfolders if Path(folder, name).is_symlink()]
        subfolders[:] = [name for name in subfolders if name not in _SKIPPED and not is_fetched(Path(folder, name))]
        yield from (Path(folder, name).relative_to(workdir) for name in (*names, *links))


def is_fetched(folder: Path) -> bool:
    try:
        return (folder / ".gitignore").read_text(encoding="utf-8", errors="replace").startswith(_MARK)
    except OSError:
        return False


def _in_fetched(folder: Path) -> bool:
    """Whether git would hide all of it. A repository inside of a fetched folder has its own rules."""
    if is_fetched(folder):
        return True
    return folder != folder.parent and not (folder / ".git").exists() and _in_fetched(folder.parent)


def _check_size(workdir: Path, files: list[Path]) -> None:
    sizes = {path: (workdir / path).lstat().st_size for path in files}
    total = sum(sizes.values())
    if total <= MAX_BYTES:
        return
    largest = sorted(sizes, key=lambda path: -sizes[path])[:3]
    named = ", ".join(f"{path} ({sizes[path] / 2**20:.0f} MiB)" for path in largest)
    size = f"{total / 2**20:.0f} MiB in {len(files)} files"
    raise UsageError(
        f"workdir {workdir} has {size}, at most {MAX_BYTES // 2**20} MiB are allowed; largest: {named}",
        "name a smaller workdir, or list data in .gitignore and put it on shared storage",
    )
