"""Imports and exports of data repository associations, on files of this machine and moto's S3."""

from __future__ import annotations

import os
import stat
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from moto.s3.models import s3_backends

from localcloud.clients import ACCOUNT_ID
from localcloud.filesystems import records
from localcloud.filesystems.association import Association
from localcloud.filesystems.files import Files
from localcloud.filesystems.first_read import FirstRead
from localcloud.filesystems.objects import Store
from localcloud.runtime import Locks

ALL = ["NEW", "CHANGED", "DELETED"]
RELEASED, HERE, CHANGED = 0xD, 0x9, 0xB
as_root = pytest.mark.skipif(os.geteuid() != 0, reason="others cannot give files away")


def _kernel_reports_opens() -> bool:
    probe = FirstRead(lambda path: None)
    works = probe.works
    probe.close()
    return works


held_up = pytest.mark.skipif(
    not _kernel_reports_opens(), reason="the kernel does not tell this user of files that are opened"
)


@dataclass
class Linked:
    files: Files
    record: dict[str, Any]
    association: Association

    @property
    def folder(self) -> Path:
        return self.association.folder

    def put(self, key: str, content: bytes, **metadata: str) -> None:
        made = _s3().put_object("data", key, content)
        made.set_metadata({f"x-amz-meta-{name.replace('_', '-')}": value for name, value in metadata.items()})

    def objects(self) -> dict[str, bytes]:
        return {key: found.value for key, found in _s3().buckets["data"].keys.items()}

    def policies(self, imports: list[str], exports: list[str]) -> None:
        self.record["S3"] = {"AutoImportPolicy": {"Events": imports}, "AutoExportPolicy": {"Events": exports}}

    def settle(self) -> None:
        """Files are exported when they no longer change."""
        self.association.sync()
        self.association.sync()


def _s3() -> Any:
    return s3_backends[ACCOUNT_ID]["aws"]


def _end_bucket() -> None:
    if "data" in _s3().buckets:
        _s3().buckets["data"].keys.clear()
        _s3().delete_bucket("data")


@pytest.fixture
def linked(tmp_path: Path) -> Iterator[Linked]:
    _s3().create_bucket("data", "us-east-1")
    files = Files(tmp_path, Store(ACCOUNT_ID, Locks()))
    record = {"FileSystemPath": "/set", "DataRepositoryPath": "s3://data/set", "S3": {}}
    yield Linked(files, record, Association(files, record))
    files.close()
    _end_bucket()


def _read_elsewhere(path: Path) -> bytes:
    """Runs in a separate process, as in a guest."""
    return subprocess.run(["cat", str(path)], capture_output=True, timeout=20, check=True).stdout


def held(path: Path) -> int:
    """Bytes of content; some file systems store attributes in a separate block."""
    return path.stat().st_blocks * 512 // 8192 * 8192


@held_up
def test_metadata_comes_first_and_content_when_a_file_is_opened(linked: Linked) -> None:
    linked.put("set/a/1.txt", b"one" * 5000)
    assert linked.association.import_changes() == (1, 0)
    path = linked.folder / "a/1.txt"
    assert (path.stat().st_size, held(path), records.state(path)) == (15000, 0, RELEASED)
    assert _read_elsewhere(path) == b"one" * 5000
    assert (held(path), records.state(path)) == (16384, HERE)
    assert linked.files.release(path) > 0
    assert (held(path), records.state(path)) == (0, RELEASED)
    linked.files.restore(str(path))
    assert (records.state(path), _read_elsewhere(path)) == (HERE, b"one" * 5000)


def test_without_fanotify_the_content_is_imported_at_once(linked: Linked) -> None:
    linked.files.close()
    linked.put("set/1.txt", b"one")
    linked.association.import_changes()
    path = linked.folder / "1.txt"
    assert (path.read_bytes(), records.state(path)) == (b"one", HERE)
    assert linked.files.release(path) == 0 and path.read_bytes() == b"one"


@held_up
def test_clients_changes_of_a_released_file_are_kept(linked: Linked) -> None:
    for name in ("cut", "dated", "written"):
        linked.put(f"set/{name}", b"content")
    linked.association.import_changes()
    cut, dated, written = (linked.folder / name for name in ("cut", "dated", "written"))
    os.truncate(cut, 3)
    os.utime(dated, ns=(1, 2_000_000_000))
    subprocess.run(["sh", "-c", f"printf more >>{written}"], check=True, timeout=20)
    assert (_read_elsewhere(cut), _read_elsewhere(dated), _read_elsewhere(written)) == (
        b"\0\0\0",
        b"content",
        b"contentmore",
    )
    assert dated.stat().st_mtime_ns == 2_000_000_000
    linked.policies([], ALL)
    linked.settle()
    assert linked.objects()["set/written"] == b"contentmore"


