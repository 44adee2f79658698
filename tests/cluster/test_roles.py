"""What the nodes of a booted cluster need to be allowed, from their boot to their end, after all other tests used it.

What those of `changing` leave out of a cluster's life happens here: a boot that fails, a node that is sent away, a head
node that takes over from another, the end of it all. RECORD=rewrite writes down what nodes called, RECORD=add what they
called beside what is written already; tests/unit/stacks/test_recorded_calls.py holds the roles to it.
"""

from __future__ import annotations

import os
from typing import Any

import pytest
from bed import Bed, wait_for
from powered_off import powered_off_node

from tests import recorded_calls

OTHER_IMAGE = "/aws/service/deeplearning/ami/x86_64/base-oss-nvidia-driver-gpu-ubuntu-22.04/latest/ami-id"
Calls = list[dict[str, Any]]


@pytest.fixture(scope="module")
def life(changing: Bed) -> tuple[Calls, Calls]:
    """All calls of the cluster's roles, and the events of its stack."""
    stack_id = _stack_id(changing)
    if "  image: " not in changing.config.read_text():  # test_bad_days.py and test_changes.py did not run
        _fail_a_boot(changing)
        _send_a_node_away(changing)
        _replace_the_head(changing)
    down = changing.gpucluster("down", "--yes", timeout_s=300)
    assert down.returncode == 0, down.stderr + down.stdout
    return _calls_and_events(changing, stack_id)


def _stack_id(cluster: Bed) -> str:
    stacks = cluster.client("cloudformation").describe_stacks(StackName="GpuCluster")["Stacks"]
    return str(stacks[0]["StackId"])


def _calls_and_events(cluster: Bed, stack_id: str) -> tuple[Calls, Calls]:
    pages = cluster.client("cloudformation").get_paginator("describe_stack_events").paginate(StackName=stack_id)
    events = [event for page in pages for event in page["StackEvents"]]
    return [call for call in cluster.ask("calls?since=0") if "role" in call], events


def _fail_a_boot(cluster: Bed) -> None:
    node = powered_off_node(cluster)
    rule = ["--message", "slurmd: fatal: no such luck", "--tag", "gpucluster:role=compute", "--count", "1"]
    assert cluster.localcloud("fault", "add", "broken", "--command", "slurmd", *rule).returncode == 0
    job = cluster.submit(f"--sbatch-args=--nodelist={node}", "--launcher", "srun", "--", "true")
    wait_for("the reason", lambda: "step=packages" in cluster.ssh("sinfo", "-R", "-h", "-o", "%200E"), 120)
    cluster.gpucluster("cancel", job.last["job_id"])
    cluster.localcloud("fault", "clear")


def _send_a_node_away(cluster: Bed) -> None:
    job = cluster.submit("--nodes", "1", "--launcher", "srun", "--follow", "--", "true")
    (node,) = job.result["node_list"]
    before = len(cluster.instances("compute"))
    cluster.ssh("sudo", "scontrol", "update", f"nodename={node}", "state=power_down_force")
    wait_for("its end", lambda: len(cluster.instances("compute")) < before, 60)


def _replace_the_head(cluster: Bed) -> None:
    image = cluster.client("ssm").get_parameter(Name=OTHER_IMAGE)["Parameter"]["Value"]
    text = cluster.config.read_text()
    cluster.config.write_text(text.replace("head_node:\n", f"silence: [image-system]\nhead_node:\n  image: {image}\n"))
    (before,) = cluster.instances("head")
    up = cluster.gpucluster("up", "--local", "--port", str(cluster.port), "--drain", timeout_s=600)
    assert up.returncode == 0, up.stderr + up.stdout
    (after,) = cluster.instances("head")
    assert after != before


def test_no_call_of_a_node_was_denied(life: tuple[Calls, Calls]) -> None:
    assert life[0] and _denied(life[0]) == []


def _denied(calls: Calls) -> list[tuple[str, ...]]:
    return [(call["role"], call["service"], call["action"], call["error"]) for call in calls if call["denied"]]


def test_nodes_make_exactly_the_recorded_calls(life: tuple[Calls, Calls]) -> None:
    seen = recorded_calls.of_log(*life)
    assert {call.role for call in seen} >= {"HeadRole", "ComputeRole"}
    if os.environ.get("RECORD") == "rewrite":
        recorded_calls.write(seen)
    assert not _new(seen), NEW


NEW = "calls that are not written down: run the cluster tier with RECORD=add"


def _new(seen: set[recorded_calls.Recorded]) -> set[tuple[str, str]]:
    if os.environ.get("RECORD") == "add":
        recorded_calls.write(seen | set(recorded_calls.read()))
    return {(call.role, call.action) for call in seen} - {(call.role, call.action) for call in recorded_calls.read()}


def test_calls_of_nodes_for_every_launcher_are_allowed_and_recorded(cluster: Bed) -> None:
    """The other cluster, which those jobs used, and which stays."""
    calls, events = _calls_and_events(cluster, _stack_id(cluster))
    assert calls and _denied(calls) == []
    assert not _new(recorded_calls.of_log(calls, events)), NEW
