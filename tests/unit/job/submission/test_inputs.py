"""Local folders as inputs: uploaded once by content; an incomplete upload never has the final name."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from gpucluster import account
from gpucluster.config import loads
from gpucluster.errors import JobSpecError, RemoteError, UsageError
from gpucluster.job import load
from gpucluster.layout import expand
from gpucluster.submission import inputs
from tests.in_process import InProcessRemote

LAYOUT = expand(
    loads("name: Test\nregion: us-east-1\npartitions: [{name: train, instance_types: [g5.12xlarge], max_nodes: 4}]\n")
)


@pytest.fixture
def data(tmp_path: Path) -> Path:
    folder = tmp_path / "data"
    (folder / "a").mkdir(parents=True)
    (folder / "a" / "one.txt").write_text("one")
    (folder / "two.txt").write_text("two, longer")
    return folder


@pytest.fixture
def shared(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(account, "home", lambda: str(tmp_path))
    return tmp_path / "inputs"


def copy(folder: Path, target: str) -> None:
    """As over the tunnel, and on one machine."""
    subprocess.run(["rsync", "--archive", *inputs.RSYNC_OPTIONS, f"{folder}/", f"{target}/"], check=True)


def digest(folder: Path) -> str:
    return inputs.read(folder, "channels.data").digest


def upload(found: inputs.Input, copied=copy) -> list[str]:
    messages: list[str] = []
    inputs.upload(InProcessRemote(), found, copied, messages.append)
    return messages


def test_an_inputs_name_depends_only_on_file_names_and_content(data: Path, tmp_path: Path) -> None:
    before = digest(data)
    os.utime(data / "two.txt", (1, 1))
    (data / "empty").mkdir()
    assert digest(data) == before == digest(data.rename(tmp_path / "elsewhere"))
    (tmp_path / "elsewhere" / "two.txt").rename(tmp_path / "elsewhere" / "three.txt")
    assert digest(tmp_path / "elsewhere") != before


def test_it_is_uploaded_once_and_nobody_writes_into_it(data: Path, shared: Path) -> None:
    found = inputs.read(data, "channels.data")
    assert upload(found) == [
        f"uploading {data}: 2 files, 14 bytes, to {found.target}",
        f"uploaded {data}: 2 files, 14 bytes",
    ]
    assert upload(found, None) == [f"{data}: 2 files, 14 bytes: already on the cluster, in {found.target}"]
    assert [each.name for each in shared.iterdir()] == [found.digest]
    assert digest(Path(found.target)) == found.digest
    assert Path(found.target, "two.txt").stat().st_mode & 0o777 == 0o444


def test_links_are_uploaded_as_their_targets(data: Path, shared: Path, tmp_path: Path) -> None:
    (tmp_path / "big").mkdir()
    (tmp_path / "big" / "three.txt").write_text("three")
    (data / "more").symlink_to(tmp_path / "big")
    found = inputs.read(data, "channels.data")
    upload(found)
    assert Path(found.target, "more", "three.txt").read_text() == "three"
    assert not Path(found.target, "more").is_symlink()


def test_an_upload_that_breaks_leaves_nothing_under_the_name_and_is_continued(data: Path, shared: Path) -> None:
    found = inputs.read(data, "channels.data")

    def breaks(folder: Path, target: str) -> None:
        Path(target, "two.txt").write_text("two, longer")
        raise RemoteError("rsync: the connection broke")

    with pytest.raises(RemoteError, match="the connection broke"):
        upload(found, breaks)
    assert not Path(found.target).exists()
    assert Path(found.unfinished, "two.txt").exists()
    upload(found)
    assert digest(Path(found.target)) == found.digest
    assert not Path(found.unfinished).exists()


def test_a_file_that_changes_during_the_upload_fails_it(data: Path, shared: Path) -> None:
    found = inputs.read(data, "channels.data")

    def beside(folder: Path, target: str) -> None:
        (folder / "two.txt").write_text("another text")
        copy(folder, target)

    with pytest.raises(UsageError, match="two.txt: was changed during the upload"):
        upload(found, beside)
    assert list(shared.iterdir()) == []


@pytest.mark.parametrize("stays", [True, False])
def test_a_file_that_appears_during_the_upload_fails_it(data: Path, shared: Path, stays: bool) -> None:
    """Also if it is deleted again, like an editor's temporary files."""
    found = inputs.read(data, "channels.data")

    def beside(folder: Path, target: str) -> None:
        (folder / "a" / "new.txt").write_text("new")
        copy(folder, target)
        if not stays:
            (folder / "a" / "new.txt").unlink()

    with pytest.raises(UsageError, match="data: files were added during the upload: 3 files were uploaded"):
        upload(found, beside)
    assert list(shared.iterdir()) == []


