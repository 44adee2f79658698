"""Copies a part of what a file system is filled from: each of N machines another one, all of them everything.

usage: fill SOURCE FOLDER --part I/N [--owner NAME]
SOURCE: s3://bucket/prefix or a folder. What is there already, with the same size, is not copied again.
"""

from __future__ import annotations

import argparse
import logging
import os
import pwd
import shutil
import sys
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from gpucluster_node.aws import AWS_ERRORS, client
from gpucluster_node.log import start_logging

log = logging.getLogger("fill")
THREADS = 16
SUFFIX = ".filling"
"""Of a file that is not whole yet."""


class Failed(Exception):
    """The message says what could not be copied, and why."""


@dataclass(frozen=True)
class Item:
    name: str
    """Below source and destination; no slash at its ends."""
    size: int


def share(items: Sequence[Item], part: int, of: int) -> list[Item]:
    """part: 1 to `of`. By size, the largest first, so that all have about as much; every machine finds the same."""
    return sorted(items, key=lambda item: (-item.size, item.name))[part - 1 :: of]


def is_safe(name: str) -> bool:
    """S3's keys may be no path below a folder."""
    return bool(name) and not name.startswith("/") and ".." not in Path(name).parts


def split(uri: str) -> tuple[str, str]:
    """Bucket, and prefix with the slash at its end; empty: the whole bucket."""
    bucket, _, prefix = uri.removeprefix("s3://").partition("/")
    prefix = prefix.strip("/")
    return bucket, f"{prefix}/" if prefix else ""


def in_s3(uri: str, s3: Any) -> list[Item]:
    bucket, prefix = split(uri)
    pages = s3.get_paginator("list_objects_v2").paginate(Bucket=bucket, Prefix=prefix)
    found = ((entry["Key"].removeprefix(prefix), entry["Size"]) for page in pages for entry in page.get("Contents", ()))
    return [Item(name, size) for name, size in found if is_safe(name) and not name.endswith("/")]


def in_folder(folder: Path) -> list[Item]:
    return list(_walk(folder, ""))


def _walk(folder: Path, below: str) -> Iterator[Item]:
    with os.scandir(folder / below) as entries:
        for entry in entries:
            name = f"{below}/{entry.name}".lstrip("/")
            if entry.is_dir(follow_symlinks=False):
                yield from _walk(folder, name)
            elif entry.is_file():
                yield Item(name, entry.stat().st_size)


def fill(source: str, folder: Path, part: int, of: int, owner: str | None = None) -> tuple[int, int]:
    """Files and bytes of the part. Raises Failed; what was copied until then stays, whole."""
    items = _listed(source)
    if not items:
        raise Failed(f"{source} holds no file: is the address right?")
    mine, ids = share(items, part, of), _ids(owner)
    with ThreadPoolExecutor(THREADS) as pool:
        for done in [pool.submit(_copy, source, item, folder, ids) for item in mine]:
            done.result()
    return len(mine), sum(item.size for item in mine)


def _listed(source: str) -> list[Item]:
    try:
        return in_s3(source, client("s3")) if source.startswith("s3://") else in_folder(Path(source))
    except (*AWS_ERRORS, OSError) as error:
        raise Failed(f"cannot list {source}: {error}") from error


def _ids(owner: str | None) -> tuple[int, int] | None:
    if owner is None:
        return None
    entry = pwd.getpwnam(owner)
    return entry.pw_uid, entry.pw_gid


def _copy(source: str, item: Item, folder: Path, ids: tuple[int, int] | None) -> None:
    target = folder / item.name
    if target.exists() and target.stat().st_size == item.size:
        return
    new = target.with_name(target.name + SUFFIX)
    try:
        _make_folders(folder, target.parent, ids)
        _fetch(source, item, new)
        new.chmod(0o644)
        if ids:
            os.chown(new, *ids)
        new.replace(target)
    except (*AWS_ERRORS, OSError) as error:
        new.unlink(missing_ok=True)
        raise Failed(f"cannot copy {item.name} from {source} to {folder}: {error}") from error


def _fetch(source: str, item: Item, new: Path) -> None:
    if source.startswith("s3://"):
        bucket, prefix = split(source)
        client("s3").download_file(bucket, prefix + item.name, str(new))
    else:
        shutil.copyfile(Path(source) / item.name, new)


def _make_folders(root: Path, folder: Path, ids: tuple[int, int] | None) -> None:
    if folder == root or folder.is_dir():
        return
    _make_folders(root, folder.parent, ids)
    folder.mkdir(exist_ok=True)
    if ids:
        os.chown(folder, *ids)


def main() -> None:
    start_logging()
    parser = argparse.ArgumentParser(prog="fill")
    parser.add_argument("source")
    parser.add_argument("folder", type=Path)
    parser.add_argument("--part", default="1/1")
    parser.add_argument("--owner")
    asked = parser.parse_args()
    part, _, of = asked.part.partition("/")
    try:
        files, size = fill(asked.source, asked.folder, int(part), int(of), asked.owner)
    except Failed as error:
        sys.exit(str(error))
    log.info("copied %s files, %s bytes, from %s to %s", files, size, asked.source, asked.folder)


if __name__ == "__main__":
    main()
