"""Compares the checkpoints of this host with their copy in S3 at the end of the job: SageMaker's copying has stopped
without a word (sagemaker-python-sdk#3062).

boto3 is that of the image, if it has it: this package's own processes see no installed packages.
"""

from __future__ import annotations

import json
import os
import subprocess
import time
from pathlib import Path
from typing import Callable, Iterator, Mapping, Sequence

from gpucluster_job.sagemaker.limits import COMPARE_S

URI = "GPUCLUSTER_CHECKPOINTS_S3"
"""CheckpointConfig.S3Uri: SageMaker tells a container nothing about it."""
LAG_S = 60.0
"""How long a copy may be behind the disk at the end of a job that is not stopped."""
PAUSE_S = 5.0
SHOWN = 3
_LIST = """
import json, sys, boto3
_, _, bucket, prefix = (sys.argv[1] + "/").split("/", 3)
prefix = prefix.rstrip("/") + "/" if prefix else ""
pages = boto3.client("s3").get_paginator("list_objects_v2").paginate(Bucket=bucket, Prefix=prefix)
print(json.dumps({each["Key"][len(prefix):]: each["Size"] for page in pages for each in page.get("Contents", ())}))
"""
Sizes = Mapping[str, int]


class Unknown(RuntimeError):
    """Why S3 cannot be asked."""


def compared(folder: Path, environment: Mapping[str, str], stopped: bool) -> Iterator[str]:
    """Lines for the log."""
    uri, on_disk = environment.get(URI, ""), sizes(folder)
    if not uri or not on_disk:
        return
    try:
        missing = differences(on_disk, lambda: listed(uri, environment), COMPARE_S if stopped else LAG_S)
    except Unknown as error:
        yield f"[sagemaker] {folder} could not be compared with {uri}: {error}"
        return
    if not missing:
        yield f"[sagemaker] {uri} has all {len(on_disk)} files of {folder}"
        return
    shown = ", ".join(missing[:SHOWN]) + (f" and {len(missing) - SHOWN} more" if len(missing) > SHOWN else "")
    yield (
        f"warning: {uri} lacks {len(missing)} of the {len(on_disk)} files of {folder}, or has them with another size: "
        f"{shown}; a run that resumes there would not find them; hosts that write the same name overwrite each other"
    )


def sizes(folder: Path) -> dict[str, int]:
    """Names relative to the folder -> bytes."""
    found = {}
    for place, _, names in os.walk(folder):
        for name in names:
            path = Path(place, name)
            if path.is_file():
                found[str(path.relative_to(folder))] = path.stat().st_size
    return found


def written(folder: Path, since: float) -> list[str]:
    """The files that this run has made or changed: SageMaker restores those of earlier runs before it starts."""
    return sorted(name for name in sizes(folder) if (folder / name).stat().st_mtime >= since)


def twice(wrote: Mapping[str, Sequence[str]]) -> Iterator[str]:
    """Lines about the names that several hosts have written: in S3 they are one object."""
    hosts: dict[str, list[str]] = {}
    for host, names in wrote.items():
        for name in names:
            hosts.setdefault(name, []).append(host)
    shared = {name: each for name, each in hosts.items() if len(each) > 1}
    if shared:
        name, each = next(iter(sorted(shared.items())))
        more = f" and {len(shared) - 1} more" if len(shared) > 1 else ""
        yield (
            f"warning: {' and '.join(each)} have each written {name}{more} into the checkpoints, which are one folder "
            "in S3: only one of them stays; let rank 0 write, or put the rank into the name"
        )


def differences(on_disk: Sizes, ask: Callable[[], Sizes], longest_s: float, pause_s: float = PAUSE_S) -> list[str]:
    """The files whose copy is missing, or has another size, after so long."""
    until = time.monotonic() + longest_s
    while True:
        copied = ask()
        missing = sorted(name for name, size in on_disk.items() if copied.get(name) != size)
        if not missing or time.monotonic() + pause_s >= until:
            return missing
        time.sleep(pause_s)


def region(environment: Mapping[str, str]) -> dict[str, str]:
    """The variable from which boto3 takes it. SageMaker does not set it, and without it boto3 asks S3 in us-east-1, to
    which subnets with a gateway endpoint have no way, and which does not know the credentials of another partition."""
    _, _, _, where, *_ = f"{environment.get('TRAINING_JOB_ARN', '')}::::".split(":")
    found = environment.get("AWS_DEFAULT_REGION") or environment.get("AWS_REGION") or where
    return {"AWS_DEFAULT_REGION": found} if found else {}


def listed(uri: str, environment: Mapping[str, str]) -> dict[str, int]:
    """Raises Unknown."""
    try:
        done = subprocess.run(
            ["python3", "-c", _LIST, uri],
            env={**environment, **region(environment)},
            capture_output=True,
            stdin=subprocess.DEVNULL,
            text=True,
            timeout=LAG_S,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise Unknown(str(error)) from None
    if done.returncode:
        said = done.stderr.strip().splitlines()
        raise Unknown(said[-1] if said else f"exit code {done.returncode}")
    found: dict[str, int] = json.loads(done.stdout)
    return found
