"""Runs jobs with channels: each rank's shards, copies, and how a job ends if its data is missing or wrong."""

from __future__ import annotations

import io
import json
import subprocess
import sys
import tarfile
from pathlib import Path

import pytest
from stubbed_jobs import finished, prepare

ROOT = Path(__file__).resolve().parents[3]
LAUNCHERS = ["torchrun", "horovodrun", "mpirun", "srun"]
LISTS = 'echo "list of $RANK: $(tr "\\n" " " <"$GPUCLUSTER_CHANNEL_TRAIN")"'
AGAIN = "python -m gpucluster_train.channels train --epoch 1 >$OUT/epoch-1.$RANK"


@pytest.fixture
def data(tmp_path, monkeypatch):
    """Ten shards in a folder; the jobs of these tests take any folder for shared storage."""
    folder = tmp_path / "data"
    folder.mkdir()
    for number in range(10):
        with tarfile.open(folder / f"train-{number:06d}.tar", "w") as tar:
            for sample in range(3):
                info = tarfile.TarInfo(f"{number}-{sample}.txt")
                info.size = 4
                tar.addfile(info, io.BytesIO(b"text"))
    monkeypatch.setattr("gpucluster.job.channels._mounted", lambda name, channel, config: ())
    return folder


def lists(log: str) -> dict[int, list[str]]:
    lines = [line.partition("list of ")[2] for line in log.splitlines() if "list of " in line]
    return {int(line.partition(":")[0]): line.partition(":")[2].split() for line in lines}


@pytest.mark.parametrize("launcher", LAUNCHERS)
def test_each_rank_gets_its_own_shards(run_job, data, tmp_path, launcher):
    command = ("bash", "-c", f"{LISTS}; {AGAIN}")
    code, _, log, folder = run_job(launcher=launcher, command=command, channels={"train": {"source": str(data)}})
    assert code == 0, log
    assert f"[channels] train: {data}: 10 shards, 100.0 KiB; 2 or 3 to each rank, mode mount" in log
    own = lists(log)
    assert sorted(place for rank in range(4) for place in own[rank]) == sorted(map(str, data.iterdir()))
    assert sorted(map(len, own.values())) == [2, 2, 3, 3]
    later = {rank: (tmp_path / f"epoch-1.{rank}").read_text().split() for rank in range(4)}
    assert sorted(place for places in later.values() for place in places) == sorted(map(str, data.iterdir()))
    assert later != own
    assert (folder / "channels" / "train" / "rank-3.txt").read_text().split() == own[3]


def test_a_job_that_runs_again_reads_the_same_shards(data, tmp_path):
    job = prepare(tmp_path, {}, {"command": ("bash", "-c", LISTS), "channels": {"train": {"source": str(data)}}})
    subprocess.run(**job, timeout=60, check=True)
    first = lists((tmp_path / "job" / "log.txt").read_text())
    (tmp_path / "job" / "log.txt").write_text("")
    (data / "train-000010.tar").write_bytes(b"late")
    job["env"]["SLURM_RESTART_COUNT"] = "1"
    subprocess.run(**job, timeout=60, check=True)
    log = (tmp_path / "job" / "log.txt").read_text()
    assert lists(log) == first
    assert "[channels] train: warning: 1 shard was added after the job's first run and is ignored" in log
    (data / "train-000003.tar").unlink()
    code, result, log, _ = finished(subprocess.run(**job, timeout=60, check=False).returncode, tmp_path / "job")
    assert code == 1
    assert (
        "1 of the 10 shards of the job's first run are missing or changed, first train-000003.tar" in result["reason"]
    )


def refused(run_job, **channel):
    code, result, log, folder = run_job(launcher="srun", command=("touch", "started"), channels={"train": channel})
    assert (code, result["exit_code"]) == (1, 1), log
    assert not (folder / "code" / "started").exists()
    assert log.splitlines()[-1] == f"error: {result['reason']}"
    assert "Traceback" not in log
    return result["reason"]


def test_a_missing_folder_is_reported(run_job, data):
    said = refused(run_job, source=f"{data.parent}/dat")
    assert said.startswith(f"channel train: {data.parent}/dat: no such folder on ")
    assert said.endswith("; did you mean data?")


def test_fewer_shards_than_ranks_are_refused_with_what_to_do(run_job, data):
    for path in sorted(data.iterdir())[3:]:
        path.unlink()
    assert refused(run_job, source=str(data)) == (
        f"channel train: {data} has 3 shards for 4 ranks: make at least 4 (gpucluster data shard --shards), "
        "use fewer ranks, shard: by-node or shard: none"
    )


@pytest.mark.parametrize("shard", ["by-node", "none"])
def test_shards_are_for_the_ranks_of_a_node_or_for_all(run_job, data, shard):
    channel = {"source": str(data), "shard": shard}
    code, _, log, _ = run_job(launcher="srun", command=("bash", "-c", LISTS), channels={"train": channel})
    assert code == 0, log
    own = lists(log)
    every = sorted(map(str, data.iterdir()))
    if shard == "none":
        assert all(sorted(places) == every for places in own.values())
    else:
        assert (own[0], own[2]) == (own[1], own[3])
        assert sorted(own[0] + own[2]) == every