@held_up
def test_a_released_file_whose_object_was_deleted_cannot_be_opened(linked: Linked) -> None:
    linked.put("set/1.txt", b"one")
    linked.association.import_changes()
    _s3().delete_object("data", "set/1.txt")
    done = subprocess.run(["cat", str(linked.folder / "1.txt")], capture_output=True, timeout=20, check=False)
    assert done.returncode and not done.stdout


@pytest.mark.parametrize("events", [[], ["NEW"], ["NEW", "CHANGED"], ALL])
def test_changes_in_s3_are_imported_according_to_the_policy(linked: Linked, events: list[str]) -> None:
    for name in ("kept", "other", "gone"):
        linked.put(f"set/{name}", b"before")
    linked.association.import_changes()
    linked.policies(events, [])
    linked.put("set/new", b"new")
    linked.put("set/other", b"another one")
    _s3().delete_object("data", "set/gone")
    linked.association.sync()
    there = {path.name: path.stat().st_size for path in linked.folder.iterdir()}
    assert there == {
        "kept": 6,
        "other": 11 if "CHANGED" in events else 6,
        **({} if "DELETED" in events else {"gone": 6}),
        **({"new": 3} if "NEW" in events else {}),
    }


def test_a_clients_changes_are_not_overwritten_from_s3(linked: Linked) -> None:
    linked.put("set/file", b"before")
    linked.association.import_changes()
    linked.files.restore(str(linked.folder / "file"))
    (linked.folder / "file").write_bytes(b"the client's")
    assert records.state(linked.folder / "file") == CHANGED
    linked.policies(ALL, [])
    linked.put("set/file", b"the bucket's, later")
    linked.association.sync()
    _s3().delete_object("data", "set/file")
    linked.association.sync()
    assert (linked.folder / "file").read_bytes() == b"the client's"


@pytest.mark.parametrize("events", [[], ["NEW"], ["NEW", "CHANGED"], ALL])
def test_changes_of_files_are_exported_according_to_the_policy(linked: Linked, events: list[str]) -> None:
    for name in ("kept", "other", "gone"):
        linked.put(f"set/{name}", b"before")
    linked.association.import_changes()
    linked.policies([], events)
    linked.settle()
    assert linked.objects() == {f"set/{name}": b"before" for name in ("kept", "other", "gone")}, "nothing happened yet"
    for name in ("other", "gone"):
        linked.files.restore(str(linked.folder / name))
    (linked.folder / "new").mkdir()
    (linked.folder / "new/file").write_bytes(b"new")
    (linked.folder / "other").write_bytes(b"another one")
    (linked.folder / "gone").unlink()
    linked.settle()
    assert linked.objects() == {
        "set/kept": b"before",
        "set/other": b"another one" if "CHANGED" in events else b"before",
        **({} if "DELETED" in events else {"set/gone": b"before"}),
        **({"set/new/": b"", "set/new/file": b"new"} if "NEW" in events else {}),
    }
    if "CHANGED" in events:
        assert records.state(linked.folder / "other") == HERE


def test_a_file_is_exported_only_when_it_no_longer_changes(linked: Linked) -> None:
    linked.policies([], ALL)
    for size in (1, 2, 3):
        (linked.folder / "log").write_bytes(b"." * size)
        linked.association.sync()
        assert linked.objects() == {}
    linked.association.sync()
    assert linked.objects() == {"set/log": b"..."}


def test_imported_files_are_not_exported_and_exported_ones_not_imported(linked: Linked) -> None:
    linked.policies(ALL, ALL)
    linked.put("set/in", b"in")
    (linked.folder / "out").write_bytes(b"out")
    linked.settle()
    written = {key: found.last_modified for key, found in _s3().buckets["data"].keys.items()}
    inode = (linked.folder / "out").stat().st_ino
    linked.settle()
    assert {key: found.last_modified for key, found in _s3().buckets["data"].keys.items()} == written
    assert sorted(written) == ["set/in", "set/out"]
    assert (linked.folder / "out").stat().st_ino == inode


