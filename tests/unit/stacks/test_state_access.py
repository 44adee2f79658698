"""Copying a task's state to S3 needs no more permissions than `s3_access` with read-write grants."""

from __future__ import annotations

from fnmatch import fnmatchcase

import pytest

from gpucluster.addresses import S3Uri
from gpucluster_train.state_sync import LIST, Copy
from stacks.storage.s3_access import READ, WRITE, listed


@pytest.mark.parametrize("given", ["s3://mine/states", "s3://mine"])
def test_the_jobs_role_may_list_what_the_copy_lists(given: str) -> None:
    """A condition on s3:prefix, with *, is compared with the prefix that a request names."""
    copy = Copy("s3://mine/states/digits/small", s3=None)
    assert fnmatchcase(copy.key(LIST), listed(S3Uri.of(given)))
    assert not fnmatchcase(Copy("s3://mine/other", s3=None).key(LIST), listed(S3Uri.of("s3://mine/states")))


def test_the_jobs_role_may_do_the_rest() -> None:
    assert "s3:GetObject" in READ
    assert {"s3:PutObject", "s3:DeleteObject", "s3:AbortMultipartUpload"} <= set(WRITE)
