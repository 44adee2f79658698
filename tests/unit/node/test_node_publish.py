"""What the head node tells CloudWatch of the cluster, from what Slurm and EC2 print."""

from __future__ import annotations

import os
import stat
import time
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from botocore.session import get_session
from botocore.stub import Stubber
from gpucluster_node import fleet, refusals, slurm
from gpucluster_node.watch import job_logs, publish
from gpucluster_node.watch.publish import View

CLUSTER = fleet.parse(
    {
        "cluster": "Mine",
        "zone": "mine.internal",
        "ssm_path": "/gpucluster/Mine/",
        "partitions": [
            {
                "name": name,
                "min_nodes": 0,
                "max_nodes": 9,
                "purchase": "on-demand",
            }
            for name in ("train", "big-gpu")
        ],
    }
)

# As Slurm 24.11's `scontrol show nodes --oneliner` prints them, shortened.
NODES = """\
NodeName=train-1 Arch=x86_64 CoresPerSocket=1 CPUAlloc=48 State=ALLOCATED+CLOUD ThreadsPerCore=1 TmpDisk=0
NodeName=train-2 Arch=x86_64 CoresPerSocket=1 CPUAlloc=8 State=MIXED+CLOUD ThreadsPerCore=1 TmpDisk=0
NodeName=train-3 CoresPerSocket=1 CPUAlloc=0 State=ALLOCATED+CLOUD+NOT_RESPONDING+POWERING_UP ThreadsPerCore=1
NodeName=train-4 CoresPerSocket=1 CPUAlloc=0 State=IDLE+CLOUD+POWERED_DOWN ThreadsPerCore=1 TmpDisk=0
NodeName=train-5 CoresPerSocket=1 CPUAlloc=0 State=DOWN+CLOUD+POWERED_DOWN Reason=x [root@2026-11-21T15:00:00]
NodeName=train-6 CoresPerSocket=1 CPUAlloc=0 State=IDLE+CLOUD+POWERING_DOWN ThreadsPerCore=1 TmpDisk=0
NodeName=train-7 CoresPerSocket=1 CPUAlloc=0 State=IDLE+CLOUD+DRAIN ThreadsPerCore=1 TmpDisk=0
NodeName=train-8 CoresPerSocket=1 CPUAlloc=0 State=IDLE+CLOUD ThreadsPerCore=1 TmpDisk=0
NodeName=train-9 CoresPerSocket=1 CPUAlloc=0 State=IDLE+CLOUD+POWERED_DOWN+POWERING_UP ThreadsPerCore=1 TmpDisk=0
NodeName=big-gpu-1 CoresPerSocket=1 CPUAlloc=0 State=DOWN*+CLOUD ThreadsPerCore=1 TmpDisk=0
NodeName=gone-1 CoresPerSocket=1 CPUAlloc=0 State=IDLE+CLOUD ThreadsPerCore=1 TmpDisk=0
"""
# `squeue --noheader --states=all --array --format="%P %T"`
JOBS = "train RUNNING\ntrain RUNNING\ntrain PENDING\nbig-gpu,train PENDING\ntrain COMPLETING\ntrain FAILED\n"


def values(data: list[publish.Datum]) -> dict[str, float]:
    """`Metric/partition/state` -> value."""
    return {
        "/".join([each["MetricName"], *(pair["Value"] for pair in each["Dimensions"][1:])]): each["Value"]
        for each in data
    }


def test_nodes_are_counted_by_partition_and_state() -> None:
    assert publish.count_nodes(CLUSTER, slurm.parse_nodes(NODES)) == {
        ("train", "busy"): 2,
        ("train", "starting"): 2,
        ("train", "down"): 1,
        ("train", "stopping"): 1,
        ("train", "drained"): 1,
        ("train", "idle"): 1,
        ("big-gpu", "down"): 1,
    }


def test_jobs_are_counted_by_partition_and_state() -> None:
    assert publish.count_jobs(slurm.parse_jobs(JOBS)) == {
        ("train", "running"): 2,
        ("train", "pending"): 1,
        ("train", "completing"): 1,
        ("big-gpu", "pending"): 1,
    }


def test_a_node_in_an_unknown_state_is_counted() -> None:
    nodes = slurm.parse_nodes("NodeName=train-1 CPUs=1 State=UNKNOWN+CLOUD x")
    assert publish.count_nodes(CLUSTER, nodes) == {("train", "other"): 1}


def test_instances_cost_their_list_price() -> None:
    def instance(type_: str, partition: str) -> dict[str, object]:
        return {"InstanceType": type_, "Tags": [{"Key": "gpucluster:partition", "Value": partition}]}

    running = [instance("g5.xlarge", "train"), instance("g5.xlarge", "train"), instance("new.type", "big-gpu")]
    assert publish.prices(running, {"g5.xlarge": 1.006}) == {"train": 2.012, "big-gpu": 0.0}
    by_hand = {"InstanceType": "g5.xlarge", "Tags": [{"Key": "gpucluster:role", "Value": "compute"}]}
    assert publish.prices([by_hand], {"g5.xlarge": 1.006}) == {"none": 1.006}, "CloudWatch refuses an empty dimension"


