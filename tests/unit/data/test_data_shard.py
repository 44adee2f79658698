"""`gpucluster data shard` and `verify`, as users type them: results, errors and leftovers."""

from __future__ import annotations

import errno
import json
import os
import signal
import socket
import subprocess
import sys
import tarfile
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from gpucluster.cli import main
from gpucluster.cli.data import FORMATS as CHOICES
from gpucluster.data import disk, locations, run
from gpucluster.data.locations import UNFINISHED
from gpucluster.data.records import FORMATS
from gpucluster.data.run import Options
from gpucluster.data.stages import stage
from gpucluster.errors import DataError, UsageError
from localcloud.testing import patience

ROOT = Path(__file__).resolve().parents[3]
Captured = pytest.CaptureFixture[str]


def jpeg(number: int) -> bytes:
    return b"\xff\xd8\xff\xda\0\x02" + b"%d." % number * (50 + number % 40) + b"\xff\xd9"


@pytest.fixture
def images(tmp_path: Path) -> Path:
    """43 to train on, 7 to validate with."""
    for number in range(50):
        folder = tmp_path / "src" / ("val" if number % 7 == 6 else "train") / f"c{number % 3}"
        folder.mkdir(parents=True, exist_ok=True)
        (folder / f"{number}.JPEG").write_bytes(jpeg(number))
    return tmp_path / "src"


def shard(*words: object) -> int:
    """Runs in this process by default, because starting others takes longer than the work."""
    one = () if "--workers" in words else ("--workers", 1)
    return main(["data", "shard", *map(str, (*words, *one))])


def verify(folder: Path) -> int:
    return main(["data", "verify", str(folder), "--workers", "1"])


