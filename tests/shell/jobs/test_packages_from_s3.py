"""A job's own packages from wheels in S3, without an index: the real pip, and moto's S3 over HTTP."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import boto3
import pytest
from moto.backends import get_backend
from moto.server import ThreadedMotoServer
from test_packages_overlay import Jobs

from tests.wheels import wheel


def served(found: Jobs) -> Iterator[Jobs]:
    """With S3, and keys for it."""
    server = ThreadedMotoServer(port=0, verbose=False)
    server.start()
    host, port = server.get_host_and_port()
    found.env |= {"AWS_ENDPOINT_URL": f"http://{host}:{port}", "AWS_ACCESS_KEY_ID": "a", "AWS_SECRET_ACCESS_KEY": "b"}
    found.env |= {"AWS_DEFAULT_REGION": "us-east-1", "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}"}
    yield found
    server.stop()
    get_backend("s3").reset()  # all servers of this process share its buckets


@pytest.fixture
def jobs(tmp_path: Path) -> Iterator[Jobs]:
    found = Jobs(tmp_path)
    del found.env["PIP_FIND_LINKS"]
    yield from served(found)


def bucket(jobs: Jobs) -> Any:
    keys = {"aws_access_key_id": "a", "aws_secret_access_key": "b", "region_name": "us-east-1"}
    s3 = boto3.resource("s3", endpoint_url=jobs.env["AWS_ENDPOINT_URL"], **keys)
    return s3.create_bucket(Bucket="bucket")


def test_wheels_of_a_prefix_are_installed(jobs: Jobs) -> None:
    there = bucket(jobs)
    there.upload_file(str(wheel(jobs.wheels, "greeting", "1.5", "torch>=2")), "wheels/greeting-1.5-py3-none-any.whl")
    there.upload_file(str(wheel(jobs.wheels, "greeting", "9.0")), "wheels/newer/greeting-9.0-py3-none-any.whl")
    asked = jobs.ask("first", "--find-links s3://bucket/wheels", "greeting")
    checked = jobs.overlay("check", asked)
    assert checked.stdout == "missing\n", checked.stderr
    built = jobs.overlay("build", asked)
    assert "Successfully installed greeting-1.5" in built.stdout, built.stdout + built.stderr


def test_a_prefix_that_cannot_be_read_is_refused_before_the_job_is_queued(jobs: Jobs) -> None:
    bucket(jobs)
    refused = jobs.overlay("check", jobs.ask("none", "--find-links s3://bucket/empty/", "greeting"))
    assert refused.returncode == 3
    assert "error: s3://bucket/empty/ cannot be read: it has no wheels" in refused.stderr