def test_a_heartbeat_and_a_total_are_always_sent() -> None:
    assert values(publish.metric_data("Mine", View(), View())) == {"Heartbeat": 1, "LaunchFailures": 0}


def test_a_metric_that_ends_is_sent_once_as_zero() -> None:
    refused = Counter({("train", "InsufficientInstanceCapacity"): 2})
    before = View(Counter({("train", "idle"): 3}), Counter({("train", "pending"): 1}), refused, {"train": 4.0})
    after = View()
    assert values(publish.metric_data("Mine", after, before)) == {
        "Heartbeat": 1,
        "LaunchFailures": 0,
        "NodesByState/train/idle": 0,
        "JobsByState/train/pending": 0,
        "LaunchFailures/train/InsufficientInstanceCapacity": 0,
        "UsdPerHour/train": 0,
    }
    assert values(publish.metric_data("Mine", View(), after)) == {"Heartbeat": 1, "LaunchFailures": 0}


def test_a_zero_does_not_make_the_next_one() -> None:
    zero = View(Counter({("train", "idle"): 0}), usd_per_hour={"train": 0.0})
    assert "NodesByState/train/idle" not in values(publish.metric_data("Mine", View(), zero))
    assert "UsdPerHour/train" not in values(publish.metric_data("Mine", View(), zero))


def test_cloudwatch_takes_it_in_batches() -> None:
    client = get_session().create_client(
        "cloudwatch", region_name="us-east-1", aws_access_key_id="x", aws_secret_access_key="x"
    )
    nodes = Counter({(f"p{number}", "idle"): 1 for number in range(publish.METRICS_PER_CALL)})
    data = publish.metric_data("Mine", View(nodes), View())
    with Stubber(client) as stub:
        for batch in (data[: publish.METRICS_PER_CALL], data[publish.METRICS_PER_CALL :]):
            stub.add_response("put_metric_data", {}, {"Namespace": "GpuCluster", "MetricData": batch})
        publish.put(client, data)
        stub.assert_no_pending_responses()


def test_refused_launches_are_counted_once(tmp_path: Path) -> None:
    path = tmp_path / "refusals.jsonl"
    assert refusals.take(path) == {}
    for _ in range(2):
        refusals.record("train", "InsufficientInstanceCapacity", path)
    refusals.record("train", "UnauthorizedOperation", path)
    with path.open("a") as file:
        file.write('["cut sh')
    assert refusals.take(path) == {
        ("train", "InsufficientInstanceCapacity"): 2,
        ("train", "UnauthorizedOperation"): 1,
    }
    assert refusals.take(path) == {}
    refusals.record("train", "Throttling", path)
    assert refusals.take(path) == {("train", "Throttling"): 1}


