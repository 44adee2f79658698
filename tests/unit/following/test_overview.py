"""The cluster at one moment, from what Slurm's commands print. `squeue` here prints as the real one does, a name as it
is (print.c: _print_str); scontrol's line ends as node_info.c in src/api writes it (InstanceId=… InstanceType=…)."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

import pytest

from gpucluster.config import ClusterConfig, loads
from gpucluster.errors import RemoteError
from gpucluster.following import overview, usage
from gpucluster.hardware import prices
from gpucluster.head import hostlist, records
from tests.in_process import InProcessRemote

CONFIG = """
name: digits
region: us-east-1
head_node: {instance_type: m6i.large}
partitions:
  - {name: train, instance_types: [g5.12xlarge, g5.24xlarge], max_nodes: 4}
  - {name: block, instance_types: [p5.48xlarge], max_nodes: 1, purchase: capacity-block,
     reservation_id: cr-0123456789abcdef0, placement_group: none}
"""
SINFO = """\
train-1|train|allocated|Unknown|none
train-2|train|mixed|Unknown|none
train-3|train|idle~|Unknown|none
train-4|train|allocated#|Unknown|none
block-1|block|down*|2026-11-21T12:00:00|Not responding
"""
NODES = (
    "".join(
        f"NodeName={name} Arch=x86_64 CPUTot=48 State=IDLE+CLOUD Partitions=train Extra=nn-1 "
        f"InstanceId=i-0 InstanceType={kind}\n"
        for name, kind in {"train-1": "g5.24xlarge", "train-2": "g5.12xlarge", "block-1": "p5.48xlarge"}.items()
    )
    + "NodeName=train-3 Arch=x86_64 CPUTot=48 State=IDLE+CLOUD+POWERED_DOWN Partitions=train\n"
)
SQUEUE = f"""#!{sys.executable}
import json, os, pathlib, re, sys
for job in json.loads(pathlib.Path(__file__ + ".json").read_text()):
    line = re.sub("%(.)", lambda found: job[found[1]], os.environ["SQUEUE_FORMAT"])
    sys.stdout.buffer.write(line.encode("utf-8", "surrogateescape") + b"\\n")
"""
NOW = usage.NodeNow("train-1", 1764400000.0, 37.5, 12.0, 192.0, ())


def job(job_id: str, state: str, nodes: str = "", name: str = "digits", **fields: str) -> dict[str, str]:
    reason = "None" if nodes else "Resources"
    found = {"i": job_id, "T": state, "P": "train", "D": "1", "N": nodes, "M": "1-02:03:04", "l": "UNLIMITED"}
    return {**found, "V": "x", "S": "N/A", "j": name, "r": reason, "u": "ann", **fields}


class Head(InProcessRemote):
    """Runs the client's one command here, with these programs of Slurm."""

    def __init__(self, folder: Path, *jobs: dict[str, str]) -> None:
        super().__init__()
        self.folder, self.calls = folder, 0
        self.program("sinfo", f"cat <<'END'\n{SINFO}END")
        self.program("scontrol", f"cat <<'END'\n{NODES}END")
        (folder / "squeue").write_text(SQUEUE)
        (folder / "squeue").chmod(0o755)
        (folder / "squeue.json").write_text(json.dumps(jobs))

    def program(self, name: str, text: str) -> None:
        (self.folder / name).write_text(f"#!/bin/sh\n{text}\n")
        (self.folder / name).chmod(0o755)

    def run(self, argv, **more):  # type: ignore[no-untyped-def]
        self.calls += 1
        return super().run(argv, **more)


@pytest.fixture
def config() -> ClusterConfig:
    return loads(CONFIG)


