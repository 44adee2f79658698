"""Filling the file system in nodes' memory and writing it back: shares, copies, and the message of each failure."""

from __future__ import annotations

import os
import pwd
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import boto3
import pytest
from botocore.exceptions import ClientError
from gpucluster_node import locations
from gpucluster_node.beegfs import files
from gpucluster_node.locations import Folder, Item, Prefix, Refused
from hypothesis import given
from hypothesis import strategies as st
from moto import mock_aws

items = st.lists(
    st.builds(Item, st.text("abc", min_size=1, max_size=3), st.integers(0, 1000)), unique_by=lambda i: i.name
)


@given(items, st.integers(1, 9))
def test_shares_are_disjoint_complete_and_alike(found: list[Item], of: int) -> None:
    parts = files.shares(found, of)
    assert len(parts) == of
    assert sorted((item for part in parts for item in part), key=lambda i: i.name) == sorted(
        found, key=lambda i: i.name
    )
    sizes = [sum(item.size + 1 for item in part) for part in parts]
    assert max(sizes) - min(sizes) <= max((item.size + 1 for item in found), default=0)
    assert parts == files.shares(reversed(found), of)


@pytest.fixture
def mount(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The state after `job_ram serve`."""
    path = tmp_path / "ram"
    (path / files.OWN).mkdir(parents=True)
    monkeypatch.setattr(os.path, "ismount", lambda each: each == path)
    return path


@pytest.fixture
def s3(monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.setenv(name, "test")
    monkeypatch.delenv("AWS_ENDPOINT_URL", raising=False)
    with mock_aws():
        client = boto3.client("s3", region_name="us-east-1")
        client.create_bucket(Bucket="data")
        yield client


def put(root: Path, **files: str) -> None:
    for name, text in files.items():
        path = root / name.replace("__", "/")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)


def texts(root: Path) -> dict[str, str]:
    return {item.name: (root / item.name).read_text() for item in locations.walk(root, without=files.OWN)}


def keys(s3: Any) -> dict[str, str]:
    found = s3.list_objects_v2(Bucket="data").get("Contents", ())
    return {each["Key"]: s3.get_object(Bucket="data", Key=each["Key"])["Body"].read().decode() for each in found}


def test_nodes_fill_it_together_from_a_folder(mount: Path, tmp_path: Path) -> None:
    put(tmp_path / "source", a="1", train__b="22", train__deep__c="333")
    source = Folder(tmp_path / "source")
    done = [files.fill(mount, source, "/source", part, 2) for part in range(2)]
    assert sorted(item.name for part in done for item in part) == ["a", "train/b", "train/deep/c"]
    assert texts(mount) == {"a": "1", "train/b": "22", "train/deep/c": "333"}
    assert files.changed(mount) == []


def test_only_what_is_new_or_changed_is_written_back(mount: Path, tmp_path: Path) -> None:
    put(tmp_path / "source", kept="1", changed="2", gone="3")
    files.fill(mount, Folder(tmp_path / "source"), "/source")
    put(mount, changed="2 anew", out__new="4")
    (mount / "gone").unlink()
    (mount / "link").symlink_to("kept")
    target = Folder(tmp_path / "results")
    put(target.root, old="0")
    done = [files.export(mount, target, "/results", part, 3) for part in range(3)]
    assert sorted(item.name for part in done for item in part) == ["changed", "out/new"]
    assert texts(target.root) == {"old": "0", "changed": "2 anew", "out/new": "4"}


def test_a_prefix_in_s3_is_read_and_written(mount: Path, s3: Any) -> None:
    for key in ("in/a", "in/deep/b", "in/", "in/deep/", "inner/c"):
        s3.put_object(Bucket="data", Key=key, Body=key.encode())
    files.fill(mount, Prefix("s3://data/in/", s3), "s3://data/in")
    assert texts(mount) == {"a": "in/a", "deep/b": "in/deep/b"}
    put(mount, deep__new="new")
    files.export(mount, Prefix("s3://data/out", s3), "s3://data/out")
    assert {key: text for key, text in keys(s3).items() if key.startswith("out")} == {"out/deep/new": "new"}


def test_an_empty_or_missing_source_is_refused(mount: Path, tmp_path: Path, s3: Any) -> None:
    (tmp_path / "empty").mkdir()
    with pytest.raises(Refused, match="there is nothing at /empty"):
        files.fill(mount, Folder(tmp_path / "empty"), "/empty")
    with pytest.raises(Refused, match="there is no folder .*/nowhere"):
        files.fill(mount, Folder(tmp_path / "nowhere"), "/nowhere")
    with pytest.raises(Refused, match="there is nothing at s3://data/nowhere"):
        files.fill(mount, Prefix("s3://data/nowhere", s3), "s3://data/nowhere")
    with pytest.raises(Refused, match="there is no bucket nobodys"):
        files.fill(mount, Prefix("s3://nobodys/in", s3), "s3://nobodys/in")
    assert texts(mount) == {}


class Denied:
    """S3 as it answers a role without permission."""

    def get_paginator(self, name: str) -> Denied:
        return self

    def paginate(self, **_: str) -> Iterator[Any]:
        raise ClientError({"Error": {"Code": "AccessDenied", "Message": "no"}}, "ListObjectsV2")
        yield


def test_a_denied_read_names_the_key_that_grants_it(mount: Path) -> None:
    with pytest.raises(Refused, match="s3://data/in: access denied to list it: jobs need it under s3_access"):
        files.fill(mount, Prefix("s3://data/in", Denied()), "s3://data/in")


def test_data_that_does_not_fit_is_refused_before_copying(mount: Path, tmp_path: Path) -> None:
    put(tmp_path / "source", small="1")
    with (tmp_path / "source" / "huge").open("wb") as file:
        file.truncate(os.statvfs(mount).f_blocks * os.statvfs(mount).f_frsize + 1)
    with pytest.raises(Refused, match=r"/source holds \d+\.\d GiB, and .* has \d+\.\d: take more nodes"):
        files.fill(mount, Folder(tmp_path / "source"), "/source")
    assert texts(mount) == {}


@pytest.mark.parametrize("key", ["in/../../etc/passwd", "in/a/./b", "in//etc/passwd", "in/a//b"])
def test_a_key_that_cannot_be_a_file_name_is_refused_and_named(mount: Path, s3: Any, key: str) -> None:
    s3.put_object(Bucket="data", Key="in/a", Body=b"x")
    s3.put_object(Bucket="data", Key=key, Body=b"x")
    with pytest.raises(Refused, match=f"s3://data/{key} cannot be copied: an empty part, . or .. in it"):
        files.fill(mount, Prefix("s3://data/in", s3), "s3://data/in")
    assert texts(mount) == {}


def test_for_a_cluster_files_have_an_owner_and_are_copied_once(mount: Path, tmp_path: Path) -> None:
    (mount / files.OWN).rmdir()
    put(tmp_path / "source", top="top", a__b__deep="deep")
    (tmp_path / "source" / "top").chmod(0o600)
    source, owner = Folder(tmp_path / "source"), pwd.getpwuid(os.getuid()).pw_name
    for part in (0, 1):
        files.fill(mount, source, "/source", part, 2, owner)
    assert texts(mount) == {"top": "top", "a/b/deep": "deep"}
    assert sorted(path.name for path in mount.iterdir()) == ["a", "top"], "nothing of ours lies beside them"
    before = (mount / "top").stat()
    assert (before.st_mode & 0o777, before.st_uid) == (0o644, os.getuid())
    files.fill(mount, source, "/source", 0, 1, owner)
    assert (mount / "top").stat().st_ino == before.st_ino


def test_targets_of_the_sources_links_are_copied(mount: Path, tmp_path: Path) -> None:
    put(tmp_path / "source", a="1")
    (tmp_path / "source" / "link").symlink_to("a")
    (tmp_path / "source" / "dangling").symlink_to("nowhere")
    files.fill(mount, Folder(tmp_path / "source"), "/source")
    assert texts(mount) == {"a": "1", "link": "1"}


def test_no_partial_file_is_left(mount: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    put(tmp_path / "source", x="x")

    def full(source: Path, target: Path) -> None:
        target.write_text("h")
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(shutil, "copy2", full)
    with pytest.raises(Refused, match="1 of 1 files could not be copied from /source, the first: x: .*No space left"):
        files.fill(mount, Folder(tmp_path / "source"), "/source")
    assert texts(mount) == {}


def test_partial_files_of_a_killed_copy_are_not_written_back(mount: Path) -> None:
    put(mount, a="1")
    (mount / f"b{files.UNFINISHED}").write_text("half")
    assert [item.name for item in files.changed(mount)] == ["a"]


def test_without_a_mount_nothing_is_filled_or_written_back(tmp_path: Path) -> None:
    put(tmp_path / "source", a="1")
    folder = Folder(tmp_path / "source")
    with pytest.raises(Refused, match="is not mounted"):
        files.fill(tmp_path / "ram", folder, "/source")
    with pytest.raises(Refused, match="is not mounted"):
        files.export(tmp_path / "ram", folder, "/source")


class Full(Folder):
    def store(self, source: Path, name: str) -> None:
        if name == "b":
            raise OSError(28, "No space left on device")
        super().store(source, name)


def test_a_failed_file_does_not_stop_the_others(mount: Path, tmp_path: Path) -> None:
    put(mount, a="1", b="2", c="3")
    with pytest.raises(Refused, match="1 of 3 files did not reach /results, the first: b: .*No space left"):
        files.export(mount, Full(tmp_path / "results"), "/results")
    assert texts(tmp_path / "results") == {"a": "1", "c": "3"}


def test_an_upload_refused_by_s3_is_reported_like_any_failure(mount: Path, s3: Any) -> None:
    """boto3 wraps an error of upload_file in an exception that is not one of botocore's."""
    put(mount, a="1")
    with pytest.raises(Refused, match=r"1 of 1 files did not reach s3://nobodys/out, the first: a: .*NoSuchBucket"):
        files.export(mount, Prefix("s3://nobodys/out", s3), "s3://nobodys/out")


def test_an_interrupted_copy_leaves_the_old_file_whole(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    put(tmp_path, new="new", results__a="old")

    def half(source: Path, target: Path) -> None:
        target.write_text("ne")
        raise OSError(5, "Input/output error")

    monkeypatch.setattr(shutil, "copy2", half)
    with pytest.raises(OSError, match="Input/output"):
        Folder(tmp_path / "results").store(tmp_path / "new", "a")
    assert texts(tmp_path / "results") == {"a": "old"}
