"""The folder into which `fetch` copies: it has the files of one job, and no others."""

from __future__ import annotations

from pathlib import Path

from gpucluster.errors import UsageError

_SOURCE = "# from: "


def claim(folder: Path, source: str) -> None:
    """Makes the folder and marks it, so that `submit` does not upload it and no other files get into it. Raises
    UsageError for a folder with other files than those of `source`, a path on the cluster."""
    from gpucluster.submission.snapshot import FETCHED

    mark = folder / ".gitignore"
    try:
        if folder.is_dir() and any(folder.iterdir()):
            _refuse_others(folder, mark, source)
        else:
            folder.mkdir(parents=True, exist_ok=True)
            mark.write_text(f"{FETCHED}{_SOURCE}{source}\n", encoding="utf-8")
    except OSError as error:
        raise UsageError(f"{folder}: cannot be written: {error.strerror}", _ANOTHER) from None


_ANOTHER = "name a new folder with --to: fetch makes it"


def _refuse_others(folder: Path, mark: Path, source: str) -> None:
    from gpucluster.submission.snapshot import is_fetched

    if not is_fetched(folder):
        raise UsageError(f"{folder}: has files that fetch did not bring, and would be overwritten", _ANOTHER)
    lines = mark.read_text(encoding="utf-8").splitlines()
    sources = [line.removeprefix(_SOURCE) for line in lines if line.startswith(_SOURCE)]
    if sources and sources != [source]:
        raise UsageError(f"{folder}: has the files of {sources[0]}, and not of {source}", _ANOTHER)