def files(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def answer(captured: Captured) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = json.loads(captured.readouterr().out.splitlines()[-1])["data_sets"]
    return found


def test_the_command_line_knows_every_format() -> None:
    assert tuple(FORMATS) == CHOICES


def test_every_sample_is_in_one_shard(images: Path, tmp_path: Path, capsys: Captured) -> None:
    assert shard(images, tmp_path / "out", "--shards", "train=5,val=2") == 0
    captured = capsys.readouterr()
    train, val = json.loads(captured.out)["data_sets"]
    assert (train["samples"], train["shards"], train["remainder"], val["samples"]) == (43, 5, 3, 7)
    assert "43 samples in 5 shards, 8 in each, one more in the first 3; 3 classes" in captured.err
    for split in ("train", "val"):
        labels = read_tars(tmp_path / "out" / split)
        expected = {path.read_bytes(): int(path.parent.name[1:]) for path in (images / split).rglob("*.JPEG")}
        assert labels == expected
    assert not (tmp_path / "out" / "train" / UNFINISHED).exists()


def read_tars(folder: Path) -> dict[bytes, int]:
    """Content -> label; a duplicate sample would make the number too small."""
    found: dict[bytes, int] = {}
    for path in sorted(folder.glob("*.tar")):
        with tarfile.open(path) as tar:
            members = {member.name: tar.extractfile(member).read() for member in tar}  # type: ignore[union-attr]
        for name in members:
            if name.endswith(".jpg"):
                assert members[name] not in found
                found[members[name]] = int(members[f"{name[:-4]}.cls"])
    return found


def test_samples_jsonl_says_what_each_sample_is(images: Path, tmp_path: Path) -> None:
    shard(images / "train", tmp_path / "out", "--shards", 4)
    lines = [json.loads(line) for line in (tmp_path / "out" / "samples.jsonl").read_text().splitlines()]
    for path in (tmp_path / "out").glob("*.tar"):
        with tarfile.open(path) as tar:
            for member in tar:
                if member.name.endswith(".jpg"):
                    name, _ = lines[int(member.name[:9])]
                    assert tar.extractfile(member).read() == (images / "train" / name).read_bytes()  # type: ignore[union-attr]


@pytest.mark.parametrize("format", FORMATS)
def test_the_same_data_gives_the_same_bytes(format: str, images: Path, tmp_path: Path) -> None:
    """With one process or three, here or in jobs; another seed gives others."""
    common = (images, "--shards", "train=7,val=3", "--format", format)
    several = ("--workers", 3 if format == "recordio" else 1)
    for number, words in enumerate((("--workers", 1), several, ("--seed", 1))):
        assert shard(*common, tmp_path / str(number), *words) == 0
    options = Options(str(images), str(tmp_path / "jobs"), {"train": 7, "val": 3}, format=format, workers=1)
    for name in ("plan", "1/3", "0/3", "2/3", "finish"):
        stage(options, name, lambda text: None)
    made = [files(tmp_path / name) for name in ("0", "1", "2", "jobs")]
    assert made[0] == made[1] == made[3]
    assert made[0].keys() == made[2].keys()
    assert made[0] != made[2]


def test_too_many_for_equal_shards_can_be_left_out(images: Path, tmp_path: Path, capsys: Captured) -> None:
    assert shard(images / "train", tmp_path / "out", "--shards", 5, "--remainder", "drop") == 0
    manifest = json.loads((tmp_path / "out" / "manifest.json").read_text())
    assert [each["samples"] for each in manifest["shards"]] == [8] * 5
    assert len(manifest["left_out"]) == manifest["remainder"] == 3
    assert "3 are left out, so that all shards are equal" in capsys.readouterr().err
    whole = len(list((images / "train").rglob("*.JPEG")))
    assert len(read_tars(tmp_path / "out")) == whole - 3


def test_killed_half_way_and_run_again_it_ends_with_the_same_bytes(images: Path, tmp_path: Path) -> None:
    """A named pipe without a writer stops the run at the same place on every machine."""
    assert shard(images, tmp_path / "undisturbed", "--shards", 6) == 0
    names = [json.loads(line)[0] for line in (tmp_path / "undisturbed/train/samples.jsonl").read_text().splitlines()]
    held_up = images / names[25]  # of shard 3
    content = held_up.read_bytes()
    held_up.unlink()
    os.mkfifo(held_up)
    words = ["data", "shard", str(images), str(tmp_path / "out"), "--shards", "6", "--workers", "2"]
    run = subprocess.Popen([sys.executable, "-m", "gpucluster.cli", *words], cwd=ROOT, stderr=subprocess.DEVNULL)
    done = tmp_path / "out" / "train" / UNFINISHED / "done"
    try:
        until(lambda: done.is_dir() and len(list(done.iterdir())) == 5)
        workers = children(run.pid)
        assert workers
    finally:
        run.send_signal(signal.SIGKILL)
        run.wait()
    until(lambda: not any(Path(f"/proc/{worker}").exists() for worker in workers))
    assert not (tmp_path / "out" / "train" / "manifest.json").exists()
    held_up.unlink()
    held_up.write_bytes(content)
    kept = {path: path.stat().st_mtime_ns for path in (tmp_path / "out" / "train").glob("*.tar")}
    # as of a process that was killed while it wrote
    half = tmp_path / "out" / "train" / UNFINISHED / f"train-000003.tar.{os.uname().nodename}.{run.pid}.part"
    half.write_bytes(b"half")
    assert shard(*words[2:]) == 0
    assert files(tmp_path / "out") == files(tmp_path / "undisturbed")
    assert kept and all(path.stat().st_mtime_ns == at for path, at in kept.items())


def until(probe: Any, timeout_s: float = 30) -> None:
    deadline = patience.seconds() + timeout_s
    while not probe():
        assert patience.seconds() < deadline
        time.sleep(0.02)


def children(process: int) -> list[int]:
    found = []
    for path in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = path.read_text().rpartition(")")[2].split()
        except OSError:
            continue
        if int(fields[1]) == process:
            found.append(int(path.parent.name))
    return found


def test_a_complete_data_set_is_not_packed_again(images: Path, tmp_path: Path, capsys: Captured) -> None:
    common = (images / "val", tmp_path / "out")
    assert shard(*common, "--shards", 3) == 0
    before = answer(capsys)
    assert shard(*common, "--shards", 3) == 0
    assert answer(capsys) == before
    # as if it had been killed right after it wrote the manifest
    (tmp_path / "out" / UNFINISHED).mkdir()
    (tmp_path / "out" / UNFINISHED / "plan.json").write_text("{}")
    assert verify(tmp_path / "out") == 0
    assert shard(*common, "--shards", 3) == 0
    assert not (tmp_path / "out" / UNFINISHED).exists()
    capsys.readouterr()
    assert shard(*common, "--shards", 2) == 2
    assert "out: has another data set: 7 samples in 3 shards" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--shards", "5", "--seed", "2"], "its seed is 0, now 2"),
        (["--shards", "4"], "it has 5 shards, now 4"),
        (["--shards", "5", "--format", "tfrecord"], "its format is tar, now tfrecord"),
    ],
)
def test_an_unfinished_run_of_another_plan_is_not_mixed(
    words: Sequence[str], said: str, images: Path, tmp_path: Path, capsys: Captured
) -> None:
    source, target = images / "train", tmp_path / "out"
    options = Options(str(source), str(target), {"": 5}, workers=1)
    for name in ("plan", "0/2"):
        stage(options, name, lambda text: None)
    assert shard(source, target, *words) == 2
    captured = capsys.readouterr().err
    assert f"has 3 shards of another plan: {said}" in captured
    assert "--restart" in captured
    assert shard(source, target, *words, "--restart") == 0
    assert verify(target) == 0


