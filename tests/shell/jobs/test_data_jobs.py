"""`gpucluster data shard` with a full disk or an unreadable file, and its jobs."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from gpucluster.cli.jobs import merged
from gpucluster.config import loads
from gpucluster.data.run import Options
from gpucluster.errors import UsageError
from gpucluster.following import arrays, logs
from gpucluster.following import jobs as following
from gpucluster.head import records
from gpucluster.layout import expand
from gpucluster.submission.shard_array import request, submit, with_own_lists
from tests.in_process import InProcessRemote

ROOT = Path(__file__).resolve().parents[3]
CONFIG = """
name: Test
region: us-east-1
partitions: [{name: train, instance_types: [g5.12xlarge], max_nodes: 4}]
storage: [{mount: /fsx, type: fsx-lustre, deployment: scratch-2, capacity_gib: 1200}]
s3_access: [{uri: "s3://bucket/raw"}, {uri: "s3://bucket/shards", access: read-write}]
"""
LAYOUT = expand(loads(CONFIG))
# Runs jobs immediately, as Slurm does when nodes are free.
SBATCH = r"""#!/usr/bin/env bash
echo "$*" >>"$STUBS/calls"
array='' output='' dependency=''
while [[ $1 == --* ]]; do
  case $1 in
    --array=*) array=${1#*=} ;;
    --output=*) output=${1#*=} ;;
    --dependency=*) dependency=${1#*=} ;;
  esac
  shift
done
id=$(wc -l <"$STUBS/calls")
run() { SLURM_JOB_ID=$id "$@" >>"${output/\%a/${SLURM_ARRAY_TASK_ID:-}}" 2>&1 || : >"$STUBS/failed-$id"; }
if [[ $dependency == afterok:* ]] && [ -e "$STUBS/failed-${dependency#afterok:}" ]; then
  :
elif [ -n "$array" ]; then
  for ((task = 0; task <= ${array#0-}; task++)); do
    SLURM_ARRAY_TASK_ID=$task SLURM_ARRAY_TASK_COUNT=$((${array#0-} + 1)) run "$@"
  done
else
  run "$@"
fi
echo "$id"
"""


def jpeg(number: int) -> bytes:
    return b"\xff\xd8\xff\xda\0\x02" + b"%d." % number * 5000 + b"\xff\xd9"


@pytest.fixture
def images(tmp_path: Path) -> Path:
    for number in range(40):
        path = tmp_path / "fsx" / "src" / f"c{number % 3}" / f"{number}.jpg"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(jpeg(number))
    return tmp_path / "fsx" / "src"


@pytest.mark.skipif(os.geteuid() != 0, reason="mounting takes root")
def test_a_full_disk_is_reported_and_leaves_no_partial_file(images: Path, tmp_path: Path) -> None:
    """Complete shards are kept. With more space the same command gives the usual result."""
    disk = tmp_path / "disk"
    disk.mkdir()
    command = f"{sys.executable} -m gpucluster.cli data shard {images} {disk}/out --shards 8"
    script = f"""
mount -t tmpfs -o size=400k tmpfs {disk}
{command} --workers 1 2>{tmp_path}/said && code=0 || code=$?
echo $code >{tmp_path}/code
find {disk}/out -type f -printf '%P %s\\n' >{tmp_path}/left
mount -o remount,size=4m {disk}
{command} --workers 2 2>/dev/null
cp -r {disk}/out {tmp_path}/out
"""
    subprocess.run(["unshare", "--mount", "bash", "-euxc", script], cwd=ROOT, check=True, timeout=120)
    said = (tmp_path / "said").read_text()
    assert f"error: cannot write {disk}/out/out-00000" in said
    assert ": no space left on device" in said
    assert (tmp_path / "code").read_text() == "1\n"
    left = dict(line.split() for line in (tmp_path / "left").read_text().splitlines())
    whole = {name for name in left if name.endswith(".tar")}
    assert whole and not [name for name in left if name.endswith((".part", "manifest.json"))]
    alone = tmp_path / "alone" / "out"
    subprocess.run(command.replace(f"{disk}/out", str(alone)).split(), cwd=ROOT, check=True, timeout=60)
    assert {path.name for path in alone.iterdir()} == {path.name for path in (tmp_path / "out").iterdir()}
    for path in alone.iterdir():
        assert (tmp_path / "out" / path.name).read_bytes() == path.read_bytes()


@pytest.mark.skipif(os.geteuid() != 0, reason="giving up what root may read takes root")
def test_a_file_that_is_not_ours_to_read_is_named(images: Path, tmp_path: Path) -> None:
    (images / "c0" / "3.jpg").chmod(0)
    options = tmp_path / "options.json"
    options.write_text(Options(str(images), str(tmp_path / "out"), {"": 4}, workers=1).text())
    like_a_user = ["setpriv", "--bounding-set=-dac_override,-dac_read_search", "/usr/bin/python3"]
    for stage in ("plan", "0/1"):
        done = subprocess.run(
            [*like_a_user, "-m", "gpucluster.data", str(options), stage],
            cwd=ROOT, capture_output=True, text=True, timeout=60, check=False,
        )  # fmt: skip
    assert done.returncode == 2
    assert "1 file cannot be packed:\n  c0/3.jpg: permission denied" in done.stderr


@pytest.fixture
def jobs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A head node without Slurm, whose sbatch runs jobs itself."""
    commands = tmp_path / "commands"
    commands.mkdir()
    (commands / "sbatch").write_text(SBATCH)
    (commands / "sbatch").chmod(0o755)
    (tmp_path / "calls").touch()
    monkeypatch.setenv("STUBS", str(tmp_path))
    monkeypatch.setenv("PATH", f"{commands}:{os.environ['PATH']}")
    monkeypatch.setattr("gpucluster.account.jobs", lambda: str(tmp_path / "jobs"))
    return tmp_path / "jobs"


def run(images: Path, parts: int, **given: Any) -> dict[str, str]:
    """options -> the files of the last job."""
    config = loads(CONFIG)
    shared = config.storage[0].model_copy(update={"mount": str(images.parent)})
    config = config.model_copy(update={"storage": (shared,)})
    options = Options(str(images), str(images.parent / "out"), {"": 7}, workers=1, **given)
    done = submit(InProcessRemote(), request(options, parts, None, expand(config)))
    result = json.loads(Path(done.folder, "result.json").read_text())
    assert result["job_id"] == done.job_id == "3"
    return {"log": Path(done.folder, "log.txt").read_text(), **result}


@pytest.mark.parametrize("parts", [1, 3, 9])
def test_jobs_write_the_same_shards_as_one_process(parts: int, images: Path, jobs: Path, tmp_path: Path) -> None:
    """With more parts than shards, some parts have no work."""
    assert run(images, parts)["exit_code"] == 0
    alone = [
        sys.executable,
        "-m",
        "gpucluster.cli",
        "data",
        "shard",
        str(images),
        str(tmp_path / "out"),
        "--shards",
        "7",
    ]
    subprocess.run([*alone, "--workers", "1"], cwd=ROOT, check=True, timeout=60)
    for path in (tmp_path / "out").iterdir():
        assert (images.parent / "out" / path.name).read_bytes() == path.read_bytes()
    plan, array, finish = (tmp_path / "calls").read_text().splitlines()
    assert "--dependency=afterok:1" in array and f"--array=0-{parts - 1}" in array
    assert "--dependency=afterany:1:2" in finish
    assert (jobs / "by-id" / "3" / "log.txt").exists()


def test_the_last_job_says_which_file_stopped_a_part(images: Path, jobs: Path) -> None:
    (images / "c1" / "4.jpg").write_bytes(b"")
    ended = run(images, 2)
    assert ended["exit_code"] == 1
    assert ended["reason"] == f"{images}: 1 file cannot be packed: c1/4.jpg: it is empty"
    assert "  c1/4.jpg: it is empty" in ended["log"]
    assert "shards are missing" in ended["log"]


def test_the_last_jobs_list_excludes_the_bad_files_of_all_parts(images: Path, jobs: Path) -> None:
    for name in ("c1/4.jpg", "c0/3.jpg", "c2/8.jpg", "c0/12.jpg"):
        (images / name).write_bytes(b"")
    merged = f"{images.parent}/out/.unfinished/bad.txt"
    assert f"to skip them, add: --restart --exclude {merged}\n" in run(images, 3)["log"]
    (jobs.parent / "calls").write_text("")
    for failed in jobs.parent.glob("failed-*"):
        failed.unlink()
    ended = run(images, 3, restart=True, exclude_from=(merged,))
    assert ended["exit_code"] == 0, ended["log"]
    assert "36 samples in 7 shards" in ended["log"]


def test_local_exclude_lists_are_uploaded_and_jobs_read_remote_ones(tmp_path: Path) -> None:
    (tmp_path / "own.txt").write_text("a.jpg\n")
    lists = (f"{tmp_path}/own.txt", "/fsx/out/.unfinished/bad.txt", "s3://bucket/raw/bad.txt")
    given = with_own_lists(Options("/fsx/a", "/fsx/out", {"": 1}, exclude_from=lists))
    assert (given.exclude, given.exclude_from) == (("a.jpg",), lists[1:])
    assert request(given, 2, None, LAYOUT)
    with pytest.raises(UsageError, match="--exclude: jobs of Test cannot reach nowhere.txt"):
        request(replace(given, exclude_from=("nowhere.txt",)), 2, None, LAYOUT)


def test_a_plan_that_fails_stops_all_parts(images: Path, jobs: Path) -> None:
    shutil.rmtree(images)
    ended = run(images, 2)
    assert ended["exit_code"] == 1
    assert ended["reason"] == f"{images}: no such folder"


def test_another_data_set_in_the_target_is_no_success(images: Path, jobs: Path) -> None:
    assert run(images, 2)["exit_code"] == 0
    (images / "c1" / "4.jpg").unlink()
    for call in (images.parent.parent / "calls", images.parent.parent / "failed-1"):
        call.unlink(missing_ok=True)
    (images.parent.parent / "calls").touch()
    ended = run(images, 2)
    assert ended["exit_code"] == 1
    assert ended["reason"] == f"{images.parent}/out: has another data set: 40 samples in 7 shards"


# as squeue printed them on Slurm 24.11.5, in the format of slurm.squeue_argv()
LINE = "{}|{}|train|1|train-1|0:04|UNLIMITED|2026-11-23T06:00:00|2026-11-23T06:01:00|shard-pack|None\n"


@pytest.fixture
def failed(images: Path, jobs: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Job 1 planned; the array 2 packed, and one of its parts failed; job 3 finished. The file is squeue's list,
    without marks."""
    monkeypatch.setattr(records, "MARKS", False)
    (images / "c1" / "4.jpg").write_bytes(b"")
    run(images, 2)
    queue = jobs.parent / "queue"
    queue.touch()
    (jobs.parent / "commands" / "squeue").write_text(f"#!/bin/sh\ncat {queue}\n")
    (jobs.parent / "commands" / "squeue").chmod(0o755)
    return queue


def bad_part(jobs: Path) -> int:
    (folder,) = jobs.glob("shard-*")
    return next(part for part in range(2) if "it is empty" in (folder / f"part-{part}.txt").read_text())


def test_each_part_has_its_log(failed: Path, jobs: Path) -> None:
    remote, part = InProcessRemote(), bad_part(jobs)
    failed.write_text(LINE.format(f"2_{part}", "FAILED") + LINE.format(f"2_{1 - part}", "COMPLETED"))
    assert "c1/4.jpg: it is empty" in logs.log(remote, f"2_{part}")
    assert "samples in 7 shards" in logs.log(remote, "1")
    assert "c1/4.jpg: it is empty" in "\n".join(logs.follow(remote, f"2_{part}", lambda line: None))
    ending = following.ending(remote, f"2_{part}")
    assert ending and ending.sentence(f"2_{part}") == f"job 2_{part} failed: `gpucluster why 3` says why"
    assert any("it is empty" in line for line in logs.last_lines(remote, f"2_{part}", ending, 20))
    other = following.ending(remote, f"2_{1 - part}")
    assert other and (other.state, other.reason) == ("COMPLETED", "")


@pytest.mark.parametrize("forgotten", [False, True])
def test_the_whole_array_names_the_last_job(failed: Path, jobs: Path, forgotten: bool) -> None:
    remote, said = InProcessRemote(), []
    if not forgotten:
        failed.write_text(LINE.format("2_0", "FAILED") + LINE.format("2_1", "COMPLETED"))
    for ask in (logs.log, lambda *words: list(logs.follow(*words, said.append))):
        with pytest.raises(UsageError) as caught:
            ask(remote, "2")
        assert caught.value.message == "job 2 has a log for each part"
        part, whole = "`gpucluster logs 2_0` shows that of part 0", "`gpucluster logs 3` all when they have ended"
        assert caught.value.hint == f"{part}, {whole}"
    with pytest.raises(UsageError) as caught:
        arrays.require(remote, "2")
    assert caught.value.message == "job 2 packs shards: its parts have no values and metrics"
    assert str(caught.value.hint).startswith("`gpucluster why 3` says how they ended")
    with pytest.raises(UsageError) as caught:
        following.real_folder(remote, "2_1")
    assert (caught.value.message, caught.value.hint) == (
        "job 2_1 has no folder of its own",
        "`gpucluster fetch 3` copies that of all parts",
    )
    ending = following.ending(remote, "2")
    assert ending and ending.state == "FAILED"
    assert "cannot be packed" in ending.reason if forgotten else "`gpucluster why 3` says why" in ending.reason


def test_the_list_has_one_job_with_a_folder(failed: Path, jobs: Path) -> None:
    remote = InProcessRemote()
    failed.write_text(LINE.format("2_0", "FAILED") + LINE.format("2_1", "COMPLETED"))
    found = merged(following.current(remote, 5), following.past(remote, 1, ["1", "2"]))
    assert [(row["job_id"], row["state"]) for row in found] == [("2", "FAILED"), ("3", "FAILED")]
    assert found[0]["reason"] == "1 completed, 1 failed"
    assert following.latest(remote) == "3"


def test_an_array_of_somebodys_sbatch_is_called_one(failed: Path) -> None:
    failed.write_text(LINE.format("9_0", "FAILED") + LINE.format("9_1", "COMPLETED"))
    with pytest.raises(UsageError, match="job 9 is an array that `gpucluster submit` did not make: its"):
        arrays.require(InProcessRemote(), "9")
    with pytest.raises(UsageError, match="job 9 has no folder"):
        following.real_folder(InProcessRemote(), "9")
    ending = following.ending(InProcessRemote(), "9_1")
    assert ending and (ending.state, ending.reason) == ("COMPLETED", "")


@pytest.mark.parametrize(
    ("source", "target", "said"),
    [
        ("/data", "/fsx/out", "SRC: jobs of Test cannot reach /data; shared: /home, /fsx"),
        ("src", "/fsx/out", "SRC: jobs of Test cannot reach src"),
        ("/fsx/a", "/fsxx/out", "DST: jobs of Test cannot reach /fsxx/out"),
        ("/fsx/../a", "/fsx/out", "SRC: jobs of Test cannot reach /fsx/../a"),
        ("s3://bucket/other", "/fsx/out", "reach s3://bucket/other; s3_access: s3://bucket/raw, s3://bucket/shards"),
        ("s3://bucket/raw/a", "s3://bucket/raw/b", "s3://bucket/raw/b; s3_access with read-write: s3://bucket/shards"),
    ],
)
def test_paths_that_jobs_cannot_reach_are_refused(source: str, target: str, said: str) -> None:
    with pytest.raises(UsageError, match=said):
        request(Options(source, target, {"": 1}), 2, None, LAYOUT)


def test_jobs_get_the_role_of_s3_access_and_a_known_partition() -> None:
    options = Options("s3://bucket/raw", "s3://bucket/shards/a", {"": 1})
    environment = request(options, 2, "train", LAYOUT).files["environment.sh"].text
    assert "AWS_CONTAINER_CREDENTIALS_FULL_URI=http://127.0.0.1:9911/credentials" in environment
    with pytest.raises(UsageError, match="has no partition 'tiran'"):
        request(options, 2, "tiran", LAYOUT)


@pytest.mark.parametrize("made", [True, False])
def test_shards_grow_in_the_jobs_own_folder(made: bool, tmp_path: Path) -> None:
    """If the prolog has created one."""
    scratch_file = tmp_path / "etc" / "scratch"
    program = tmp_path / "lib" / "gpucluster" / "data" / "__main__.py"
    for folder in (scratch_file.parent, program.parent, tmp_path / "disk" / "jobs" / ("7" if made else "8")):
        folder.mkdir(parents=True)
    scratch_file.write_text(f"{tmp_path}/disk\n")
    program.write_text("import os; print(os.environ.get('TMPDIR'))\n")
    (tmp_path / "environment.sh").touch()
    script = (ROOT / "templates/job/shard.sbatch").read_text().replace("/etc/gpucluster/scratch", str(scratch_file))
    (tmp_path / "shard.sbatch").write_text(script)
    environment = {key: value for key, value in os.environ.items() if key != "TMPDIR"} | {"SLURM_JOB_ID": "7"}
    command = ["bash", str(tmp_path / "shard.sbatch"), str(tmp_path), "plan"]
    done = subprocess.run(
        command, env=environment, cwd=tmp_path, capture_output=True, text=True, check=True, timeout=30
    )
    assert done.stdout == (f"{tmp_path}/disk/jobs/7\n" if made else "None\n")


def test_the_jobs_script_passes_shellcheck() -> None:
    program = shutil.which("shellcheck", path=str(Path(sys.executable).parent)) or "shellcheck"
    done = subprocess.run([program, str(ROOT / "templates/job/shard.sbatch")], capture_output=True, text=True)
    assert done.stdout == ""
