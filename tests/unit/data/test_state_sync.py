"""The copy of a task's state in S3: what is copied, what is restored and when, and errors of S3."""

from __future__ import annotations

import errno
import json
import os
import re
import shutil
import time
from pathlib import Path

import boto3
import pytest
from moto import mock_aws

from gpucluster_train import state_sync
from gpucluster_train.channels import ChannelError
from gpucluster_train.state_sync import LIST, Copy, Sync, watch

URI = "s3://mine/states/digits/small"


@pytest.fixture(autouse=True)
def bucket(monkeypatch: pytest.MonkeyPatch):
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.setenv(name, "x")
    monkeypatch.setenv("AWS_DEFAULT_REGION", "us-east-1")
    monkeypatch.setenv("SLURM_JOB_ID", "77")
    monkeypatch.delenv("AWS_ENDPOINT_URL", raising=False)
    with mock_aws():
        boto3.client("s3").create_bucket(Bucket="mine")
        yield


def cluster(tmp_path: Path, name: str) -> Sync:
    """One cluster: its folder, and its record of the copy."""
    folder = tmp_path / name / "state"
    folder.parent.mkdir(exist_ok=True)
    return Sync(folder, Copy(URI), folder.with_name(".state.copied"))


def write(folder: Path, name: str, text: str) -> None:
    (folder / name).parent.mkdir(parents=True, exist_ok=True)
    (folder / name).write_text(text)


def run(sync: Sync, **files: str) -> Sync:
    """A run of the job, which writes these files."""
    sync.restore()
    sync.folder.mkdir(exist_ok=True)
    for name, text in files.items():
        write(sync.folder, name, text)
    sync.step(last=True)
    return sync


def content(folder: Path) -> dict[str, str]:
    return {path.relative_to(folder).as_posix(): path.read_text() for path in folder.rglob("*") if path.is_file()}


def keys() -> set[str]:
    found = boto3.client("s3").list_objects_v2(Bucket="mine").get("Contents", [])
    return {each["Key"].removeprefix("states/digits/small/") for each in found}


def test_another_cluster_finds_what_the_first_one_wrote(tmp_path: Path) -> None:
    first = cluster(tmp_path, "a")
    write(first.folder, "step-1/weights", "1")
    (first.folder / "latest").symlink_to("step-1")
    run(first)
    second = cluster(tmp_path, "b")
    assert second.restore() == f"2 files were restored from {URI}"
    assert content(second.folder) == {"step-1/weights": "1"}
    assert os.readlink(second.folder / "latest") == "step-1"


def test_unfinished_files_are_not_copied(tmp_path: Path) -> None:
    sync = cluster(tmp_path, "a")
    for name in ("done", "half.tmp", ".hidden", "step-2.tmp/weights", ".x/y"):
        write(sync.folder, name, "x")
    sync.step(last=True)
    assert keys() == {"done", LIST}


def test_distributed_checkpoints_are_copied_whole(tmp_path: Path) -> None:
    """torch.distributed.checkpoint writes .metadata.tmp, and renames it (_metadata_fn in its filesystem.py)."""
    sync = cluster(tmp_path, "a")
    for name in ("step-1/__0_0.distcp", "step-1/.metadata", "step-2/__0_0.distcp", "step-2/.metadata.tmp"):
        write(sync.folder, name, "x")
    sync.step(last=True)
    assert keys() == {"step-1/__0_0.distcp", "step-1/.metadata", "step-2/__0_0.distcp", LIST}


def test_a_file_that_just_changed_waits_for_the_next_time(tmp_path: Path) -> None:
    sync = cluster(tmp_path, "a")
    write(sync.folder, "new", "x")
    assert not sync.step(last=False)
    before = time.time() - 60
    os.utime(sync.folder / "new", (before, before))
    assert sync.step(last=False)
    assert keys() == {"new", LIST}


def test_only_what_changed_is_copied_and_what_was_deleted_goes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    sync = run(cluster(tmp_path, "a"), a="1", b="1")
    put: list[str] = []
    monkeypatch.setattr(Copy, "put", lambda self, path, name: put.append(name))
    assert not sync.step(last=True)
    write(sync.folder, "b", "22")
    (sync.folder / "a").unlink()
    assert sync.step(last=True)
    assert put == ["b"]
    assert keys() == {"b", LIST}