@pytest.fixture
def others(images: Path, tmp_path: Path) -> Path:
    """The same names, another content."""
    for path in (images / "train").rglob("*.JPEG"):
        new = tmp_path / "others" / path.relative_to(images)
        new.parent.mkdir(parents=True, exist_ok=True)
        new.write_bytes(path.read_bytes()[:-2] + b"other\xff\xd9")
    return tmp_path / "others"


def test_an_unfinished_run_of_another_source_is_not_mixed(
    images: Path, others: Path, tmp_path: Path, capsys: Captured
) -> None:
    target = tmp_path / "out"
    options = Options(str(images / "train"), str(target), {"": 5}, workers=1)
    for name in ("plan", "0/2"):
        stage(options, name, lambda text: None)
    assert shard(others / "train", target, "--shards", 5) == 2
    captured = capsys.readouterr().err
    assert f"has 3 shards of another plan: its source is {images}/train, now {others}/train" in captured
    assert shard(others / "train", target, "--shards", 5, "--restart") == 0
    assert set(read_tars(target)) == {path.read_bytes() for path in others.rglob("*.JPEG")}


def test_a_complete_data_set_of_another_source_is_no_success(
    images: Path, others: Path, tmp_path: Path, capsys: Captured
) -> None:
    assert shard(images / "train", tmp_path / "out", "--shards", 5) == 0
    assert shard(others / "train", tmp_path / "out", "--shards", 5) == 2
    said = f"out: has another data set: 43 samples in 5 shards, from {images}/train, now {others}/train"
    assert said in capsys.readouterr().err