@pytest.fixture(autouse=True)
def _slurm(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(records, "MARKS", True)
    monkeypatch.setattr(usage, "now", lambda remote: [NOW])
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")


def usd(kind: str) -> float:
    found = prices.usd(kind, "us-east-1")
    assert found
    return found


def test_nodes_with_their_jobs_types_and_load(tmp_path, config):
    seen = overview.of(Head(tmp_path, job("7", "RUNNING", "train-[1-2]"), job("8", "RUNNING", "train-2")), config)
    nodes = {node.name: node for node in seen.nodes}
    assert list(nodes) == ["train-1", "train-2", "train-3", "train-4", "block-1"]
    assert (nodes["train-1"].instance_type, nodes["train-1"].job_ids) == ("g5.24xlarge", ("7",))
    assert (nodes["train-1"].usage, nodes["train-2"].usage) == (NOW, None)
    assert nodes["train-2"].job_ids == ("7", "8")
    assert (nodes["train-3"].running, nodes["train-3"].state) == (False, "idle (powered off until a job needs it)")
    assert (nodes["train-4"].running, nodes["train-4"].instance_type) == (True, "")
    assert (nodes["block-1"].available, nodes["block-1"].reason) == (False, "Not responding")
    assert seen.lacks == ()


def test_an_hour_costs_what_runs_and_jobs_share_it(tmp_path, config):
    jobs = [job("8", "RUNNING", "train-2"), job("7", "RUNNING", "train-[1-2]"), job("9", "PENDING")]
    seen = overview.of(Head(tmp_path, *jobs), config)
    large, small = usd("g5.24xlarge"), usd("g5.12xlarge")
    # train-4 boots, and counts as the type that is launched first; the Capacity Block is paid in advance
    assert seen.usd_per_hour == pytest.approx(large + small + small)
    found = {each.job_id: each.usd_per_hour for each in seen.jobs}
    assert found == {"7": pytest.approx(large + small / 2), "8": pytest.approx(small / 2), "9": None}


def test_jobs_that_have_not_ended_running_ones_first(tmp_path, config):
    ended, waits = job("5", "COMPLETED", "train-1"), job("9", "PENDING", u="bob")
    seen = overview.of(Head(tmp_path, ended, waits, job("7", "RUNNING", "train-[1-2]")), config)
    first, second = seen.jobs
    assert (first.job_id, first.state, first.user, first.nodes) == ("7", "RUNNING", "ann", 2)
    assert (first.elapsed_s, first.node_list, first.reason) == (93784.0, "train-[1-2]", "")
    assert (second.job_id, second.user, second.nodes) == ("9", "bob", 1)
    assert second.reason == "it is next in the queue; its nodes are busy or starting"


def test_an_array_is_one_row(tmp_path, config):
    elements = [job("12_0", "RUNNING", "train-1"), job("12_1", "RUNNING", "train-2"), job("12_2", "PENDING")]
    (row,) = overview.of(Head(tmp_path, *elements), config).jobs
    assert (row.job_id, row.nodes, row.user, row.reason) == ("12", 2, "ann", "2 running, 1 pending")


@pytest.mark.parametrize(
    "name",
    [
        "x\ngpucluster:jobs\n99|RUNNING|root|train|1|train-1|1:00|1:00|x|x|forged|None",
        "x\n99|RUNNING|root|train|1|train-1|1:00|1:00|x|x|forged|None",
        "x|y|root",
        "\x1b]52;c;cm0gLXJmIC8K\x07",
        "\udcff",
    ],
)
def test_a_name_is_only_a_name(tmp_path, config, name):
    (row,) = overview.of(Head(tmp_path, job("7", "RUNNING", "train-1", name)), config).jobs
    assert (row.job_id, row.user) == ("7", "ann")
    assert row.name.replace("\ufffd", "\udcff") == name


def test_one_question_for_slurm(tmp_path, config):
    head = Head(tmp_path, job("7", "RUNNING", "train-1"))
    overview.of(head, config)
    assert head.calls == 1


def test_an_empty_queue(tmp_path, config):
    seen = overview.of(Head(tmp_path), config)
    assert (seen.jobs, len(seen.nodes)) == ((), 5)


def test_without_samples_it_says_what_it_lacks(tmp_path, config, monkeypatch):
    def none(remote: object) -> list[usage.NodeNow]:
        raise usage.Unavailable("monitoring.prometheus is off in cluster.yaml")

    monkeypatch.setattr(usage, "now", none)
    seen = overview.of(Head(tmp_path), config)
    assert seen.lacks == ("monitoring.prometheus is off in cluster.yaml",)
    assert {node.usage for node in seen.nodes} == {None}


def test_slurm_does_not_answer(tmp_path, config):
    head = Head(tmp_path)
    head.program("sinfo", "echo 'slurm_load_partitions: Unable to contact slurm controller' >&2; exit 1")
    with pytest.raises(RemoteError, match="cannot list nodes and jobs: .*Unable to contact slurm controller"):
        overview.of(head, config)


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("train-[1-3,7],ps-1", ("train-1", "train-2", "train-3", "train-7", "ps-1")),
        ("n[008-010]", ("n008", "n009", "n010")),
        ("rack[0-1]n[1-2]", ("rack0n1", "rack0n2", "rack1n1", "rack1n2")),
        ("(null)", ()),
        ("", ()),
    ],
)
def test_the_short_form_of_node_names(text, names):
    assert hostlist.names(text) == names


def test_an_endless_range_ends():
    assert len(hostlist.names("n[1-99999999999]")) == hostlist.MOST
