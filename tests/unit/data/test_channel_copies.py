"""Copies of a channel: their size, their identity, and a disk that becomes full."""

from __future__ import annotations

import errno
from pathlib import Path

import pytest

from gpucluster_train import fetch, tars
from gpucluster_train.assignment import Shard
from gpucluster_train.channels import Channel, ChannelError

KIB = 1024


def channel(root: str, *shards: Shard, unpack: str = "none") -> Channel:
    return Channel("train", root, "none", "copy", unpack, "0", ("train-1",), shards, node="train-1")


@pytest.mark.parametrize(
    ("unpack", "shards", "size"),
    [
        ("none", [Shard("a.tar", 10 * KIB, 5)], 10 * KIB),
        ("tar", [Shard("a.tar", 10 * KIB, 5)], (10 + 10 + 5 * 4) * KIB),
        ("tar", [Shard("a.tar", 10 * KIB)], (10 + 20) * KIB),
        ("tar", [Shard("a.tar.gz", 10 * KIB, 5)], (10 + 40) * KIB),
        ("tar", [Shard("a.tgz", 10 * KIB)], (10 + 40) * KIB),
        ("tar", [Shard(f"{number}.tar", 10 * KIB) for number in range(20)], (8 * 10 + 20 * 20) * KIB),
    ],
)
def test_the_space_that_a_copy_needs(unpack: str, shards: list[Shard], size: int) -> None:
    assert fetch.room_for(channel("/fsx/a", *shards, unpack=unpack), shards) == size


def test_a_disk_that_is_full_after_all(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    (tmp_path / "set").mkdir()
    (tmp_path / "set/a.tar").write_bytes(b"x" * 2048)
    (tmp_path / "copy").mkdir()
    monkeypatch.setattr(tars, "unpack", full)
    with pytest.raises(ChannelError) as refused:
        fetch.fill(channel(f"{tmp_path}/set", Shard("a.tar", 2048), unpack="tar"), tmp_path / "copy")
    assert str(refused.value) == (
        f"{tmp_path}/copy: the disk is full: {tmp_path}/set has 2.0 KiB of shards to unpack, "
        "for which 6.0 KiB were kept free: "
        "use an instance type with more NVMe storage, shard: by-node, or mode mount or stream"
    )


def test_a_disk_that_is_full_while_a_shard_is_copied(tmp_path: Path) -> None:
    """Linux answers writes to /dev/full as a full disk does (man 4 full)."""
    (tmp_path / "set").mkdir()
    (tmp_path / "set/a.tar").write_bytes(b"x" * 2048)
    (tmp_path / "copy").mkdir()
    (tmp_path / "copy/a.tar").symlink_to("/dev/full")
    with pytest.raises(ChannelError) as refused:
        fetch.fill(channel(f"{tmp_path}/set", Shard("a.tar", 2048)), tmp_path / "copy")
    assert str(refused.value) == (
        f"{tmp_path}/copy: the disk is full: {tmp_path}/set has 2.0 KiB of shards, for which 2.0 KiB were kept free: "
        "use an instance type with more NVMe storage, shard: by-node, or mode mount or stream"
    )


def test_other_errors_of_a_disk_stay_as_they_are(tmp_path: Path) -> None:
    (tmp_path / "a.tar").touch()
    (tmp_path / "copy").touch()
    with pytest.raises(OSError, match="copy"):
        fetch.fill(channel(str(tmp_path), Shard("a.tar")), tmp_path / "copy")


def test_files_of_two_folders_are_not_taken_for_the_same() -> None:
    """They have equal names and sizes, and were written at the same time."""
    plain, known = Shard("a.tar", 5), Shard("a.tar", 5, 1, "ab")
    beside = Shard("a.rec", 5, 1, "ab", ("a.idx",))
    versions = {"a.tar": "7", "a.idx": "7"}

    def key(root: str, shard: Shard) -> str:
        return fetch.key_of(channel(root, shard), [shard], versions)

    for shard in (plain, beside):
        assert key("/fsx/a", shard) != key("/fsx/b", shard)
        assert key("/fsx/a", shard) == key("/fsx/a", shard)
        assert key("s3://b/a", shard) == key("s3://b/c", shard)  # ETags are of the content
    assert key("/fsx/a", known) == key("/fsx/b", known) == key("s3://b/a", known)
