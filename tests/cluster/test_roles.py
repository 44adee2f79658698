"""What the nodes of a booted cluster need to be allowed, from their boot to their end, after all other tests used it.

What those leave out of a cluster's life happens here: a boot that fails, a node that is sent away, a head node that
takes over from another, the end of it all. RECORD=rewrite writes down what nodes called, RECORD=add what they called
beside what is written already; tests/unit/test_recorded_calls.py holds the roles to it.
"""

from __future__ import annotations

import os
import re
from typing import Any

import pytest
from bed import Bed, wait_for

from localcloud import clients
from tests import recorded_calls

OTHER_IMAGE = "/aws/service/deeplearning/ami/x86_64/base-oss-nvidia-driver-gpu-ubuntu-22.04/latest/ami-id"
Calls = list[dict[str, Any]]


@pytest.fixture(scope="module")
def life(cluster: Bed) -> tuple[Calls, list[dict[str, Any]]]:
    """All calls of the cluster's roles, and the events of its stack."""
    clients.configure(cluster.endpoint_url, cluster.secret)
    cloudformation = clients.client("cloudformation")
    stack_id = cloudformation.describe_stacks(StackName="GpuCluster")["Stacks"][0]["StackId"]
    _fail_a_boot(cluster)
    _send_a_node_away(cluster)
    _replace_the_head(cluster)
    down = cluster.gpucluster("down", "--yes", timeout_s=300)
    assert down.returncode == 0, down.stderr + down.stdout
    pages = cloudformation.get_paginator("describe_stack_events").paginate(StackName=stack_id)
    events = [event for page in pages for event in page["StackEvents"]]
    return [call for call in cluster.ask("calls?since=0") if "role" in call], events


def _fail_a_boot(cluster: Bed) -> None:
    rule = ["--message", "slurmd: fatal: no such luck", "--tag", "gpucluster:role=compute", "--count", "1"]
    assert cluster.localcloud("fault", "add", "broken", "--command", "slurmd", *rule).returncode == 0
    job = cluster.submit("--sbatch-args=--nodelist=train-3", "--launcher", "srun", "--", "true")
    wait_for("the reason", lambda: "step=slurm" in cluster.ssh("sinfo", "-R", "-h", "-o", "%200E"), 120)
    cluster.gpucluster("cancel", job.last["job_id"])
    cluster.localcloud("fault", "clear")


def _send_a_node_away(cluster: Bed) -> None:
    job = cluster.submit("--nodes", "1", "--launcher", "srun", "--follow", "--", "true")
    (node,) = job.result["node_list"]
    before = len(cluster.instances("compute"))
    cluster.ssh("sudo", "scontrol", "update", f"nodename={node}", "state=power_down_force")
    wait_for("its end", lambda: len(cluster.instances("compute")) < before, 60)


def _replace_the_head(cluster: Bed) -> None:
    image = clients.client("ssm").get_parameter(Name=OTHER_IMAGE)["Parameter"]["Value"]
    # Tests before this one may have given it another image already.
    text = re.sub(r"^  image: .*\n", "", cluster.config.read_text(), flags=re.MULTILINE)
    cluster.config.write_text(text.replace("head_node:\n", f"head_node:\n  image: {image}\n"))
    (before,) = cluster.instances("head")
    up = cluster.gpucluster("up", "--local", "--port", str(cluster.port), "--drain", timeout_s=600)
    assert up.returncode == 0, up.stderr + up.stdout
    (after,) = cluster.instances("head")
    assert after != before


def test_no_call_of_a_node_was_denied(life: tuple[Calls, Any]) -> None:
    denied = [(call["role"], call["service"], call["action"], call["error"]) for call in life[0] if call["denied"]]
    assert life[0] and denied == []


def test_nodes_call_what_is_written_down(life: tuple[Calls, Any]) -> None:
    seen = recorded_calls.of_log(*life)
    assert {call.role for call in seen} >= {"HeadRole", "ComputeRole"}
    if wish := os.environ.get("RECORD"):
        recorded_calls.write(seen | set(recorded_calls.read() if wish == "add" else ()))
    written = {(call.role, call.action) for call in recorded_calls.read()}
    new = {(call.role, call.action) for call in seen} - written
    assert not new, "calls that are not written down: run the cluster tier with RECORD=add"