def test_a_source_is_the_same_however_it_is_written(
    images: Path, tmp_path: Path, capsys: Captured, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert shard(images / "train", tmp_path / "out", "--shards", 5) == 0
    monkeypatch.chdir(images)
    assert shard("./train/", tmp_path / "out", "--shards", 5) == 0
    assert "is already complete" in capsys.readouterr().err


def test_bad_files_are_all_named_and_nothing_half_written_stays(images: Path, tmp_path: Path, capsys: Captured) -> None:
    bad = sorted((images / "train").rglob("*.JPEG"))[::11]
    assert len(bad) == 4
    bad[0].write_bytes(bad[0].read_bytes()[:-2])
    bad[1].write_bytes(b"")
    bad[2].unlink()
    bad[2].symlink_to(tmp_path / "gone")
    bad[3].write_bytes(b"<html>404</html>")
    target = tmp_path / "out"
    common = (images / "train", target, "--shards", 12)
    assert shard(*common) == 2
    said = capsys.readouterr().err
    assert "4 files cannot be packed:" in said
    reasons = ["truncated JPEG: its end marker is missing", "it is empty", "no such file or directory", "not an image"]
    for path, reason in zip(bad, reasons, strict=True):
        assert f"  {path.relative_to(images / 'train')}: {reason}" in said
    assert not (target / "manifest.json").exists()
    assert list(target.rglob("*.part")) == []
    whole = set(target.glob("*.tar"))
    assert len(whole) >= 12 - 4
    assert {f"{path.name}.json" for path in whole} == {path.name for path in (target / UNFINISHED / "done").iterdir()}

    named = target / UNFINISHED / "bad.txt"
    assert shard(*common, "--restart", "--exclude", named) == 0
    assert answer(capsys)[0]["samples"] == 43 - 4
    assert verify(target) == 0


@pytest.mark.parametrize(("number", "code"), [(errno.EIO, 1), (errno.ESTALE, 1), (errno.EACCES, 2)])
def test_a_failing_disk_makes_no_file_a_bad_one(
    number: int, code: int, images: Path, tmp_path: Path, capsys: Captured, monkeypatch: pytest.MonkeyPatch
) -> None:
    """If a user then excludes it, a good file is lost."""
    failing = next((images / "val").rglob("*.JPEG"))

    def played(path: Any, *words: Any, **named: Any) -> Any:
        if str(path) == str(failing):
            raise OSError(number, os.strerror(number))
        return open(path, *words, **named)

    monkeypatch.setattr("gpucluster.data.locations.open", played, raising=False)
    assert shard(images / "val", tmp_path / "out", "--shards", 2) == code
    said = capsys.readouterr().err
    assert ("cannot be packed" in said) == ("--exclude" in said) == (code == 2)
    assert os.strerror(number).lower() in said and failing.name in said
    monkeypatch.undo()
    assert shard(images / "val", tmp_path / "out", "--shards", 2) == 0


def test_bad_files_of_every_split_are_named(images: Path, tmp_path: Path, capsys: Captured) -> None:
    for split in ("train", "val"):
        next((images / split).rglob("*.JPEG")).write_bytes(b"")
    assert shard(images, tmp_path / "out", "--shards", 3) == 2
    said = capsys.readouterr().err
    assert said.count("error: ") == 2
    assert said.count(": it is empty") == 2


def test_one_list_leaves_out_the_bad_files_of_all_splits(images: Path, tmp_path: Path, capsys: Captured) -> None:
    """It also contains the files that were excluded before, because the next run's list replaces it."""
    train, val = (sorted((images / split).rglob("*.JPEG")) for split in ("train", "val"))
    target, own = tmp_path / "out", tmp_path / "own.txt"
    own.write_text(f"# blurred\n{train[5].relative_to(images)}\n")
    for path in (train[0], val[0]):
        path.write_bytes(b"")
    merged = f"{target}/{UNFINISHED}/bad.txt"
    assert shard(images, target, "--shards", 3, "--exclude", own) == 2
    assert f"fix the 2 bad files and run the same command again: finished shards are kept; to skip them, add: " \
           f"--restart --exclude {merged}" in capsys.readouterr().err  # fmt: skip
    train[1].write_bytes(b"")
    assert shard(images, target, "--shards", 3, "--restart", "--exclude", merged) == 2
    assert "fix the bad file" in capsys.readouterr().err
    assert sorted(Path(merged).read_text().splitlines()) == sorted(
        str(path.relative_to(images)) for path in (train[0], train[1], train[5], val[0])
    )
    own.write_text(f"{train[6].relative_to(images)}\n")
    assert shard(images, target, "--shards", 3, "--restart", "--exclude", merged, "--exclude", own) == 0
    assert [each["samples"] for each in answer(capsys)] == [43 - 4, 7 - 1]
    assert verify(target) == 0
    assert not (target / UNFINISHED).exists()


def test_parts_name_their_bad_files_in_one_list(images: Path, tmp_path: Path) -> None:
    for path in sorted((images / "train").rglob("*.JPEG"))[:20]:
        path.write_bytes(b"")
    target = tmp_path / "out"
    options = Options(str(images), str(target), {"": 6}, workers=1)
    stage(options, "plan", lambda text: None)
    for name in ("0/2", "1/2"):
        with pytest.raises(UsageError, match="files cannot be packed"):
            stage(options, name, lambda text: None)
    with pytest.raises(DataError, match="of 6 shards are missing") as caught:
        stage(options, "finish", lambda text: None)
    merged = f"{target}/{UNFINISHED}/bad.txt"
    assert f"fix the 20 bad files and run the same command again: finished shards are kept; to skip them, add: " \
           f"--restart --exclude {merged}" == caught.value.hint  # fmt: skip
    options = replace(options, restart=True, exclude_from=(merged,))
    for name in ("plan", "0/2", "1/2"):
        stage(options, name, lambda text: None)
    assert [each.samples for each in stage(options, "finish", lambda text: None)] == [43 - 20, 7]
    assert not (target / UNFINISHED).exists()


def test_repaired_files_are_no_longer_listed(images: Path, tmp_path: Path) -> None:
    bad = sorted((images / "val").rglob("*.JPEG"))
    whole, options = bad[0].read_bytes(), Options(str(images / "val"), str(tmp_path / "out"), {"": 2}, workers=1)
    for broken, mended in ((bad[0], bad[1]), (bad[1], bad[0])):
        broken.write_bytes(b"")
        mended.write_bytes(whole + b"\0" * (mended == bad[1]))
        stage(options, "plan", lambda text: None)
        with pytest.raises(UsageError, match="1 file cannot be packed"):
            stage(options, "0/1", lambda text: None)
        listed = (tmp_path / "out" / UNFINISHED / "bad.txt").read_text()
        assert listed == f"{broken.relative_to(images / 'val')}\n"


def test_checks_can_be_turned_off(images: Path, tmp_path: Path) -> None:
    first = next((images / "val").rglob("*.JPEG"))
    first.write_bytes(b"raw")
    assert shard(images / "val", tmp_path / "out", "--shards", 2) == 2
    assert shard(images / "val", tmp_path / "out", "--shards", 2, "--no-check") == 0


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["src/train", "out", "--shards", "44"], "error: out: 43 samples cannot fill 44 shards\nhint: use at most"),
        (["src", "out", "--shards", "train=2"], "error: --shards: no number for val"),
        (["src", "out", "--shards", "1,tset=2"], "error: --shards: src has no split 'tset'"),
        (["src", "out", "--shards", "many"], "error: --shards: must be a number such as 128"),
        (["src", "out", "--shards", "0"], "error: --shards: must be a number such as 128"),
        (["nowhere", "out", "--shards", "1"], "error: nowhere: no such folder"),
        (["src", "gs://a/b", "--shards", "1"], "error: gs://a/b: must be a path or s3://BUCKET/PREFIX"),
        (["src", "/dev/null/x", "--shards", "1"], "error: cannot write /dev/null/x"),
        (["src", "out", "--shards", "1", "--follow"], "error: --partition and --follow need --array"),
        (["src", "out", "--shards", "1", "--exclude", "no.txt"], "error: --exclude: cannot read no.txt: no such"),
    ],
)  # fmt: skip
def test_wrong_arguments_are_reported_and_leave_nothing(
    words: Sequence[str], said: str, images: Path, capsys: Captured, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(images.parent)
    assert shard(*words) in (1, 2)
    assert said in capsys.readouterr().err
    assert not Path("out").exists()


def test_a_part_that_is_missing_is_named(images: Path, tmp_path: Path) -> None:
    options = Options(str(images / "val"), str(tmp_path / "out"), {"": 4}, workers=1)
    for name in ("plan", "0/2"):
        stage(options, name, lambda text: None)
    with pytest.raises(DataError, match="2 of 4 shards are missing, first out-000001.tar"):
        stage(options, "finish", lambda text: None)
    stage(options, "1/2", lambda text: None)
    assert [each.shards for each in stage(options, "finish", lambda text: None)] == [4]


def cut(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-1])