def test_a_manifest_is_compared_with_the_files(run_job, data):
    paths = sorted(data.iterdir())
    shards = [{"name": path.name, "samples": 3, "bytes": path.stat().st_size} for path in paths]
    (data / "manifest.json").write_text(json.dumps({"version": 1, "format": "tar", "shards": shards}))
    _, _, log, _ = run_job(launcher="srun", command=("true",), channels={"train": {"source": str(data)}})
    assert "10 shards, 100.0 KiB, 30 samples" in log
    paths[4].write_bytes(paths[4].read_bytes()[:700])
    (data.parent / "job").rename(data.parent / "first")
    (data.parent / "stubs").rename(data.parent / "old")
    said = refused(run_job, source=str(data))
    assert said.endswith("has 700 bytes, but its manifest.json says 10240: it is truncated; copy it again")


COPIED = 'for each in $(<"$GPUCLUSTER_CHANNEL_TRAIN"); do echo "$RANK $each $(cat "$each"/*-0.txt)"; done'


# The nodes' cache, with scratch at another path for each node.
CACHE = """#!{python} -I
import os, sys
from pathlib import Path
sys.path.insert(0, "{root}/bootstrap")
from gpucluster_node.scratch import cache as scratch_cache, place as scratch_place
scratch_cache.SPARE = 0
scratch_place.place = lambda: Path("{scratch}", os.environ["SLURMD_NODENAME"])
(scratch_place.place() / "cache").mkdir(parents=True, exist_ok=True)
sys.exit(scratch_cache.main())
"""


@pytest.fixture
def scratch(tmp_path):
    """The nodes' caches, and a function that runs a job with a copied channel."""
    place = tmp_path / "scratch"

    def run(channel, command=COPIED):
        job = prepare(tmp_path, {}, {"command": ("bash", "-c", command), "channels": {"train": channel}})
        program = tmp_path / "stubs" / "scratch-cache"
        program.write_text(CACHE.format(python=sys.executable, root=ROOT, scratch=place))
        program.chmod(0o755)
        done = subprocess.run(**job, timeout=60, check=False)
        return (*finished(done.returncode, tmp_path / "job"), job)

    return place, run


def copies(place):
    """Node -> its copies."""
    return {
        node.name: sorted(each for each in (node / "cache").iterdir() if each.name[0] != ".")
        for node in place.iterdir()
    }


def test_copies_are_unpacked_kept_and_found_again(data, scratch):
    place, run = scratch
    code, _, log, _, job = run({"source": str(data), "mode": "copy", "unpack": "tar"})
    assert code == 0, log
    kept = copies(place)
    for (copy,) in kept.values():
        assert {path.name for path in copy.iterdir()} == {f"train-{number:06d}" for number in range(10)}
        assert (copy / "train-000003" / "3-1.txt").read_text() == "text"
    read = [line.split()[3:] for line in log.splitlines() if line.endswith(" text")]
    assert sorted(path.split("/")[-1] for path, _ in read) == [f"train-{number:06d}" for number in range(10)]
    assert subprocess.run(**job, timeout=60, check=False).returncode == 0
    log = (data.parent / "job" / "log.txt").read_text()
    assert all(f"train: {node} already has it: {copy}\n" in log for node, (copy,) in kept.items())
    assert copies(place) == kept


def test_a_node_copies_its_own_part_alone(data, scratch):
    place, run = scratch
    epochs = 'for n in 0 5; do python -m gpucluster_train.channels train --epoch $n | sed "s/^/$NODE_RANK $n /"; done'
    code, _, log, _, _ = run({"source": str(data), "mode": "copy", "shard": "by-node"}, epochs)
    assert code == 0, log
    parts = {node: sorted(path.name for path in copy.iterdir()) for node, (copy,) in copies(place).items()}
    assert [len(part) for part in parts.values()] == [5, 5]
    assert sorted(name for part in parts.values() for name in part) == sorted(path.name for path in data.iterdir())
    for rank, node in enumerate(("train-1", "train-2")):
        (copy,) = copies(place)[node]
        reads = [line.split()[2:] for line in log.splitlines() if f"] {rank} " in line]
        for epoch in ("0", "5"):
            places = [path for _, each, path in reads if each == epoch]
            assert sorted(places) == sorted(str(path) for path in copy.iterdir() for _ in range(2))


@pytest.mark.parametrize("kept", [700, 1024, 2048])
def test_a_truncated_tar_file_leaves_nothing_behind(data, scratch, kept):
    place, run = scratch
    path = data / "train-000003.tar"
    path.write_bytes(path.read_bytes()[:kept])
    code, result, log, _, _ = run({"source": str(data), "mode": "copy", "unpack": "tar"})
    assert code == 1
    assert result["failed_node"] in ("train-1", "train-2")
    assert result["reason"].startswith(f"channel train: {path}: is truncated or not a tar file"), result["reason"]
    assert not any(copies(place).values())
    assert "Traceback" not in log


def test_a_full_disk_ends_the_job_and_leaves_no_copy(data, scratch):
    place, run = scratch
    with (data / "train-000010.tar").open("wb") as file:
        file.truncate(2**43)
    code, result, log, _, _ = run({"source": str(data), "mode": "copy"})
    assert code == 1
    assert "no room for 8796.1 GB" in result["reason"], result["reason"]
    assert result["reason"].endswith("shard: by-node, or mode mount or stream")
    assert not any(copies(place).values())
