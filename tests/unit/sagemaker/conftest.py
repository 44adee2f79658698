"""Jobs prepared for SageMaker without AWS: a list of a channel's objects takes the place of S3's answer."""

from __future__ import annotations

import pytest

from gpucluster.config.parse import parse
from gpucluster.errors import AccessError
from gpucluster.sagemaker import prepare, target
from gpucluster.sagemaker.listing import Listed
from gpucluster.sagemaker.tasks import Run

TARGET = """\
region: us-west-2
role_arn: arn:aws:iam::123456789012:role/training
bucket: bucket-of-mine
instance_type: ml.p4d.24xlarge
"""
STARTED = "20261129-102400"


@pytest.fixture
def made(tmp_path):
    """made(job, more of sagemaker.yaml, objects, runs): the job as prepared for SageMaker. `objects`: address -> the
    names there, or S3's error. `runs`: task -> its newest run there."""

    def make(
        job: str,
        more: str = "",
        objects: dict[str, list[str] | str] | None = None,
        runs: dict[str, Run] | None = None,
        started: str = STARTED,
    ) -> prepare.Prepared:
        file = tmp_path / "job.yaml"
        file.write_text(job)
        set_there = {line.partition(":")[0] for line in more.splitlines()}
        text = [line for line in TARGET.splitlines(keepends=True) if line.partition(":")[0] not in set_there]
        where = target.loads(parse("".join(text) + more, "sagemaker.yaml"))

        def listing(uri: str, everything: bool) -> Listed:
            found = (objects or {})[uri]
            if isinstance(found, str):
                raise AccessError(found)
            return Listed(tuple(found), 100 * 2**20 * len(found))

        def newest(project: str, name: str) -> Run | None:
            return (runs or {}).get(f"{project}/{name}")

        return prepare.prepare(where, file, {}, started, listing, newest)

    return make
