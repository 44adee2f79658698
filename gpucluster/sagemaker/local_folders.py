"""Local folders that channels name: each content is uploaded once, to a folder of the bucket with its hash as name."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from gpucluster.addresses import S3Uri
from gpucluster.errors import UsageError
from gpucluster.sagemaker.listing import Listed, sizes
from gpucluster.sagemaker.target import Target
from gpucluster.submission.inputs import Input

AT_ONCE = 8


def place(target: Target) -> str:
    return f"{target.root}/inputs"


def listed(found: Input) -> Listed:
    """Its objects, as they will be."""
    return Listed(tuple(sorted(map(str, found.sizes))), sum(size for size, _ in found.sizes.values()))


def upload(s3: Any, target: Target, found: Input, tell: Callable[[str], None]) -> None:
    """Uploads what the bucket lacks, so that the next try continues an interrupted one. Raises boto3's errors, and
    UsageError if a file changes meanwhile."""
    there = sizes(s3, found.target)
    missing = [name for name, (size, _) in found.sizes.items() if there.get(str(name)) != size]
    if not missing:
        tell(f"{found.summary}: already in {found.target}")
        return
    tell(f"uploading {found.summary}, to {found.target}")
    _put(s3, target, found, missing)
    for name, stamp in found.sizes.items():
        status = (found.folder / name).stat()
        if (status.st_size, status.st_mtime_ns) != stamp:
            _take_back(s3, found, missing)
            raise UsageError(f"{found.folder / name}: was changed during the upload", "run the same command again")


def _put(s3: Any, target: Target, found: Input, names: Iterable[Path]) -> None:
    where = S3Uri.of(found.target)
    key = {"ServerSideEncryption": "aws:kms", "SSEKMSKeyId": target.kms_key_arn} if target.kms_key_arn else {}

    def put(name: Path) -> None:
        s3.upload_file(str(found.folder / name), where.bucket, f"{where.folder}{name}", ExtraArgs=key)

    with ThreadPoolExecutor(AT_ONCE) as pool:
        list(pool.map(put, names))


def _take_back(s3: Any, found: Input, names: Iterable[Path]) -> None:
    where = S3Uri.of(found.target)
    for name in names:
        s3.delete_object(Bucket=where.bucket, Key=f"{where.folder}{name}")