def test_a_refusal_that_cannot_be_counted_is_only_warned_of(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    refusals.record("train", "Throttling", tmp_path / "nowhere/refusals.jsonl")
    assert "could not count" in caplog.text


OF_ADA = "ada/jobs/by-id"


def job(jobs: Path, name: str, *, age_s: float = 0, owner: int = 1000) -> Path:
    """The record of ada, whose uid is 1000."""
    folder = jobs / name
    folder.mkdir(parents=True)
    log = folder / "log.txt"
    log.write_text("hello\n")
    os.utime(log, (time.time() - age_s,) * 2)
    if os.getuid() == 0:
        os.chown(jobs.parents[1], 1000, 1000)
        os.chown(log, owner, owner)
    return log


def test_recent_logs_of_jobs_are_linked(tmp_path: Path) -> None:
    jobs, links = tmp_path / OF_ADA, tmp_path / "links"
    recent, old = job(jobs, "1"), job(jobs, "2", age_s=2 * job_logs.RECENT_S)
    (jobs / "3").mkdir()
    job_logs.refresh(tmp_path, links)
    job_logs.refresh(tmp_path, links)
    assert [link.name for link in links.iterdir()] == ["ada_1.txt"]
    assert (links / "ada_1.txt").samefile(recent)
    assert stat.S_IMODE(links.stat().st_mode) == 0o700
    os.utime(old)
    os.utime(recent, (0, 0))
    job_logs.refresh(tmp_path, links)
    assert [link.name for link in links.iterdir()] == ["ada_2.txt"]


def test_a_jobs_log_that_leads_elsewhere_is_not_linked(tmp_path: Path) -> None:
    jobs, links = tmp_path / OF_ADA, tmp_path / "links"
    log = job(jobs, "1")
    log.unlink()
    log.symlink_to("/etc/shadow")
    job_logs.refresh(tmp_path, links)
    assert not list(links.iterdir())


def test_the_disk_of_the_data_volume_is_looked_for(tmp_path: Path) -> None:
    """The mount stays after EC2 has detached the volume, and slurmctld answers, so the heartbeat would go on."""
    (tmp_path / "devices/259:4").mkdir(parents=True)
    volume = os.makedev(259, 4)
    assert publish.has_disk(volume, tmp_path / "devices")
    (tmp_path / "devices/259:4").rmdir()
    assert not publish.has_disk(volume, tmp_path / "devices")
    assert publish.has_disk(os.makedev(0, 4), tmp_path / "devices"), "a file system without a disk"
    assert publish.has_disk(volume, tmp_path / "no sysfs")


def test_there_is_no_heartbeat_without_the_data_volume(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(publish, "has_disk", lambda device: False)
    with pytest.raises(OSError, match="the data volume is gone: EC2 has detached it"):
        publish.look(replace(CLUSTER, state=str(tmp_path)), {})


def test_a_log_that_is_replaced_after_it_was_linked_leads_nowhere_else(tmp_path: Path) -> None:
    """The agent, which runs as root, opens the link at any time."""
    jobs, links = tmp_path / OF_ADA, tmp_path / "links"
    log = job(jobs, "1")
    (tmp_path / "secret").write_text("root's\n")
    job_logs.refresh(tmp_path, links)
    log.unlink()
    log.symlink_to(tmp_path / "secret")
    assert (links / "ada_1.txt").read_text() == "hello\n"


def test_a_log_that_is_replaced_while_it_is_linked_leads_nowhere_else(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    jobs, links, checked = tmp_path / OF_ADA, tmp_path / "links", job_logs._is_recent
    log = job(jobs, "1")
    (tmp_path / "secret").write_text("root's\n")

    def slowly(*values: Any) -> bool:
        log.unlink()
        os.link(tmp_path / "secret", log)
        return checked(*values)

    log.with_name("kept").hardlink_to(log)
    monkeypatch.setattr(job_logs, "_is_recent", slowly)
    job_logs.refresh(tmp_path, links)
    assert (links / "ada_1.txt").read_text() == "hello\n"


def test_a_log_that_its_user_has_written_anew_is_linked_anew(tmp_path: Path) -> None:
    jobs, links = tmp_path / OF_ADA, tmp_path / "links"
    job(jobs, "1").rename(tmp_path / "old")
    job_logs.refresh(tmp_path, links)
    (jobs / "1").rmdir()
    job(jobs, "1").write_text("again\n")
    job_logs.refresh(tmp_path, links)
    assert (links / "ada_1.txt").read_text() == "again\n"


def test_a_pipe_is_not_waited_for(tmp_path: Path) -> None:
    jobs, links = tmp_path / OF_ADA, tmp_path / "links"
    job(jobs, "1").unlink()
    os.mkfifo(jobs / "1/log.txt")
    job_logs.refresh(tmp_path, links)
    assert not list(links.iterdir())


@pytest.mark.parametrize("name", ["1", "b_1", "x"])
def test_nobody_replaces_the_log_of_another_user(tmp_path: Path, name: str) -> None:
    """Users choose the names in by-id. `a` with `b_1` and `a_b` with `1` would be the same."""
    links = tmp_path / "links"
    theirs, own = job(tmp_path / "a_b/jobs/by-id", "1"), job(tmp_path / "a/jobs/by-id", name)
    theirs.write_text("theirs\n")
    own.write_text("own\n")
    job_logs.refresh(tmp_path, links)
    found = {link.name: link.read_text() for link in links.iterdir()}
    assert found == {"a_b_1.txt": "theirs\n"} | ({"a_1.txt": "own\n"} if name == "1" else {})


@pytest.mark.skipif(os.getuid() != 0, reason="only root can give a file away")
def test_a_log_owned_by_root_is_not_linked(tmp_path: Path) -> None:
    """A hard link to one would have its owner."""
    job(tmp_path / OF_ADA, "1", owner=0)
    job_logs.refresh(tmp_path, tmp_path / "links")
    assert not list((tmp_path / "links").iterdir())


@pytest.mark.skipif(os.getuid() != 0, reason="only root can give a file away")
def test_a_log_of_another_user_is_not_linked(tmp_path: Path) -> None:
    """Their folder would be a link to that user's."""
    job(tmp_path / OF_ADA, "1", owner=1001)
    job_logs.refresh(tmp_path, tmp_path / "links")
    assert not list((tmp_path / "links").iterdir())


def test_no_jobs_yet(tmp_path: Path) -> None:
    job_logs.refresh(tmp_path, tmp_path / "links")
    assert not list((tmp_path / "links").iterdir())
