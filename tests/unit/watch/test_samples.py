"""The samples of a node: what the kernel and the jobs' users write, as Prometheus's text and as summaries."""

from __future__ import annotations

import json
import math
import os
import subprocess
import time
from pathlib import Path
from typing import Any

import pytest
from gpucluster_node import slurm
from gpucluster_node.watch import jobs, machine, metrics, sampler, targets
from gpucluster_node.watch.jobs import Job, Kept, Usage
from gpucluster_node.watch.nvml import Gpu
from gpucluster_node.watch.sampler import Sampler
from gpucluster_node.watch.textfile import Textfile

OWNER = os.getuid(), os.getgid()
EFA = {"tx_bytes": 700, "rx_bytes": 300, "retrans_pkts": 4, "lifespan": 12}
"""Counters of https://github.com/aws-samples/awsome-distributed-training's efa-node-exporter."""


def put(root: Path, files: dict[str, str]) -> None:
    for name, text in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A node's files: proc_stat(5), proc_meminfo(5), Linux's cgroup-v2.rst."""
    group = "sys/fs/cgroup/system.slice/slurmstepd.scope/job_7"
    port = "sys/class/infiniband/rdmap0s6/ports/1/hw_counters"
    put(
        tmp_path,
        {
            "proc/stat": "cpu  1000 0 500 8000 500 0 0 0 0 0\ncpu0 1000 0 500 8000 500 0 0 0 0 0\nintr 1\n",
            "proc/meminfo": "MemTotal:       16777216 kB\nMemFree:  1 kB\nMemAvailable:   12582912 kB\n",
            f"{group}/cpu.stat": "usage_usec 2500000\nuser_usec 2000000\n",
            f"{group}/memory.current": "1073741824\n",
            **{f"{port}/{name}": f"{value}\n" for name, value in EFA.items()},
        },
    )
    for interface, driver in (("rdmap0s6", "efa"), ("mlx5_0", "mlx5_core")):
        device = tmp_path / f"sys/class/infiniband/{interface}/device"
        device.mkdir(parents=True)
        (tmp_path / f"drivers/{driver}").mkdir(parents=True)
        (device / "driver").symlink_to(tmp_path / f"drivers/{driver}")
    put(tmp_path, {"sys/class/infiniband/mlx5_0/ports/1/hw_counters/rx_bytes": "9\n"})
    return tmp_path


def test_the_kernels_counts_are_read(root: Path) -> None:
    found = machine.read(root)
    assert (found.memory, found.memory_used) == (16 * 2**30, 4 * 2**30)
    assert found.efa == {("rdmap0s6", name): EFA[name] for name in ("tx_bytes", "rx_bytes", "retrans_pkts")}
    assert found.efa_bytes == 1000
    later = machine.cpu_s("cpu 1200 0 600 8600 600 0 0 0\n")
    assert machine.busy_percent(found.cpu_s, later) == pytest.approx(30)
    assert machine.busy_percent(later, later) == 0


def test_a_machine_with_32_interfaces_is_read_at_little_cost(root: Path) -> None:
    for number in range(32):
        folder = root / f"sys/class/infiniband/rdmap{number}s0"
        put(folder / "ports/1/hw_counters", {name: "7\n" for name in machine._EFA_COUNTERS})
        (folder / "device").mkdir()
        (folder / "device/driver").symlink_to(root / "drivers/efa")
    assert machine.read(root).efa["rdmap31s0", "rx_drops"] == 7
    put(root, {"sys/class/infiniband/rdmap31s0/ports/1/hw_counters/rx_drops": "8\n"})
    began = time.process_time()
    for _ in range(20):
        assert machine.efa(root)["rdmap31s0", "rx_drops"] == 8
    took_s = (time.process_time() - began) / 20
    assert took_s < 0.012, "0.002 measured; 0.032 if it looks for the files each time"


def test_a_job_whose_group_has_ended_or_has_another_name_has_none(root: Path) -> None:
    assert machine.job_group("7", root) == machine.JobGroup(2.5, 2**30)
    assert machine.job_group("8", root) is None


def mark(folder: Path, job_id: str, *fields: object) -> None:
    folder.mkdir(exist_ok=True)
    (folder / job_id).write_bytes(b"".join(str(each).encode() + b"\0" for each in fields))


def test_the_prologs_files_are_read_whatever_the_folder_is_called(tmp_path: Path) -> None:
    mark(tmp_path, "7", 1001, 1002, "0,2-3", "/home/eve/x\n8 root")
    mark(tmp_path, "9", 1001, 1002, "", "/home/eve/y")
    mark(tmp_path, ".10", 1001)
    (tmp_path / "11").write_bytes(b"half of it")
    found = jobs.running(tmp_path)
    assert found["7"] == Job("7", 1001, 1002, frozenset({0, 2, 3}), "/home/eve/x\n8 root")
    assert found["9"].gpus == frozenset()
    assert set(found) == {"7", "9"}
    assert jobs.running(tmp_path / "absent") == {}


def usage(folder: Path | str = "/nowhere") -> Usage:
    return Usage(Job("7", *OWNER, frozenset({0, 1}), str(folder)), 1000.0)


def test_a_summary_has_the_jobs_gpus_alone_with_energy_and_idle_share() -> None:
    made = usage()
    for second in range(101):
        busy = 90.0 if second < 50 else 0.0
        gpus = [Gpu(5, minor, util_percent=busy, memory_used=2**30, power_w=360.0) for minor in (0,)]
        others = [Gpu(6, 2, util_percent=100.0, power_w=1.0)]
        made.add(1000.0 + second, {"cpu_percent": float(second), "job_memory_gib": math.nan}, gpus + others)
    found = made.summary("train-1")
    assert (found["job"], found["node"], found["start_s"], found["end_s"]) == ("7", "train-1", 1000.0, 1100.0)
    assert found["cpu_percent"] == {"mean": 50.0, "max": 100.0, "p95": 95.0}
    assert "job_memory_gib" not in found, "unknown on this node"
    (gpu,) = found["gpus"]
    assert gpu["index"] == 5
    assert gpu["energy_kwh"] == pytest.approx(360.0 * 100 / 3.6e6)
    assert gpu["idle_share"] == pytest.approx(51 / 101, abs=1e-4)
    assert gpu["util_percent"]["max"] == 90.0


@pytest.mark.parametrize("times", [(1000.0, 4600.0, 4602.0), (1000.0, 1030.0, 400.0, 402.0)])
def test_a_clock_that_is_set_is_no_energy(times: tuple[float, ...]) -> None:
    made = usage()
    for time_s in times:
        made.add(time_s, {}, [Gpu(0, 0, power_w=360.0)])
    (gpu,) = made.summary("train-1")["gpus"]
    assert gpu["energy_kwh"] == pytest.approx(360.0 * 32 / 3.6e6)


def test_samples_of_a_long_job_are_thinned_evenly() -> None:
    kept = Kept()
    for second in range(100_000):
        kept.add(second, {"x": float(second)})
    assert 512 <= len(kept.samples) <= jobs.MOST_KEPT
    steps = {after - before for before, after in zip(kept.times, kept.times[1:], strict=False)}
    assert len(steps) == 1 and kept.times[-1] > 99_000


def test_the_summary_is_written_by_a_process_of_the_jobs_user(tmp_path: Path) -> None:
    (tmp_path / "job.sbatch").touch()
    made = usage(tmp_path)
    made.add(1000.0, {"cpu_percent": 3.0}, [])
    assert wrote(made) == 0
    assert json.loads((tmp_path / "usage/7/train-1.json").read_text())["cpu_percent"]["max"] == 3.0


def wrote(made: Usage) -> int:
    writer = jobs.write(made, "train-1")
    assert isinstance(writer, subprocess.Popen)
    return writer.wait(30)


def test_a_folder_of_somebody_elses_program_stays_as_it_is(tmp_path: Path) -> None:
    """Somebody's own sbatch: the folder above its working directory may be a home directory."""
    assert wrote(usage(tmp_path)) != 0
    assert wrote(usage(tmp_path / "gone")) != 0
    assert list(tmp_path.iterdir()) == []