def test_two_uploads_of_the_same_content_at_once(data: Path, shared: Path) -> None:
    found = inputs.read(data, "channels.data")

    def slower(folder: Path, target: str) -> None:
        copy(folder, target)
        copy(folder, found.target)

    upload(found, slower)
    assert [each.name for each in shared.iterdir()] == [found.digest]


def test_another_rsyncs_temporary_file_does_not_fail_the_upload(data: Path, shared: Path) -> None:
    (data / ".hidden.abcdef").write_text("a file of ours with such a name")
    found = inputs.read(data, "channels.data")

    def while_another_writes(folder: Path, target: str) -> None:
        copy(folder, target)
        Path(target, ".two.txt.Xk3v9Q").touch()

    upload(found, while_another_writes)
    assert Path(found.target, ".hidden.abcdef").exists()


def test_an_upload_that_another_process_finished_is_used(data: Path, shared: Path) -> None:
    found = inputs.read(data, "channels.data")

    def finished_by_another(folder: Path, target: str) -> None:
        copy(folder, target)
        Path(target).rename(found.target)

    upload(found, finished_by_another)
    assert digest(Path(found.target)) == found.digest


@pytest.mark.parametrize(
    ("prepare", "said"),
    [
        (lambda data: (data / "gone").symlink_to("nowhere"), "gone: the link is broken"),
        (lambda data: (data / "a" / "up").symlink_to(data), "a/up: this link points to one of its parent folders"),
        (lambda data: os.mkfifo(data / "pipe"), "pipe: neither a file nor a folder"),
    ],
)
def test_files_that_cannot_be_uploaded_are_named(data: Path, prepare, said: str) -> None:
    prepare(data)
    with pytest.raises(UsageError, match=said):
        inputs.read(data, "channels.data")


def test_a_job_names_local_folders_as_seen_from_its_file(data: Path, tmp_path: Path, shared: Path) -> None:
    spec = load(LAYOUT, flags={"command": ["a"], "channels": {"data": "./data", "more": "/home/x"}})
    moved, found = inputs.localized(spec, {"data": tmp_path})
    assert [each.folder for each in found] == [data]
    assert {name: channel.source for name, channel in moved.channels.items()} == {
        "data": f"{shared}/{digest(data)}",
        "more": "/home/x",
    }
    assert load(LAYOUT, flags={"command": ["a"], "channels": {"data": moved.channels["more"].source}})


@pytest.mark.parametrize(
    ("source", "said"),
    [
        ("./nothing", "channels.data: .*nothing: no such folder on this machine"),
        ("./data/two.txt", "channels.data: .*two.txt: is a file: name its folder"),
        ("./void", "channels.data: .*void: contains no files"),
    ],
)
def test_a_missing_local_folder_is_refused(data: Path, tmp_path: Path, source: str, said: str) -> None:
    (tmp_path / "void").mkdir()
    spec = load(LAYOUT, flags={"command": ["a"], "channels": {"data": source}})
    with pytest.raises(UsageError, match=said):
        inputs.localized(spec, {"data": tmp_path})


def test_a_local_folder_is_not_streamed() -> None:
    with pytest.raises(JobSpecError, match="stream needs an s3:// source"):
        load(LAYOUT, flags={"command": ["a"], "channels": {"data": {"source": "./data", "mode": "stream"}}})


ODD_NAMES = [
    (b"caf\xe9.tar", r"caf\xe9.tar: this name is not UTF-8: rename it"),
    (b"a/one\ntwo.tar", r"a/one\ntwo.tar: this name has a line break or another control character: rename it"),
    (b"a\r.tar", r"a\r.tar: this name has a line break"),
    ("a\u2028b.tar".encode(), r"a\u2028b.tar: this name has a line break"),
]


@pytest.mark.parametrize(("name", "said"), ODD_NAMES)
def test_a_name_that_no_list_of_shards_can_have_is_refused_before_the_upload(
    name: bytes, said: str, data: Path
) -> None:
    (data / os.fsdecode(name)).touch()
    with pytest.raises(UsageError) as caught:
        digest(data)
    assert f"channels.data: {data}: {said}" in str(caught.value)
    (data / os.fsdecode(name)).rename(data / f"_{os.fsdecode(name).replace('/', '_')}")  # no shard
    assert digest(data)


def test_a_path_that_no_list_of_shards_can_have_is_refused() -> None:
    flags = {"command": ["true"], "channels": {"data": {"source": "/home/caf\udce9"}}}
    with pytest.raises(JobSpecError, match=r"channel.data.source: /home/caf.xe9: this name is not UTF-8: rename it"):
        load(LAYOUT, None, flags)
