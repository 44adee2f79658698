"""`gpucluster_train.channel` on SageMaker: folders, and real pipes."""

from __future__ import annotations

import io
import json
import os
import sys
import tarfile
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

import gpucluster_train
from gpucluster_train import channels, streams
from gpucluster_train.channels import Channel, ChannelError
from gpucluster_train.sagemaker import channel
from tests.unit.sagemaker.hosts import Job, program

FILE = {"TrainingInputMode": "File", "S3DistributionType": "FullyReplicated"}
SHARDED = {"TrainingInputMode": "File", "S3DistributionType": "ShardedByS3Key"}
FIFO = {"TrainingInputMode": "Pipe", "S3DistributionType": "FullyReplicated"}
RANKS = [(rank, rank // 2, rank % 2) for rank in range(4)]
"""Two hosts with two ranks each."""


def variables(
    base: Path, given: dict[str, dict[str, str]], rank: int = 0, readers: str = "", local: int = 2
) -> dict[str, str]:
    return {
        "SM_INPUT_DATA_CONFIG": json.dumps(given),
        "SM_INPUT_DIR": str(base),
        "SM_HOSTS": '["algo-1","algo-2"]',
        "SM_CURRENT_HOST": f"algo-{rank // local + 1}",
        "RANK": str(rank),
        "LOCAL_RANK": str(rank % local),
        "WORLD_SIZE": str(2 * local),
        "RANKS_PER_NODE": str(local),
        **({"GPUCLUSTER_CHANNELS": readers} if readers else {}),
    }


def fill(base: Path, channel: str, *names: str) -> None:
    for name in names:
        path = base / "data" / channel / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(name, encoding="utf-8")


def names(found: Channel, epoch: int = 0) -> list[str]:
    return [Path(place).name for place in found.shards(epoch)]


@pytest.mark.parametrize("epoch", [0, 1])
def test_ranks_share_the_files_that_all_hosts_have(tmp_path: Path, epoch: int) -> None:
    every = [f"{number}.tar" for number in range(9)]
    fill(tmp_path, "train", *every)
    parts = [names(channel("train", variables(tmp_path, {"train": FILE}, rank)), epoch) for rank, *_ in RANKS]
    assert sorted(sum(parts, [])) == every
    assert all(parts)


def test_ranks_share_the_files_that_only_their_host_has(tmp_path: Path) -> None:
    hosts = [[f"{host}-{number}.tar" for number in range(4)] for host in range(2)]
    for host, files in enumerate(hosts):
        fill(tmp_path / str(host), "train", *files)
    parts = [
        names(channel("train", variables(tmp_path / str(host), {"train": SHARDED}, rank))) for rank, host, _ in RANKS
    ]
    assert sorted(parts[0] + parts[1]) == hosts[0]
    assert sorted(parts[2] + parts[3]) == hosts[1]
    assert all(len(part) == 2 for part in parts)


def test_all_ranks_of_a_host_read_its_files(tmp_path: Path) -> None:
    fill(tmp_path, "train", "a", "b", "c")
    for given, expected in ((SHARDED, 3), (FILE, 3)):
        parts = [
            names(channel("train", variables(tmp_path, {"train": given}, rank, '{"train": "by-node"}')))
            for rank, *_ in RANKS
        ]
        assert parts[0] == parts[1]
        assert len(parts[0] + (parts[2] if given is FILE else [])) == expected


@pytest.mark.parametrize("readers", ["", '{"train": "global-rank"}'])
def test_a_channel_for_each_rank_of_the_job(tmp_path: Path, readers: str) -> None:
    given = {f"train_{number}": FILE for number in range(4)}
    for number in range(4):
        fill(tmp_path, f"train_{number}", f"{number}.tar")
    assert [names(channel("train", variables(tmp_path, given, rank, readers))) for rank, *_ in RANKS] == [
        [f"{number}.tar"] for number in range(4)
    ]


@pytest.mark.parametrize("readers", ["", '{"train": "local-rank"}'])
def test_a_channel_for_each_rank_of_a_host(tmp_path: Path, readers: str) -> None:
    given = {f"train_{number}": SHARDED for number in range(2)}
    for number in range(2):
        fill(tmp_path, f"train_{number}", f"{number}.tar", f"{number}-more.tar")
    found = [sorted(names(channel("train", variables(tmp_path, given, rank, readers)))) for rank, *_ in RANKS]
    assert found == [[f"{local}-more.tar", f"{local}.tar"] for _, _, local in RANKS]


def test_a_number_of_channels_that_fits_no_number_of_ranks(tmp_path: Path) -> None:
    given = {f"train_{number}": FIFO for number in range(3)}
    with pytest.raises(ChannelError, match=r"3 channels train_0 …, but 4 ranks, 2 on each host"):
        channel("train", variables(tmp_path, given))


def test_an_unknown_channel(tmp_path: Path) -> None:
    with pytest.raises(ChannelError, match="no channel 'test'; its channels: train"):
        channel("test", variables(tmp_path, {"train": FILE}))


def test_one_pipe_for_several_ranks_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ChannelError, match="is one pipe, which only one process may read, and this host has 2 ranks"):
        channel("train", variables(tmp_path, {"train": FIFO}))


def archive(*files: str) -> bytes:
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w", format=tarfile.USTAR_FORMAT) as tar:
        for name in files:
            member = tarfile.TarInfo(name)
            member.size = len(name)
            tar.addfile(member, io.BytesIO(name.encode()))
    return packed.getvalue()


def write_epochs(folder: Path, channel: str, epochs: list[bytes], late_s: float = 0.3) -> None:
    """As SageMaker: the pipe of an epoch is made when the one before has been read."""
    folder.mkdir(parents=True, exist_ok=True)
    for epoch, data in enumerate(epochs):
        time.sleep(late_s)
        path = folder / f"{channel}_{epoch}"
        os.mkfifo(path)
        with path.open("wb") as pipe:
            pipe.write(data)


@pytest.fixture
def writer() -> Iterator[list[threading.Thread]]:
    started: list[threading.Thread] = []
    yield started
    for thread in started:
        thread.join(timeout=10)
        assert not thread.is_alive()


def start(writer: list[threading.Thread], folder: Path, channel: str, epochs: list[bytes]) -> None:
    writer.append(threading.Thread(target=write_epochs, args=(folder, channel, epochs), daemon=True))
    writer[-1].start()


def test_epochs_of_pipes(tmp_path: Path, writer: list[threading.Thread]) -> None:
    start(writer, tmp_path / "data", "train_1", [b"first", b"second"])
    own = channel("train", variables(tmp_path, {"train_0": FIFO, "train_1": FIFO}, rank=1))
    for epoch, data in enumerate([b"first", b"second"]):
        (place,) = own.shards(epoch)
        assert place.endswith(f"/data/train_1_{epoch}")
        with streams.opened(place) as stream:
            assert stream.read() == data


def test_a_pipe_with_several_tar_files_one_after_another(tmp_path: Path, writer: list[threading.Thread]) -> None:
    start(writer, tmp_path / "data", "train", [archive("a.txt", "b.txt") + archive("c.txt")])
    own = channel("train", variables(tmp_path, {"train": FIFO}, local=1))
    assert [sample["__key__"] for sample in streams.samples(own)] == ["a", "b", "c"]


def test_a_pipe_that_never_appears(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(ChannelError, match=r"train_1 has not appeared in 0.1 s: the pipe of an epoch is made when"):
        channels.pipe("train", str(tmp_path / "train_1"), 0.1)


def test_the_package_finds_out_where_it_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fill(tmp_path, "train", "a.tar")
    for name, value in variables(tmp_path, {"train": FILE}, local=1).items():
        monkeypatch.setenv(name, value)
    monkeypatch.delenv("GPUCLUSTER_JOB_DIR", raising=False)
    assert gpucluster_train.channel("train").root == str(tmp_path / "data" / "train")
    monkeypatch.setenv("GPUCLUSTER_JOB_DIR", str(tmp_path))
    with pytest.raises(ChannelError, match="the job has no channel 'train'"):
        gpucluster_train.channel("train")


READS = """
import os
from gpucluster_train import channel
from gpucluster_train.streams import opened
own = channel("train")
for epoch in range(2):
    for place in own.shards(epoch):
        with opened(place) as stream:
            print(epoch, stream.read().decode(), flush=True)
"""


def test_ranks_of_a_container_read_a_pipe_each(tmp_path: Path, writer: list[threading.Thread]) -> None:
    given = {f"train_{number}": FIFO for number in range(2)}
    job = Job(tmp_path, channels=given)
    for number in range(2):
        epochs = [f"{number}-{epoch}".encode() for epoch in range(2)]
        start(writer, job.base() / "input" / "data", f"train_{number}", epochs)
    words = ["--launcher", "srun", "--ranks-per-node", "2", "--channel", "train=local-rank", *program(tmp_path, READS)]
    ((code, log),) = job.run(*words)
    assert code == 0, log
    for rank in range(2):
        for epoch in range(2):
            assert f"[{rank} 127.0.0.1] {epoch} {rank}-{epoch}\n" in log


def test_an_unknown_reader(tmp_path: Path) -> None:
    job = Job(tmp_path)
    ((code, _),) = job.run("--channel", "train=by-host", "--", sys.executable)
    assert code == 1
    assert job.failure() == (
        "--channel train=by-host: allowed after train= are by-rank, by-node, none, local-rank, global-rank"
    )