def settle(*paths: Path) -> None:
    before = time.time() - 120
    for path in paths:
        os.utime(path, (before, before))


def restored(tmp_path: Path, name: str) -> dict[str, str]:
    """What another cluster would begin with now."""
    other = cluster(tmp_path, name)
    other.restore()
    return content(other.folder)


def test_a_checkpoint_stays_in_the_copy_until_the_next_one_is_there(tmp_path: Path) -> None:
    """A program that keeps only its newest checkpoint, as with save_total_limit=1 of Hugging Face's Trainer."""
    sync = run(cluster(tmp_path, "a"), **{"epoch-0": "0", "config": "x"})
    (sync.folder / "epoch-0").unlink()
    write(sync.folder, "epoch-1", "1")
    sync.step(last=False)
    assert keys() == {"epoch-0", "config", LIST}
    assert restored(tmp_path, "b") == {"epoch-0": "0", "config": "x"}
    settle(sync.folder / "epoch-1")
    sync.step(last=False)
    assert keys() == {"epoch-1", "config", LIST}
    assert restored(tmp_path, "c") == {"epoch-1": "1", "config": "x"}


@pytest.mark.parametrize("last", [False, True])
@pytest.mark.parametrize("others", [{}, {"config": "x"}], ids=["alone", "beside others"])
@pytest.mark.parametrize("name", ["epoch-1.tmp", "epoch-1.tmp/weights", ".epoch-1"])
def test_a_checkpoint_stays_in_the_copy_while_the_next_one_is_written(
    tmp_path: Path, name: str, others: dict[str, str], last: bool
) -> None:
    """The program deletes first, and the job may end before it has renamed what it writes."""
    sync = run(cluster(tmp_path, "a"), **{"epoch-0": "0"}, **others)
    (sync.folder / "epoch-0").unlink()
    write(sync.folder, name, "half")
    sync.step(last=last)
    assert restored(tmp_path, "b") == {"epoch-0": "0"} | others


def test_an_old_unfinished_file_does_not_keep_what_was_deleted(tmp_path: Path) -> None:
    sync = run(cluster(tmp_path, "a"), **{"epoch-0": "0", "epoch-1": "1"})
    write(sync.folder, "epoch-2.tmp", "half, of a run that was killed")
    settle(sync.folder / "epoch-2.tmp")
    (sync.folder / "epoch-0").unlink()
    sync.step(last=False)
    assert keys() == {"epoch-1", LIST}