@pytest.mark.skipif(os.getuid() != 0, reason="only root takes another user's place")
def test_root_does_not_follow_a_users_link(tmp_path: Path) -> None:
    owned, target = tmp_path / "job", tmp_path / "roots"
    for folder in (owned, target):
        folder.mkdir(mode=0o755)
    tmp_path.chmod(0o755)
    (owned / "job.sbatch").touch()
    (owned / "usage").symlink_to(target)
    os.chown(owned, 65534, 65534)
    assert wrote(Usage(Job("7", 65534, 65534, frozenset(), str(owned)), 0.0)) != 0
    assert list(target.iterdir()) == []


def test_metrics_of_a_job_are_numbers_under_names(tmp_path: Path) -> None:
    folder = tmp_path / "7"
    folder.mkdir()
    text = '{"loss": 0.5, "big": 1e400, "é": 2, "nan": NaN, "yes": true, "words": "x", "deep": {}, "": 1, "a\\nb": 1}'
    (folder / "last.json").write_text(text)
    known: set[str] = set()
    assert metrics.newest("7", OWNER[0], known, tmp_path) == {"loss": 0.5, "é": 2.0}
    (folder / "last.json").write_text(json.dumps({f"m{number}": number for number in range(500)}))
    found = metrics.newest("7", OWNER[0], known, tmp_path)
    assert len(known) == metrics.MOST_NAMES and len(found) == metrics.MOST_NAMES - 2


