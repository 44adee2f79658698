"""`gpucluster data shard` with a stand-in for S3 and a role that may list only some prefixes."""

from __future__ import annotations

import errno
import io
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest
from botocore.exceptions import ClientError, IncompleteReadError, ReadTimeoutError

from gpucluster.data import source
from gpucluster.data.locations import location
from gpucluster.data.run import Options, shard
from gpucluster.data.stages import stage
from gpucluster.errors import AwsError, DataError, UsageError


@dataclass
class PlayedS3:
    """S3 for a role that may list keys that begin with `listed`: a request for a missing object gets 403."""

    listed: tuple[str, ...] = ("",)
    secret: tuple[str, ...] = ()
    """Existing keys that this role may not read."""
    objects: dict[str, bytes] = field(default_factory=dict)
    failing: dict[str, list[Exception]] = field(default_factory=dict)
    """Key -> errors of the first attempts, before an answer or while its body is read."""

    def get_object(self, Bucket: str, Key: str, Range: str = "bytes=0-") -> dict[str, Any]:
        Key.encode()  # boto3 raises UnicodeEncodeError for names that are not UTF-8
        if Key not in self.objects or Key in self.secret:
            raise refused("AccessDenied", "GetObject")
        failure = next(iter(self.failing.get(Key, ())), None)
        if failure:
            self.failing[Key].pop(0)
            if isinstance(failure, ClientError):
                raise failure
            return {"Body": Broken(failure)}
        start, _, end = Range.removeprefix("bytes=").partition("-")
        return {"Body": io.BytesIO(self.objects[Key][int(start) : int(end) + 1 if end else None])}

    def put_object(self, Bucket: str, Key: str, Body: bytes) -> None:
        self.objects[Key] = Body

    def upload_fileobj(self, content: io.BufferedReader, bucket: str, key: str) -> None:
        self.objects[key] = content.read()

    def delete_object(self, Bucket: str, Key: str) -> None:
        self.objects.pop(Key, None)

    def list_objects_v2(self, Bucket: str, Prefix: str, MaxKeys: int = 1000, Delimiter: str = "") -> dict[str, Any]:
        if not Prefix.startswith(self.listed):
            raise refused("AccessDenied", "ListObjectsV2")
        keys = sorted(key for key in self.objects if key.startswith(Prefix))
        if Delimiter:
            keys = [key for key in keys if Delimiter not in key.removeprefix(Prefix)]
        return {"Contents": [{"Key": key, "Size": len(self.objects[key])} for key in keys[:MaxKeys]]}

    def get_paginator(self, name: str) -> PlayedS3:
        assert name == "list_objects_v2"
        return self

    def paginate(self, **words: Any) -> Iterator[dict[str, Any]]:
        yield self.list_objects_v2(**words)


@dataclass
class Broken:
    error: Exception

    def read(self) -> bytes:
        raise self.error


def refused(code: str, operation: str) -> ClientError:
    return ClientError({"Error": {"Code": code, "Message": code}}, operation)