def test_an_unfinished_file_that_always_changes_keeps_deleted_checkpoints_only_for_a_while(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Otherwise the copy would have every checkpoint, and its restoration could fill the disk."""
    sync = run(cluster(tmp_path, "a"), **{"epoch-0": "0"})
    (sync.folder / "epoch-0").unlink()
    write(sync.folder, ".heartbeat", "x")
    monkeypatch.setattr(state_sync, "GROWING_S", 0.0)
    sync.step(last=False)
    assert keys() == {"epoch-0", LIST}, "nothing newer is in the copy"
    monkeypatch.setattr(state_sync, "GROWING_S", 600.0)
    write(sync.folder, "epoch-1", "1")
    sync.step(last=True)
    assert keys() == {"epoch-0", "epoch-1", LIST}
    monkeypatch.setattr(state_sync, "GROWING_S", 0.0)
    sync.step(last=False)
    assert keys() == {"epoch-1", LIST}


def test_a_program_that_runs_and_has_deleted_everything_keeps_the_copy(tmp_path: Path) -> None:
    sync = run(cluster(tmp_path, "a"), **{"epoch-0": "0"})
    (sync.folder / "epoch-0").unlink()
    assert not sync.step(last=False)
    assert restored(tmp_path, "b") == {"epoch-0": "0"}


def test_a_checkpoint_stays_in_the_copy_if_the_next_one_cannot_be_uploaded(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    sync = run(cluster(tmp_path, "a"), **{"epoch-0": "0"})
    (sync.folder / "epoch-0").unlink()
    write(sync.folder, "epoch-1", "1")

    def refused(self: Copy, path: Path, name: str) -> None:
        raise ChannelError("S3 denies access to it")

    with monkeypatch.context() as broken, pytest.raises(ChannelError):
        broken.setattr(Copy, "put", refused)
        sync.step(last=True)
    assert restored(tmp_path, "b") == {"epoch-0": "0"}
    real = Copy.put

    def changes(self: Copy, path: Path, name: str) -> None:
        real(self, path, name)
        path.write_text("changed while it was copied")

    with monkeypatch.context() as busy:
        busy.setattr(Copy, "put", changes)
        sync.step(last=True)
    assert "epoch-0" in restored(tmp_path, "c")
    sync.step(last=True)
    assert restored(tmp_path, "d") == {"epoch-1": "changed while it was copied"}


def test_a_log_that_always_grows_keeps_deleted_checkpoints_only_for_a_while(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    sync = run(cluster(tmp_path, "a"), **{"epoch-0": "0", "epoch-1": "1"})
    (sync.folder / "epoch-0").unlink()
    write(sync.folder, "log.txt", "1")
    sync.step(last=False)
    assert "epoch-0" in keys()
    monkeypatch.setattr(state_sync, "GROWING_S", 0.0)
    sync.step(last=False)
    assert keys() == {"epoch-1", LIST}


def test_a_file_that_became_a_folder_is_not_kept_beside_it(tmp_path: Path) -> None:
    sync = run(cluster(tmp_path, "a"), **{"latest": "0"})
    (sync.folder / "latest").unlink()
    write(sync.folder, "latest/weights", "1")
    settle(sync.folder / "latest" / "weights")
    write(sync.folder, "new", "still written")
    sync.step(last=False)
    assert restored(tmp_path, "b") == {"latest/weights": "1"}


@pytest.mark.parametrize("number", [errno.ESTALE, errno.EACCES])
@pytest.mark.parametrize("place", ["", "step-1"])
def test_a_folder_that_cannot_be_listed_deletes_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, place: str, number: int
) -> None:
    sync = cluster(tmp_path, "a")
    write(sync.folder, "step-1/weights", "1")
    sync.step(last=True)
    before, listed = keys(), os.scandir

    def refuses(top: str) -> object:
        if Path(top) == sync.folder / place:
            raise OSError(number, os.strerror(number), top)
        return listed(top)

    monkeypatch.setattr(os, "scandir", refuses)  # what os.walk calls
    with pytest.raises(OSError, match=re.escape(os.strerror(number))):
        sync.step(last=True)
    assert keys() == before == {"step-1/weights", LIST}


def test_a_folder_that_is_deleted_while_it_is_read_goes_and_a_missing_state_does_not(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    sync = cluster(tmp_path, "a")
    for name in ("step-1/weights", "step-2/weights"):
        write(sync.folder, name, "x")
    sync.step(last=True)
    listed = os.scandir

    def deletes(top: str) -> object:
        if Path(top).name == "step-1":
            Path(top).rename(tmp_path / "deleted")
        return listed(top)

    with monkeypatch.context() as patched:
        patched.setattr(os, "scandir", deletes)
        sync.step(last=True)
    assert keys() == {"step-2/weights", LIST}
    sync.folder.rename(tmp_path / "unmounted")
    with pytest.raises(FileNotFoundError):
        sync.step(last=True)
    assert keys() == {"step-2/weights", LIST}


def test_a_run_on_the_same_cluster_goes_on_from_its_own_folder(tmp_path: Path) -> None:
    run(cluster(tmp_path, "a"), a="1")
    again = cluster(tmp_path, "a")
    write(again.folder, "a", "newer than the copy: the last run was ended before it was copied")
    assert again.restore() == ""
    assert content(again.folder)["a"].startswith("newer")


@pytest.mark.parametrize("lost", ["all", "files", "but an unfinished one"])
def test_a_state_that_was_lost_here_is_restored_and_not_deleted_from_the_copy(tmp_path: Path, lost: str) -> None:
    run(cluster(tmp_path, "a"), a="1", b="1")
    folder = tmp_path / "a" / "state"
    shutil.rmtree(folder)
    if lost != "all":
        folder.mkdir()
    if lost == "but an unfinished one":
        write(folder, "c.tmp", "half")
    sync = cluster(tmp_path, "a")
    said = sync.restore()
    sync.folder.mkdir(exist_ok=True)
    sync.step(last=True)
    assert keys() == {"a", "b", LIST}
    assert content(folder) == {"a": "1", "b": "1"}
    aside = tmp_path / "a" / "state-before-77"
    why = f", because {folder} was {'missing' if lost == 'all' else 'empty'}"
    more = f"; what was unfinished in it is in {aside}" if lost == "but an unfinished one" else ""
    assert said == f"2 files were restored from {URI}{why}{more}"
    assert aside.exists() == bool(more)


def test_a_state_that_the_program_deleted_stays_deleted(tmp_path: Path) -> None:
    sync = run(cluster(tmp_path, "a"), a="1")
    (sync.folder / "a").unlink()
    sync.step(last=True)
    again = cluster(tmp_path, "a")
    assert (again.restore(), keys(), content(again.folder)) == ("", {LIST}, {})


def test_a_cleaned_state_is_not_restored(tmp_path: Path) -> None:
    sync = run(cluster(tmp_path, "a"), a="1")
    shutil.rmtree(sync.folder)
    cluster(tmp_path, "a").clean()
    assert cluster(tmp_path, "a").restore() == ""
    assert not sync.folder.exists()


def test_a_later_copy_of_another_cluster_is_restored_and_no_file_is_lost(tmp_path: Path) -> None:
    run(cluster(tmp_path, "a"), a="1")
    run(cluster(tmp_path, "b"), a="2")
    said = cluster(tmp_path, "a").restore()
    aside = tmp_path / "a" / "state-before-77"
    assert said == f"1 files were restored from {URI}, which another cluster wrote; the previous state is in {aside}"
    assert (content(tmp_path / "a/state"), content(aside)) == ({"a": "2"}, {"a": "1"})


def test_a_second_restore_in_one_job_keeps_what_the_first_one_put_aside(tmp_path: Path) -> None:
    """Slurm requeues a job with the same ID."""
    folder = tmp_path / "a" / "state"
    run(cluster(tmp_path, "a"), a="the only copy")
    run(cluster(tmp_path, "b"), a="2")
    cluster(tmp_path, "a").restore()
    (folder / "a").unlink()
    write(folder, "a.tmp", "half")
    assert cluster(tmp_path, "a").restore().endswith(f"is in {folder}-before-77-2")
    assert content(tmp_path / "a" / "state-before-77") == {"a": "the only copy"}
    assert (content(folder), content(tmp_path / "a" / "state-before-77-2")) == ({"a": "2"}, {"a.tmp": "half"})


def test_a_run_after_an_interrupted_cleaning_begins_anew_and_is_copied(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    sync = run(cluster(tmp_path, "a"), a="1", b="1")
    shutil.rmtree(sync.folder)
    deleted = list[str]()

    def interrupted(self: Copy, names: list[str]) -> None:
        for name in names[:2]:
            self.s3.delete_object(Bucket=self.bucket, Key=self.key(name))
            deleted.append(name)
        raise ChannelError("the job was cancelled")

    with monkeypatch.context() as broken, pytest.raises(ChannelError):
        broken.setattr(Copy, "delete", interrupted)
        cluster(tmp_path, "a").clean()
    assert len(deleted) == 2
    run(cluster(tmp_path, "a"), c="3")
    assert content(sync.folder) == {"c": "3"}
    assert json.loads(boto3.client("s3").get_object(Bucket="mine", Key=f"states/digits/small/{LIST}")["Body"].read())[
        "files"
    ].keys() == {"c"}


def test_a_list_whose_upload_was_not_confirmed_is_recognized_as_ours(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    sync = cluster(tmp_path, "a")
    write(sync.folder, "a", "1")
    real = Copy.write_list

    def lost(self: Copy, id_: str, files: object) -> None:
        real(self, id_, files)  # type: ignore[arg-type]
        raise ChannelError("the connection broke")

    monkeypatch.setattr(Copy, "write_list", lost)
    with pytest.raises(ChannelError):
        sync.step(last=True)
    assert cluster(tmp_path, "a").restore() == ""


def test_a_restore_that_fails_leaves_everything_as_it_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run(cluster(tmp_path, "a"), a="1")
    run(cluster(tmp_path, "b"), a="2", b="2")

    def denied(self: Copy, name: str, to: Path) -> None:
        raise ChannelError("denied")

    monkeypatch.setattr(Copy, "get", denied)
    with pytest.raises(ChannelError):
        cluster(tmp_path, "a").restore()
    assert content(tmp_path / "a/state") == {"a": "1"}


def test_the_copy_is_deleted(tmp_path: Path) -> None:
    run(cluster(tmp_path, "a"), a="1", b="1")
    cluster(tmp_path, "a").clean()
    assert keys() == set()
    assert cluster(tmp_path, "b").restore() == ""


def test_an_error_of_s3_causes_one_warning(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    read, write_end = os.pipe()
    monkeypatch.setattr("sys.stdin", read)  # select takes a number, too
    monkeypatch.setattr(state_sync, "EVERY_S", 0.05)
    monkeypatch.setattr("signal.signal", lambda *_: None)
    steps: list[bool] = []

    def step(self: Sync, *, last: bool) -> bool:
        steps.append(last)
        if len(steps) == 4:
            os.close(write_end)
        raise ChannelError(f"{URI}: S3 denies access to it")

    monkeypatch.setattr(Sync, "step", step)
    watch(cluster(tmp_path, "a"), tmp_path / "result.json")
    os.close(read)
    assert steps[-1] and not any(steps[:-1])
    said = capsys.readouterr().out.splitlines()
    assert said == [
        f"[state] warning: the state is not copied to S3: {URI}: S3 denies access to it; "
        "the job continues, and tries again each minute"
    ]
    assert json.loads((tmp_path / "result.json").read_text())["problem"] == f"{URI}: S3 denies access to it"


def test_s3s_message_is_shown(tmp_path: Path) -> None:
    sync = Sync(tmp_path / "state", Copy("s3://no-such-bucket-1/x"), tmp_path / "kept")
    with pytest.raises(ChannelError, match="no such bucket"):
        sync.restore()
    write(sync.folder, "a", "1")
    with pytest.raises(ChannelError, match="no such bucket"):
        sync.step(last=True)


def test_a_file_whose_name_is_no_key_is_named_and_the_others_are_copied(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """boto3 raises UnicodeEncodeError for it: a key in S3 is UTF-8."""
    read, write_end = os.pipe()
    os.close(write_end)  # the job ends
    monkeypatch.setattr("sys.stdin", read)
    monkeypatch.setattr("signal.signal", lambda *_: None)
    sync = cluster(tmp_path, "a")
    for name in ("a", os.fsdecode(b"caf\xe9.pt"), os.fsdecode(b"stra\xdfe/b"), "z"):
        write(sync.folder, name, "1")
    watch(sync, tmp_path / "result.json")
    os.close(read)
    problem = json.loads((tmp_path / "result.json").read_text())["problem"]
    assert problem.startswith(r"2 files, first caf\xe9.pt, are not copied to S3: a name there is UTF-8; the other")
    assert capsys.readouterr().out.splitlines() == [f"[state] warning: {problem}"]
    assert keys() == {"a", "z", state_sync.LIST}
    assert run(cluster(tmp_path, "b")).copied.keys() == {"a", "z"}


EVENTS = "tensorboard/events.out.tfevents.1764400000.train-1.7.0"
"""As torch's SummaryWriter names it (torch/utils/tensorboard: EventFileWriter)."""


def test_event_files_are_copied_while_they_grow(tmp_path: Path) -> None:
    sync = cluster(tmp_path, "a")
    write(sync.folder, EVENTS, "1")
    write(sync.folder, "checkpoint.pt", "1")
    assert sync.step(last=False)
    assert keys() == {EVENTS, LIST}  # the other file may still be written
    write(sync.folder, EVENTS, "12")
    assert sync.step(last=False)
    body = boto3.client("s3").get_object(Bucket="mine", Key=f"states/digits/small/{EVENTS}")["Body"]
    assert body.read() == b"12"


def test_a_file_that_grows_during_its_copy_is_in_the_copy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    sync = cluster(tmp_path, "a")
    write(sync.folder, EVENTS, "1")
    put = sync.copy.put

    def slow(path: Path, name: str) -> None:
        put(path, name)
        write(sync.folder, EVENTS, "12")

    monkeypatch.setattr(sync.copy, "put", slow)
    assert sync.step(last=False)
    assert list(sync.copy.read_list()[1]) == [EVENTS]


def test_without_event_files_there_is_no_connection_to_s3(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(state_sync, "Copy", None)
    monkeypatch.setattr(state_sync, "ignore_signals", lambda: None)
    monkeypatch.setattr(state_sync.select, "select", lambda *asked: ([0], [], []))
    result = tmp_path / "tensorboard.json"
    given = [str(tmp_path / "none"), URI, str(tmp_path / "kept"), str(result), "watch-events"]
    assert state_sync.main(given) == 0
    assert not result.exists() and not (tmp_path / "none").exists()