def test_what_is_no_plain_file_of_the_user_is_not_opened(tmp_path: Path) -> None:
    folder = tmp_path / "7"
    folder.mkdir()
    secret = tmp_path / "secret"
    secret.write_text('{"loss": 1}')
    path = folder / "last.json"

    def refused() -> bool:
        began = time.monotonic()
        found = metrics.newest("7", OWNER[0], set(), tmp_path)
        assert time.monotonic() - began < 5
        return found == {}

    path.symlink_to(secret)
    assert refused()
    path.unlink()
    os.link(secret, path)
    assert refused(), "a second name of another file"
    path.unlink()
    os.mkfifo(path)
    assert refused()
    path.unlink()
    path.write_text("[" * 60_000)
    assert refused()
    path.write_text('{"loss": 1}' + " " * metrics.LONGEST_FILE)
    assert refused()
    path.write_text('{"loss": 1}')
    assert metrics.newest("7", OWNER[0] + 1, set(), tmp_path) == {}
    folder.rename(tmp_path / "real")
    folder.symlink_to("real")
    assert refused()


class Gpus:
    """Two GPUs in the place of Nvml, of which one does not tell its power."""

    def read(self) -> list[Gpu]:
        return [
            Gpu(0, 0, util_percent=97, memory_used=2**34, memory=2**35, power_w=301.5, slowed=0x44),
            Gpu(1, 1, util_percent=0, memory_used=0, memory=2**35, slowed=0x1),
        ]


