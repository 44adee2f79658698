"""Submits a prepared job: its files go into the bucket, then CreateTrainingJob."""

from __future__ import annotations

import json
import re
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from typing import Any, NamedTuple

from gpucluster.addresses import S3Uri
from gpucluster.errors import AwsError, UsageError
from gpucluster.job import library
from gpucluster.job.task import Task
from gpucluster.sagemaker import local_folders, request, tasks, toolkit
from gpucluster.sagemaker.channels import OURS
from gpucluster.sagemaker.connection import Connection
from gpucluster.sagemaker.following import jobs
from gpucluster.sagemaker.following.account import Account
from gpucluster.sagemaker.prepare import Prepared
from gpucluster.sagemaker.refused import explained
from gpucluster.sagemaker.target import Target
from gpucluster.submission.snapshot import File, archive

Tell = Callable[[str], None]
REQUIREMENTS = "requirements.txt"
"""gpucluster_job/sagemaker/packages.py finds it beside `lib`."""
BATCH = 1000
"""The most keys of one DeleteObjects: botocore's documentation."""
LONG_S = 5.0
"""After an upload that took longer, somebody may have submitted another run of the task meanwhile."""
_UNSURE = re.compile(r"(?!CreateTrainingJob: )|CreateTrainingJob: (ResourceInUse|Internal|ServiceUnavailable)")
"""Errors after which the job may be there: botocore repeats a call whose answer it lost, and the second is refused."""


class Submitted(NamedTuple):
    job: str
    """The training job's name."""
    skipped: bool = False
    """Nothing was submitted, because this run of the task was equal and has succeeded."""


def packed(job: Prepared) -> bytes:
    """gpucluster.tar.gz of docs/design.md. Raises UsageError if the working directory is too large."""
    texts = {**library.files(), **({REQUIREMENTS: job.requirements} if job.requirements else {})}
    return archive(OURS, {name: File(text) for name, text in texts.items()}, job.workdir)


def submit(connection: Connection, target: Target, job: Prepared, *, force: bool, clean: bool, tell: Tell) -> Submitted:
    """Raises UsageError if a run of its task has not ended, AwsError."""
    sagemaker, s3 = connection.client("sagemaker"), connection.client("s3")
    task = Task.of(job.spec)
    if task:
        with explained():
            last = tasks.newest(sagemaker, task.project, task.name)
        tasks.refuse_unfinished(task.label, last)
        if last and last.succeeded and last.key == job.key and not (force or clean):
            return Submitted(last.job, skipped=True)
        if clean:
            _clean(s3, str(request.state(job.spec, target)), tell)
    place = request.place(target, job.name)
    if target.toolkit:
        objects = {f"{place}/input/{toolkit.ARCHIVE}": toolkit.source(job.workdir, job.requirements)}
    else:
        objects = {f"{place}/input/{request.ARCHIVE}": packed(job)}
    objects |= {uri: json.dumps(names).encode() for uri, names in job.planned.manifests.items()}
    put, began = list[str](), time.monotonic()
    try:
        with explained():
            for found in job.inputs:
                local_folders.upload(s3, target, found, tell)
            for uri, content in objects.items():
                _put(s3, target, uri, content)
                put.append(uri)
            if task and time.monotonic() - began >= LONG_S:
                tasks.refuse_unfinished(task.label, tasks.newest(sagemaker, task.project, task.name))
    except BaseException:
        _take_back(s3, put)
        raise
    _create(sagemaker, s3, target, job, put, tell)
    return Submitted(job.name)


def _create(sagemaker: Any, s3: Any, target: Target, job: Prepared, put: Sequence[str], tell: Tell) -> None:
    """A job whose answer was lost runs, and is billed: then its files stay, and there is no error."""
    try:
        with explained():
            sagemaker.create_training_job(**job.request)
    except (AwsError, KeyboardInterrupt) as error:
        interrupted = isinstance(error, KeyboardInterrupt)
        is_made = _is_made(sagemaker, target, job.name) if interrupted or _UNSURE.match(str(error)) else False
        if is_made and not interrupted:
            return
        if is_made is False:
            _take_back(s3, put)
        else:
            known = "was" if is_made else "may have been"
            tell(f"job {job.name} {known} submitted all the same: `gpucluster cancel {job.name}` stops it")
        raise


def _is_made(sagemaker: Any, target: Target, name: str) -> bool | None:
    """Whether SageMaker has this job. The archive of its name is ours, so in our bucket the job is. None: not known."""
    try:
        found = jobs.describe(Account(target, lambda _: sagemaker), name)
    except UsageError:
        return False
    except AwsError:
        return None
    return bool(found.answer["OutputDataConfig"]["S3OutputPath"] == target.root)


def console(region: str, job: str) -> str:
    """The job's page, as Kubeflow's component for SageMaker links it."""
    domain = "console.amazonaws.cn" if region.startswith("cn-") else "console.aws.amazon.com"
    host = "console.amazonaws-us-gov.com" if region.startswith("us-gov-") else f"{region}.{domain}"
    return f"https://{host}/sagemaker/home?region={region}#/jobs/{job}"


def _put(s3: Any, target: Target, uri: str, content: bytes) -> None:
    """S3 refuses it if another job has got the name in the same second: that one needs its own files."""
    place = S3Uri.of(uri)
    key = {"ServerSideEncryption": "aws:kms", "SSEKMSKeyId": target.kms_key_arn} if target.kms_key_arn else {}
    s3.put_object(Bucket=place.bucket, Key=place.prefix, Body=content, IfNoneMatch="*", **key)


def _take_back(s3: Any, put: Sequence[str]) -> None:
    """There is no job that would read them. The refusal matters more than what is left."""
    for uri in put:
        with suppress(Exception):
            s3.delete_object(Bucket=S3Uri.of(uri).bucket, Key=S3Uri.of(uri).prefix)


def _clean(s3: Any, state: str, tell: Tell) -> None:
    """Deletes the state, but not the outputs, as on the cluster."""
    place, kept = S3Uri.of(state), S3Uri.of(request.outputs(state)).folder
    with explained():
        pages = s3.get_paginator("list_objects_v2").paginate(Bucket=place.bucket, Prefix=place.folder)
        keys = [each["Key"] for page in pages for each in page.get("Contents", ())]
        count = 0
        for batch in _batches([key for key in keys if not key.startswith(kept)]):
            answer = s3.delete_objects(
                Bucket=place.bucket, Delete={"Objects": [{"Key": key} for key in batch], "Quiet": True}
            )
            if failed := answer.get("Errors"):
                raise AwsError(f"DeleteObjects: {failed[0]['Code']}: {failed[0]['Message']}: {failed[0]['Key']}")
            count += len(batch)
    tell(f"deleted {count} files of {state}")


def _batches(keys: list[str]) -> Iterator[list[str]]:
    return (keys[first : first + BATCH] for first in range(0, len(keys), BATCH))
