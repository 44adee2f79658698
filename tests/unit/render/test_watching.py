"""The CloudWatch agent's configuration, as a node gets it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from gpucluster_node.watch import agent_config, job_logs, publish

from gpucluster import account, config, render
from gpucluster.render import watching

TEXT = """
name: Mine
region: eu-west-1
partitions: [{name: train, instance_types: [p4d.24xlarge], max_nodes: 2}]
accounting: "off"
"""
ROLES: tuple[watching.Role, ...] = ("head", "compute")


def rendered(role: watching.Role, text: str = TEXT) -> str:
    return render.bundle(config.loads(text))[f"cloudwatch/{role}.json"]


def agent(role: watching.Role, text: str = TEXT) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(rendered(role, text))
    return found


def shipped(role: watching.Role, text: str = TEXT) -> dict[str, str]:
    """Log group -> file."""
    return {
        each["log_group_name"]: each["file_path"]
        for each in agent(role, text)["logs"]["logs_collected"]["files"]["collect_list"]
    }


def test_logs_of_the_head_node() -> None:
    assert shipped("head") == {
        "/gpucluster/Mine/boot": "/var/log/gpucluster/boot.log",
        "/gpucluster/Mine/power": "/var/log/gpucluster/power.log",
        "/gpucluster/Mine/slurmctld": "/var/log/slurm/slurmctld.log",
        "/gpucluster/Mine/jobs": "/home/gpucluster/job-logs/*.txt",
    }


def test_logs_of_a_compute_node() -> None:
    assert shipped("compute") == {
        "/gpucluster/Mine/boot": "/var/log/gpucluster/boot.log",
        "/gpucluster/Mine/slurmd": "/var/log/slurm/slurmd.log",
    }


def test_the_database_has_a_log_where_there_is_one() -> None:
    assert "/gpucluster/Mine/slurmdbd" in shipped("head", TEXT.replace('"off"', "local"))


def test_slurm_writes_what_is_shipped() -> None:
    conf = render.bundle(config.loads(TEXT))["slurm/slurm.conf"]
    for role, daemon in (("head", "slurmctld"), ("compute", "slurmd")):
        assert shipped(role)[f"/gpucluster/Mine/{daemon}"] in conf  # type: ignore[arg-type]


@pytest.mark.parametrize("role", ROLES)
def test_files_that_a_pattern_names_are_all_followed(role: watching.Role) -> None:
    for each in agent(role)["logs"]["logs_collected"]["files"]["collect_list"]:
        assert each.get("publish_multi_logs", False) == ("*" in each["file_path"])


@pytest.mark.parametrize("role", ROLES)
def test_metrics_replaced_by_an_aggregate_are_measured(role: watching.Role) -> None:
    for each in agent(role)["metrics"]["metrics_collected"].values():
        assert set(each.get("drop_original_metrics", [])) <= set(each["measurement"])


@pytest.mark.parametrize("role", ROLES)
def test_metrics_lie_in_the_clusters_own_namespace(role: watching.Role) -> None:
    assert agent(role)["metrics"]["namespace"] == "GpuCluster/Mine"
    assert agent(role)["agent"]["region"] == "eu-west-1"


def test_a_node_says_its_name() -> None:
    found = agent_config.tailor(rendered("compute"), node="train-7", without=())
    names = {key: each.get("append_dimensions") for key, each in found["metrics"]["metrics_collected"].items()}
    assert names.pop("efa") is None  # the agent gives EFA's counters no dimension of ours
    assert set(map(str, names.values())) == {"{'Node': 'train-7'}"}


def test_a_node_does_not_measure_what_it_lacks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    assert agent_config.lacking(tmp_path) == {"nvidia_gpu", "efa"}
    found = agent_config.tailor(rendered("compute"), node="ps-1", without=agent_config.lacking(tmp_path))
    assert set(found["metrics"]["metrics_collected"]) == {"mem", "disk"}


def test_a_node_measures_what_it_has(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "dev").mkdir()
    (tmp_path / "dev/nvidia0").touch()
    (tmp_path / "nvidia-smi").touch(0o755)
    (tmp_path / "drivers/efa").mkdir(parents=True)
    device = tmp_path / "sys/class/infiniband/rdmap16s27/device"
    device.mkdir(parents=True)
    (device / "driver").symlink_to(tmp_path / "drivers/efa")
    monkeypatch.setenv("PATH", str(tmp_path))
    assert agent_config.lacking(tmp_path) == set()


def test_the_nodes_programs_and_the_bundle_agree() -> None:
    assert publish.NAMESPACE == watching.NAMESPACE
    assert str(job_logs.LINKS) == watching.JOB_LOGS
    assert agent_config.NODE == watching.NODE
    assert account.jobs() == f"{job_logs.HOMES}/{account.ADMINISTRATOR}/jobs"


def test_prices_come_with_the_bundle() -> None:
    text = TEXT + "parameter_servers: {instance_type: m4.16xlarge}\n"
    prices = json.loads(render.bundle(config.loads(text))["prices.json"])
    assert set(prices) == {"p4d.24xlarge", "m4.16xlarge"}
    assert all(price > 0 for price in prices.values())