def flip(path: Path) -> None:
    content = bytearray(path.read_bytes())
    content[600] ^= 1
    path.write_bytes(content)


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda out: (out / "out-000001.tar").unlink(), "out-000001.tar: is missing"),
        (lambda out: cut(out / "out-000001.tar"), " bytes, expected "),
        (lambda out: flip(out / "out-000001.tar"), "out-000001.tar: its checksum differs from the manifest's"),
        (lambda out: (out / "stray.tar").write_bytes(b""), "stray.tar: is not in manifest.json"),
        (lambda out: cut(out / "manifest.json"), None),
        (lambda out: (out / "manifest.json").write_text("{"), "manifest.json: cannot be read"),
        (lambda out: (out / "manifest.json").unlink(), "has no manifest.json"),
    ],
    ids=range(7),
)  # fmt: skip
def test_verify_finds_what_has_changed(
    change: Any, said: str | None, images: Path, tmp_path: Path, capsys: Captured
) -> None:
    shard(images / "val", tmp_path / "out", "--shards", 3)
    change(tmp_path / "out")
    code = verify(tmp_path / "out")
    captured = capsys.readouterr().err
    assert (code == 0) if said is None else (code in (1, 2) and said in captured)


def test_verify_says_that_a_run_is_unfinished(images: Path, tmp_path: Path, capsys: Captured) -> None:
    options = Options(str(images), str(tmp_path / "out"), {"": 3}, workers=1)
    for name in ("plan", "0/3"):
        stage(options, name, lambda text: None)
    assert verify(tmp_path / "out") == 1
    assert "train: is incomplete: 1 of 3 shards exist" in capsys.readouterr().err


