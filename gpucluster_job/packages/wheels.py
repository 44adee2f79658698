"""Copies wheels from S3 for pip, which reads no S3: `wheels.py REQUIREMENTS NEW FOLDER`.

NEW gets the requirements, with a folder below FOLDER for each `--find-links s3://BUCKET/PREFIX`. It needs boto3, which
is one of the system's packages, and has the permissions of jobs (`s3_access`).
"""

from __future__ import annotations

import os
import re
import sys
from pathlib import Path
from typing import Any, Iterator, Match

LINKS = re.compile(r"^(?:-f|--find-links)[\s=]+(s3://\S+)[ \t]*$", re.MULTILINE)
SUFFIXES = (".whl", ".tar.gz", ".zip")


def wanted(s3: Any, bucket: str, prefix: str) -> Iterator[dict[str, Any]]:
    """The objects directly below the prefix."""
    below = prefix.strip("/") + "/" if prefix.strip("/") else ""
    for page in s3.get_paginator("list_objects_v2").paginate(Bucket=bucket, Prefix=below, Delimiter="/"):
        yield from (each for each in page.get("Contents", []) if each["Key"].endswith(SUFFIXES))


def copy(s3: Any, uri: str, folder: Path) -> None:
    """Skips what is there. Raises LookupError if the prefix has no wheels, and boto3's errors."""
    bucket, _, prefix = uri[len("s3://") :].partition("/")
    folder.mkdir(parents=True, exist_ok=True)
    found = list(wanted(s3, bucket, prefix))
    if not found:
        raise LookupError("it has no wheels")
    for each in found:
        target = folder / os.path.basename(each["Key"])
        if not target.exists() or target.stat().st_size != each["Size"]:
            s3.download_file(bucket, each["Key"], str(target))


def main(requirements: str, new: str, folder: str) -> int:
    import boto3

    s3 = boto3.client("s3")

    def local(found: Match[str]) -> str:
        place = Path(folder, re.sub(r"\W+", "-", found[1]))
        try:
            copy(s3, found[1], place)
        except Exception as error:  # boto3's have no common base
            raise SystemExit(f"ERROR: {found[1]} cannot be read: {error}") from None
        return f"--find-links {place}"

    text = Path(requirements).read_text(encoding="utf-8")
    Path(new).write_text(LINKS.sub(local, text), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:4]))
