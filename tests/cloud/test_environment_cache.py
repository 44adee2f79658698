"""The environments' cache, with the permissions of the nodes' role: an archive is stored once, and never replaced.

Root of all clusters that share a prefix unpacks what is there.
"""

from __future__ import annotations

import io
import json
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from botocore.exceptions import ClientError
from gpucluster_node.jobs import environment_cache

from localcloud.clients import ACCOUNT_ID
from stacks.storage.s3_access import ONCE

BUCKET, KEY = "environments", "envs/torch-0123.tar.gz"
URI = f"s3://{BUCKET}/{KEY}"
LARGE = environment_cache.PART_BYTES + 1


@pytest.fixture(scope="module")
def node(control_plane: Any) -> Callable[[], Any]:
    """Makes clients of S3 for the role of compute nodes."""
    control_plane.client("s3").create_bucket(Bucket=BUCKET)
    iam, archives = control_plane.client("iam"), f"arn:aws:s3:::{BUCKET}/envs/*"
    trust = {"Effect": "Allow", "Principal": {"AWS": f"arn:aws:iam::{ACCOUNT_ID}:root"}, "Action": "sts:AssumeRole"}
    role = iam.create_role(
        RoleName="stores", AssumeRolePolicyDocument=json.dumps({"Version": "2012-10-17", "Statement": [trust]})
    )["Role"]["Arn"]
    reads = {"Effect": "Allow", "Action": ["s3:GetObject", "s3:AbortMultipartUpload"], "Resource": archives}
    writes = [{"Effect": "Allow", "Action": "s3:PutObject", "Resource": archives, "Condition": each} for each in ONCE]
    policy = json.dumps({"Version": "2012-10-17", "Statement": [reads, *writes]})
    iam.put_role_policy(RoleName="stores", PolicyName="stores", PolicyDocument=policy)
    held = control_plane.client("sts").assume_role(RoleArn=role, RoleSessionName="node")["Credentials"]
    return lambda: control_plane.client(
        "s3",
        aws_access_key_id=held["AccessKeyId"],
        aws_secret_access_key=held["SecretAccessKey"],
        aws_session_token=held["SessionToken"],
    )


@pytest.fixture
def stored(control_plane: Any) -> Iterator[Callable[[], bytes]]:
    """What is stored, which only its owner deletes."""
    s3 = control_plane.client("s3")
    yield lambda: s3.get_object(Bucket=BUCKET, Key=KEY)["Body"].read()
    s3.delete_object(Bucket=BUCKET, Key=KEY)


def put(node: Callable[[], Any], monkeypatch: pytest.MonkeyPatch, content: bytes) -> None:
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(content)))
    environment_cache.put(node(), URI)


@pytest.mark.parametrize("size", [10, LARGE], ids=["one", "parts"])
def test_a_node_stores_an_archive_once(
    node: Callable[[], Any], stored: Callable[[], bytes], monkeypatch: pytest.MonkeyPatch, size: int
) -> None:
    put(node, monkeypatch, b"a" * size)
    assert stored() == b"a" * size
    with pytest.raises(ClientError) as error:
        put(node, monkeypatch, b"b" * size)
    assert error.value.response["Error"]["Code"] == "PreconditionFailed"
    assert stored() == b"a" * size


def test_root_on_a_node_replaces_no_archive(
    node: Callable[[], Any], stored: Callable[[], bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    """With clients of its own, which do not send the header, or in other ways."""
    put(node, monkeypatch, b"right")
    plain, whole = node(), {"Bucket": BUCKET, "Key": KEY}
    begun = plain.create_multipart_upload(**whole)["UploadId"]
    part = plain.upload_part(**whole, UploadId=begun, PartNumber=1, Body=b"planted")["ETag"]
    tries: dict[str, Callable[[], object]] = {
        "put": lambda: plain.put_object(**whole, Body=b"planted"),
        "complete": lambda: plain.complete_multipart_upload(
            **whole, UploadId=begun, MultipartUpload={"Parts": [{"PartNumber": 1, "ETag": part}]}
        ),
        "copy": lambda: plain.copy_object(**whole, CopySource=whole, MetadataDirective="REPLACE"),
        "delete": lambda: plain.delete_object(**whole),
        "elsewhere": lambda: plain.put_object(Bucket=BUCKET, Key="other", Body=b"", IfNoneMatch="*"),
    }
    for name, tried in tries.items():
        with pytest.raises(ClientError) as error:
            tried()
        assert error.value.response["Error"]["Code"] == "AccessDenied", name
    assert stored() == b"right"