def test_leftovers_of_killed_processes_are_removed_and_others_files_kept(tmp_path: Path) -> None:
    with subprocess.Popen(["sleep", "60"]) as alive, subprocess.Popen(["true"]) as ended:
        os.waitid(os.P_PID, ended.pid, os.WEXITED | os.WNOWAIT)  # it has ended, and its status is still to be had
        host = socket.gethostname()
        where = locations.location(str(tmp_path))
        left = [where.workshop() / f"a.tar.{host}.{pid}.part" for pid in (alive.pid, ended.pid, 2**22 + 1)]
        elsewhere = where.workshop() / "a.tar.another-machine.1.part"
        for file in (*left, elsewhere):
            file.touch()
        disk.drop_temporary(where.workshop())
        assert set(where.workshop().iterdir()) == {left[0], elsewhere}
        alive.kill()


def test_another_plan_may_follow_one_that_made_no_shard(images: Path, tmp_path: Path, capsys: Captured) -> None:
    """All images of the first run are bad, and one is removed: another plan, but no packed shard can be lost."""
    for path in (images / "val").rglob("*.JPEG"):
        path.write_bytes(b"no image")
    assert shard(images / "val", tmp_path / "out", "--shards", 2) == 2
    bad = next((images / "val").rglob("*.JPEG"))
    for path in (images / "val").rglob("*.JPEG"):
        path.write_bytes(jpeg(1))
    bad.unlink()
    assert shard(images / "val", tmp_path / "out", "--shards", 2) == 0


@pytest.mark.parametrize("target", ["src/out", "src/train/../out"])
def test_the_target_is_not_inside_of_the_source(
    target: str, images: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Captured
) -> None:
    monkeypatch.chdir(tmp_path)
    assert shard("src", target, "--shards", 2) == 2
    assert f"error: {target}: is inside the source src\nhint: name a folder outside it" in capsys.readouterr().err
    assert not (images / "out").exists()


def test_a_broken_manifest_says_what_to_do(images: Path, tmp_path: Path, capsys: Captured) -> None:
    (tmp_path / "out" / "train").mkdir(parents=True)
    (tmp_path / "out" / "train" / "manifest.json").write_text("{")
    assert shard(images, tmp_path / "out", "--shards", 2) == 1
    assert "\nhint: delete that file, and pack the data again" in capsys.readouterr().err


def test_a_single_bad_file_is_reported(images: Path, tmp_path: Path, capsys: Captured) -> None:
    (images / "readme.txt").write_text("x")
    assert shard(images, tmp_path / "out", "--shards", 2) == 0
    assert "1 file is not an image and is left out: readme.txt\n" in capsys.readouterr().err


def test_ctrl_c_reaches_no_worker_that_just_starts() -> None:
    """It would print a traceback, because a worker can handle Ctrl-C only after Python has started."""
    program = "import signal; print(signal.SIGINT in signal.pthread_sigmask(signal.SIG_BLOCK, []))"
    with run._interrupts_later():
        done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=True)
    assert done.stdout == "True\n"
    assert signal.SIGINT not in signal.pthread_sigmask(signal.SIG_BLOCK, [])