@pytest.fixture
def s3(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> PlayedS3:
    played = PlayedS3()
    monkeypatch.setattr("gpucluster.data.s3._client", lambda: played)
    monkeypatch.setattr("gpucluster.data.s3.PAUSES_S", (0, 0, 0), raising=False)
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    return played


def jpeg(number: int) -> bytes:
    return b"\xff\xd8\xff\xda\0\x02" + b"%d." % number * 40 + b"\xff\xd9"


def test_a_role_that_may_list_only_a_prefix_can_pack_into_it(s3: PlayedS3) -> None:
    """S3 answers 403 for a missing object if the caller may not list the whole bucket."""
    s3.listed = ("raw/", "shards/")
    s3.objects |= {f"raw/c{number % 2}/{number}.jpg": jpeg(number) for number in range(8)}
    options = Options("s3://bucket/raw", "s3://bucket/shards", {"": 4}, workers=1)
    for name in ("plan", "0/2", "1/2"):
        stage(options, name, lambda text: None)
    assert [each.shards for each in stage(options, "finish", lambda text: None)] == [4]
    assert "shards/manifest.json" in s3.objects


def test_access_denied_to_an_existing_object_stays_denied(s3: PlayedS3) -> None:
    s3.objects |= {"a/b": b"1", "a/bc": b"2"}
    s3.secret = ("a/b",)
    with pytest.raises(AwsError, match=r"s3://bucket/a/b: access denied \(GetObject\)"):
        location("s3://bucket/a").read("b")
    assert location("s3://bucket/a").read("bcd") is None
    del s3.objects["a/b"]
    assert location("s3://bucket/a").read("b") is None


def test_if_listing_is_denied_too_the_first_denial_is_reported(s3: PlayedS3) -> None:
    s3.listed = ("elsewhere/",)
    with pytest.raises(AwsError, match=r"s3://bucket/a/b: access denied \(GetObject\)"):
        location("s3://bucket/a").read("b")


def failures(count: int) -> list[Exception]:
    kinds = [
        ReadTimeoutError(endpoint_url="https://s3"),
        ConnectionResetError("connection reset by peer"),
        IncompleteReadError(actual_bytes=1, expected_bytes=2),
    ]
    return [kinds[number % 3] for number in range(count)]


@pytest.fixture
def options(s3: PlayedS3, tmp_path: Path) -> Options:
    s3.objects |= {f"raw/c{number % 2}/{number}.jpg": jpeg(number) for number in range(8)}
    return Options("s3://bucket/raw", str(tmp_path / "out"), {"": 2}, workers=1)


def test_a_truncated_answer_is_requested_again(s3: PlayedS3, options: Options) -> None:
    s3.failing = {"raw/c1/3.jpg": failures(3)}
    assert shard(options, lambda text: None)[0].samples == 8
    assert s3.failing == {"raw/c1/3.jpg": []}


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        (failures(4), r"GetObject was interrupted 4 times: Read timeout on endpoint URL"),
        ([refused("SlowDown", "GetObject")], "GetObject: SlowDown"),
        ([refused("InternalError", "GetObject")], "GetObject: InternalError"),
    ],
    ids=("broken off", "slow down", "internal error"),
)
def test_an_error_of_the_connection_does_not_make_a_file_bad(
    s3: PlayedS3, options: Options, wrong: list[Exception], said: str
) -> None:
    """If a user then excludes it, a good file is lost."""
    s3.failing = {"raw/c1/3.jpg": wrong}
    with pytest.raises(AwsError, match=f"s3://bucket/raw/c1/3.jpg: {said}"):
        shard(options, lambda text: None)
    assert shard(options, lambda text: None)[0].samples == 8


def test_denied_files_count_as_bad(s3: PlayedS3, options: Options) -> None:
    s3.secret = ("raw/c1/3.jpg",)
    with pytest.raises(UsageError, match="1 file cannot be packed:\n  c1/3.jpg: .*: access denied"):
        shard(options, lambda text: None)


def test_a_list_in_s3_leaves_files_out(s3: PlayedS3, options: Options) -> None:
    s3.objects["raw/c1/3.jpg"] = b""
    options = replace(options, target="s3://bucket/shards")
    with pytest.raises(UsageError) as caught:
        shard(options, lambda text: None)
    merged = "s3://bucket/shards/.unfinished/bad.txt"
    assert str(caught.value.hint).endswith(f"--restart --exclude {merged}")
    done = shard(replace(options, restart=True, exclude_from=(merged,)), lambda text: None)
    assert done[0].samples == 7
    assert not [key for key in s3.objects if ".unfinished" in key]


def test_a_full_disk_of_this_machine_is_named(
    s3: PlayedS3, options: Options, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Full(io.FileIO):
        def write(self, content: Any) -> int:
            raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr("gpucluster.data.packing.FileIO", Full)
    path = rf"{tmp_path}/gpucluster-shards-\d+/shards-000000.(tar|idx)\..*"
    said = (
        rf"cannot write {path}.part, which is to be s3://bucket/shards/shards-000000.(tar|idx): no space left on device"
    )
    with pytest.raises(DataError, match=said) as caught:
        shard(replace(options, target="s3://bucket/shards"), lambda text: None)
    assert "TMPDIR names another disk" in str(caught.value.hint)
    assert not list(tmp_path.rglob("*.part"))


def test_a_complete_data_set_is_not_written_to(s3: PlayedS3, options: Options, monkeypatch: pytest.MonkeyPatch) -> None:
    """A user with read permission only gets the message that it is complete."""
    options = replace(options, target="s3://bucket/shards")
    made = shard(options, lambda text: None)
    for name in ("put_object", "delete_object", "upload_fileobj"):
        monkeypatch.delattr(PlayedS3, name)
    assert shard(options, lambda text: None) == made


def test_a_name_that_no_object_can_have_is_a_missing_file(s3: PlayedS3) -> None:
    """A list in Latin-1 beside objects, whose keys are always UTF-8."""
    s3.objects["raw/all.txt"] = "é.jpg\n".encode("latin-1")
    with pytest.raises(UsageError, match="all.txt: is not UTF-8 text: byte 0 is 0xe9"):
        source.read("s3://bucket/raw/all.txt")
    found = list(location("s3://bucket/raw").contents(["caf\udce9.jpg"]))
    assert [str(each) for each in found] == ["cannot read caf\udce9.jpg: no such object"]
