"""Addresses in S3: which characters they may have, and which part of a wrong one is named."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic_core import PydanticCustomError

from gpucluster.config import loads
from gpucluster.config.s3_form import any_s3_uri, is_meant, s3_uri
from gpucluster.errors import ConfigError

RULE = "a bucket's name has 3 to 63 lower-case letters, digits, dots and hyphens"


def refused(value: str, check: Any = s3_uri) -> dict[str, str]:
    with pytest.raises(PydanticCustomError) as caught:
        check(value)
    return dict(caught.value.context or {})


@pytest.mark.parametrize(
    "value",
    [
        "s3://bucket",
        "s3://bucket/",
        "s3://b.u-c/a b/c",
        "s3://bucket/donn\u00e9es",
        "s3://bucket//a",
        "s3://bucket/a=b?c*$",
    ],
)
def test_addresses_that_are_accepted(value: str) -> None:
    assert s3_uri(value) == any_s3_uri(value) == value


@pytest.mark.parametrize(
    ("value", "hint"),
    [
        ("S3://my-bucket/data", "write s3://my-bucket/data"),
        ("s3:/my-bucket/data", "write s3://my-bucket/data"),
        ("s3a://my-bucket/data", "write s3://my-bucket/data"),
        ("my-bucket/data", "write s3://my-bucket/data"),
        ("/my-bucket/data", ""),
        ("gs://my-bucket/data", "gs is no scheme of S3"),
        ("arn:aws:s3:::my-bucket/data/*", "write s3://my-bucket/data"),
        ("arn:aws-cn:s3:::my-bucket", "write s3://my-bucket"),
        (
            "arn:aws:s3:us-east-1:123456789012:accesspoint/mine",
            "access points are not supported: name the bucket, s3://bucket/prefix",
        ),
        ("arn:aws:iam::123456789012:role/a", "name the bucket, s3://bucket/prefix"),
        ("https://my-bucket.s3.eu-west-1.amazonaws.com/a%20b/c", "write s3://my-bucket/a b/c"),
        ("https://my.bucket.s3.amazonaws.com/", "write s3://my.bucket"),
        ("https://s3.eu-west-1.amazonaws.com/my-bucket/data", "write s3://my-bucket/data"),
        ("https://s3-us-west-2.amazonaws.com/my-bucket/data", "write s3://my-bucket/data"),
        ("https://my-bucket.s3.dualstack.us-east-1.amazonaws.com/data", "write s3://my-bucket/data"),
        ("https://my-bucket.s3.cn-north-1.amazonaws.com.cn/data", "write s3://my-bucket/data"),
        (
            "https://us-east-1.console.aws.amazon.com/s3/buckets/my-bucket?region=us-east-1&prefix=data/",
            "write s3://my-bucket/data",
        ),
        (
            "https://example.org/data.tar",
            "a URL is not supported: copy the data to a bucket, and name it: s3://bucket/prefix",
        ),
        (
            "s3://My_Bucket/data",
            "a bucket's name has 3 to 63 lower-case letters, digits, dots and hyphens, got 'My_Bucket'",
        ),
        (
            "s3:///data",
            "the bucket is missing: a bucket's name has 3 to 63 lower-case letters, digits, dots and hyphens",
        ),
        ("s3://bucket/a\u200bb", "the prefix contains the zero width space (U+200B): remove it"),
        ("s3://bucket/a\n", "the prefix contains the control character (U+000A): remove it"),
    ],
)
def test_the_wrong_part_is_named(value: str, hint: str) -> None:
    found = refused(value)
    assert (found["message"], found["hint"]) == (
        f"must be an S3 address such as s3://bucket/prefix, got {value!r}",
        hint,
    )
    assert refused(value, any_s3_uri)["hint"] == hint


def test_what_a_policy_cannot_name_may_be_in_a_job() -> None:
    """IAM's PutRolePolicy: PolicyDocument has characters up to U+00FF."""
    found = refused("s3://bucket/a/\u5b9f\u9a13/x")
    assert found["message"].startswith("contains cjk unified ideograph-5b9f (U+5B9F), which no IAM policy may contain")
    assert found["hint"] == "name the prefix above it: s3://bucket/a/"
    assert any_s3_uri("s3://bucket/a/\u5b9f\u9a13/x")


@given(
    st.one_of(
        st.text(max_size=30), st.text(max_size=20).map("s3://{}".format), st.text(max_size=20).map("https://{}".format)
    )
)
def test_any_text_is_accepted_or_refused(value: str) -> None:
    is_meant(value)
    for check in (s3_uri, any_s3_uri):
        try:
            assert check(value) == value
        except PydanticCustomError as refusal:
            assert refusal.context and refusal.context["message"]


@pytest.mark.parametrize("key", ["s3_access", "cache", "source", "s3"])
def test_every_key_with_an_address_names_the_part(key: str) -> None:
    value = "S3://my-bucket/data"
    repositories = [{"path": "/a", "s3": value}]
    lustre = {"mount": "/fsx", "type": "fsx-lustre", "capacity_gib": 1200, "data_repositories": repositories}
    beegfs = {"mount": "/ram", "type": "beegfs-ram", "partition": "train", "gib_per_node": 10, "scope": "job"}
    more = {
        "s3_access": {"s3_access": [{"uri": value}]},
        "cache": {"software": {"cache": value}},
        "source": {"storage": [{**beegfs, "source": value}]},
        "s3": {"storage": [lustre]},
    }[key]
    partitions = [{"name": "train", "instance_types": ["p4d.24xlarge"], "max_nodes": 1}]
    with pytest.raises(ConfigError) as caught:
        loads(json.dumps({"name": "a", "region": "us-east-1", "partitions": partitions, **more}))
    assert "write s3://my-bucket/data" in [problem.hint for problem in caught.value.problems]