def test_a_node_says_everything_in_prometheus_format(root: Path, tmp_path: Path) -> None:
    folder = tmp_path / "metrics/7"
    folder.mkdir(parents=True)
    (folder / "last.json").write_text(json.dumps({'loss"} 1': 0.5}))
    mark(tmp_path / "jobs", "7", *OWNER, "0", "/nowhere")
    gpus: Any = Gpus()
    sampler = Sampler("train-1", gpus, root, tmp_path / "jobs", tmp_path / "metrics")
    sampler.take()
    lines = sampler.text(sampler.take()).splitlines()
    assert 'gpucluster_gpu_util_percent{gpu="0"} 97' in lines
    assert 'gpucluster_gpu_power_watts{gpu="0"} 301.5' in lines
    assert not [line for line in lines if line.startswith('gpucluster_gpu_power_watts{gpu="1"}')]
    slowed = [line for line in lines if line.startswith("gpucluster_gpu_slowed{")]
    assert slowed == [
        'gpucluster_gpu_slowed{gpu="0",reason="power cap"} 1',
        'gpucluster_gpu_slowed{gpu="0",reason="temperature (hardware)"} 1',
    ]
    assert 'gpucluster_efa_total{interface="rdmap0s6",counter="tx_bytes"} 700' in lines
    assert 'gpucluster_job_info{job="7",gpus="0"} 1' in lines
    assert 'gpucluster_job_memory_bytes{job="7"} 1073741824' in lines
    assert 'gpucluster_job_metric{job="7",name="loss\\"} 1"} 0.5' in lines
    types = [line.split()[2] for line in lines if line.startswith("#")]
    assert len(types) == len(set(types)), "Prometheus refuses a metric whose lines are apart"
    (tmp_path / "jobs/7").unlink()
    assert "job" not in sampler.text(sampler.take())
    (writer,) = sampler.writers
    assert writer.wait(30) != 0, "/nowhere is no job's folder"


def test_many_jobs_of_a_user_do_not_make_prometheus_refuse_the_node(
    root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sampler, "MOST_METRICS", 5)
    for job_id in ("7", "8", "9"):
        (tmp_path / "metrics" / job_id).mkdir(parents=True)
        (tmp_path / "metrics" / job_id / "last.json").write_text(json.dumps({"a": 1, "b": 2, "c": 3}))
        mark(tmp_path / "jobs", job_id, *OWNER, "0", "/nowhere")
    gpus: Any = Gpus()
    sampled = Sampler("train-1", gpus, root, tmp_path / "jobs", tmp_path / "metrics")
    lines = sampled.text(sampled.take()).splitlines()
    assert sum(line.startswith("gpucluster_job_metric{") for line in lines) == 5
    assert sum(line.startswith("gpucluster_job_info{") for line in lines) == 3


def test_a_metric_may_have_any_label() -> None:
    file = Textfile()
    file.gauge("a", 1, name="x\ny", value="\\")
    file.gauge("b", math.nan)
    assert file.text == '# TYPE a gauge\na{name="x\\ny",value="\\\\"} 1\n'


NODES = """\
NodeName=train-1 Arch=x86_64 NodeAddr=10.0.128.7 NodeHostName=train-1 State=ALLOCATED+CLOUD ThreadsPerCore=1
NodeName=train-2 CoresPerSocket=1 NodeAddr=train-2 NodeHostName=train-2 State=IDLE+CLOUD+POWERED_DOWN ThreadsPerCore=1
NodeName=train-3 CoresPerSocket=1 NodeAddr=10.0.128.9 NodeHostName=t State=ALLOCATED#+CLOUD+NOT_RESPONDING+POWERING_UP
NodeName=train-4 CoresPerSocket=1 NodeAddr=127.0.0.1 NodeHostName=train-4 State=DOWN+CLOUD ThreadsPerCore=1
NodeName=ps-1 CoresPerSocket=1 NodeAddr=10.0.128.11 NodeHostName=ps-1 State=IDLE+CLOUD+DRAIN ThreadsPerCore=1
"""


def test_prometheus_asks_the_nodes_that_run() -> None:
    found = targets.targets(slurm.parse_nodes(NODES), 300)
    assert [(each["targets"], each["labels"]["instance"]) for each in found] == [
        (["127.0.0.1:300"], "head"),
        (["10.0.128.7:300"], "train-1"),
        (["10.0.128.11:300"], "ps-1"),
    ]