def test_owner_permissions_and_times_are_kept_in_the_object(linked: Linked) -> None:
    linked.policies([], ALL)
    path = linked.folder / "script"
    path.write_bytes(b"#!/bin/sh")
    path.chmod(0o640)
    os.utime(path, ns=(5_000_000_001, 7_000_000_001))
    linked.settle()
    metadata = _s3().buckets["data"].keys["set/script"].metadata
    assert metadata["x-amz-meta-file-permissions"] == "0100640"
    assert metadata["x-amz-meta-file-owner"] == str(os.geteuid())
    assert metadata["x-amz-meta-file-mtime"] == "7000000001ns"
    assert metadata["x-amz-meta-user-agent"] == "aws-fsx-lustre"
    path.chmod(0o600)
    linked.settle()
    assert _s3().buckets["data"].keys["set/script"].metadata["x-amz-meta-file-permissions"] == "0100600"


@as_root
def test_an_objects_metadata_sets_its_files_owner_permissions_and_times(linked: Linked) -> None:
    linked.put("set/plain", b"")
    linked.put("set/mine", b"", file_permissions="0104640", file_owner="1000", file_group="1001", file_mtime="1500")
    linked.put("set/folder/", b"", file_permissions="040700", file_owner="1000")
    linked.put("set/link", b"folder/far", file_permissions="0120777")
    assert linked.association.import_changes() == (4, 0)
    plain, mine = ((linked.folder / name).stat() for name in ("plain", "mine"))
    assert (stat.S_IMODE(plain.st_mode), plain.st_uid) == (0o755, 0)
    assert (stat.S_IMODE(mine.st_mode), mine.st_uid, mine.st_gid) == (0o640, 1000, 1001), "never set-user-id"
    assert mine.st_mtime_ns == 1_500_000_000
    assert stat.S_IMODE((linked.folder / "folder").stat().st_mode) == 0o700
    assert os.readlink(linked.folder / "link") == "folder/far"


@pytest.mark.parametrize("key", ["set//double", "set/../outside", "set/./here", "set/" + "n" * 256])
def test_a_key_that_cannot_be_a_path_is_not_imported(linked: Linked, key: str) -> None:
    linked.put(key, b"x")
    linked.put("settle/other", b"another prefix")
    assert linked.association.import_changes() == (0, 0)
    assert list(linked.folder.iterdir()) == []


def test_an_object_that_cannot_be_a_file_fails_alone(linked: Linked) -> None:
    linked.put("set/a", b"a file")
    linked.put("set/a/b", b"and a directory")
    linked.put("set/b", b"b", file_permissions="rw-r--r--")
    linked.put("set/c", b"c")
    assert linked.association.import_changes() == (2, 2)
    assert sorted(path.name for path in linked.folder.iterdir()) == ["a", "c"]


def test_a_file_that_s3_cannot_store_is_reported_and_not_exported(linked: Linked) -> None:
    deep = linked.folder / "/".join("d" * 200 for _ in range(5))
    deep.mkdir(parents=True)
    (deep / ("f" * 50)).write_bytes(b"x")
    why = linked.association.export(str((deep / ("f" * 50)).relative_to(linked.folder)))
    assert why == "its key would have more than 1024 bytes"
    assert records.state(deep / ("f" * 50)) == 0
    (linked.folder / "file").write_bytes(b"x")
    _end_bucket()
    assert linked.association.export("file") == "the bucket data does not exist"


def test_deleting_a_file_system_deletes_nothing_in_s3(linked: Linked) -> None:
    linked.policies([], ALL)
    (linked.folder / "file").write_bytes(b"x")
    linked.settle()
    linked.association.end()
    linked.files.delete(linked.folder)
    linked.settle()
    assert linked.objects() == {"set/file": b"x"}


def test_a_copy_of_a_file_is_another_file(linked: Linked) -> None:
    """`cp --archive` and rsync copy extended attributes too."""
    linked.put("set/file", b"content")
    linked.association.import_changes()
    linked.files.restore(str(linked.folder / "file"))
    subprocess.run(["cp", "--archive", linked.folder / "file", linked.folder / "copy"], check=True)
    assert (records.state(linked.folder / "copy"), records.state(linked.folder / "file")) == (0, HERE)
    (linked.folder / "file").rename(linked.folder / "renamed")
    assert records.state(linked.folder / "renamed") == HERE
