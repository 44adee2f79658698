"""Our parsers, tested with recorded output of real commands."""

from __future__ import annotations

import re

import pytest
from gpucluster_node import slurm as node_slurm
from gpucluster_node.lustre import hsm

from gpucluster.head import slurm
from gpucluster_job.preflight import nccl, probe
from localcloud.testing.recorded import RECORDS, record


def test_every_record_says_what_printed_it_and_where_that_was_seen() -> None:
    for path in RECORDS.rglob("*.txt"):
        header, marker, text = path.read_text().partition("# output:\n")
        assert marker and text.strip(), path
        assert re.search(r"^# command", header, re.MULTILINE) and re.search(r"^# +source", header, re.MULTILINE), path


@pytest.mark.parametrize(
    ("name", "network", "interfaces", "version"),
    [
        ("p4d-ofi1.16.2-init.txt", "efa", 1, "2.27.3+cuda12.9"),
        ("p4d-2021-ofi1.1.txt", "efa", None, "2.8.3+cuda11.2"),
        ("p5en-ofi1.13-nic-groups.txt", "efa", 16, None),
        ("no-plugin-sockets.txt", "Socket", None, "2.21.5+cuda12.4"),
        ("plugin-present-no-efa.txt", None, None, "2.21.5+cuda12.8"),
    ],
)
def test_the_network_that_nccl_took(name: str, network: str | None, interfaces: int | None, version: str) -> None:
    rank = nccl.parse(record(f"nccl/{name}"))
    assert (rank.network, rank.interfaces, rank.version) == (network, interfaces, version)


def test_the_network_of_newer_plugins() -> None:
    blocks = record("nccl/p5-ofi1.17-1.20-selection.txt").split("\n\n")
    found = [nccl.parse(block) for block in blocks]
    assert [rank.interfaces for rank in found] == [32, 32, 32, 16, 1]
    assert [rank.network for rank in found] == ["efa", None, None, "efa", None]  # the excerpts leave the last lines out


@pytest.mark.parametrize(
    ("answer", "count"),
    [
        ((0, record("nvidia-smi/query-gpu-ecc.txt").partition("\n")[2]), 1),
        ((6, record("nvidia-smi/no-devices.txt")), 0),
    ],
)
def test_gpus_that_nvidia_smi_lists(answer: tuple[int, str], count: int) -> None:
    assert probe.gpus(answer)["gpus"] == count


@pytest.mark.parametrize(
    ("name", "code", "words"),
    [
        ("no-driver.txt", 9, "NVIDIA-SMI has failed because it couldn't communicate with the NVIDIA driver"),
        ("unknown-field.txt", 2, "is not a valid field to query"),
        ("gpu-lost.txt", 15, "Unable to determine the device handle"),
    ],
)
def test_a_failure_of_nvidia_smi_does_not_mean_that_there_is_no_gpu(name: str, code: int, words: str) -> None:
    with pytest.raises(RuntimeError, match=words):
        probe.gpus((code, record(f"nvidia-smi/{name}")))


def test_nodes_as_scontrol_shows_them() -> None:
    """The output of Slurm 21.08, 24.05 and 24.11; --oneliner joins the lines."""
    blocks = record("slurm/node-powered-down-22.05-24.05-25.txt").strip().split("\n\nNodeName=")
    lines = [("" if block.startswith("NodeName=") else "NodeName=") + " ".join(block.split("\n")) for block in blocks]
    nodes = node_slurm.parse_nodes("\n".join(lines))
    assert [node.name for node in nodes] == [
        "queue1-dy-compute-resource-1-10", "i8-dy-r6gb64-1", "gpu-large-dy-ml-large-1",
    ]  # fmt: skip
    assert all(node.states == {"IDLE", "CLOUD", "POWERED_DOWN"} for node in nodes)
    assert [node.reason for node in nodes] == ["", "Scheduler health check failed", "stopping cluster"]


@pytest.mark.parametrize("line", record("slurm/node-states-cloud-seen.txt").splitlines())
def test_states_and_reasons_as_scontrol_shows_them(line: str) -> None:
    state, _, reason = line.partition("    ") if not line.startswith("Reason") else ("DOWN", "", line)
    reason = reason.replace("[root@...]", "[root@2023-01-31T21:24:55]")
    (node,) = node_slurm.parse_nodes(f"NodeName=train-1 CoresPerSocket=1    State={state} ThreadsPerCore=1    {reason}")
    assert node.states == set(state.split("+"))
    if reason:
        assert reason == f"Reason={node.reason} [root@2023-01-31T21:24:55]"


REASONS = {
    "AssocMaxCpuMinutesPerJobLimit": "a limit of its account delays it",
    "DependencyNeverSatisfied": "a job that it depends on failed: it will never start, cancel it",
    "Resources": "it is next in the queue; its nodes are busy or starting",
    "ReqNodeNotAvail, UnavailableNodes:hbnode-40": "a node that it needs is down, drained or reserved",
}


def test_why_jobs_wait_as_squeue_says_it() -> None:
    text = record("slurm/squeue-dependency-never-satisfied.txt") + record("slurm/squeue-reqnodenotavail.txt")
    said = set(re.findall(r"\(([A-Z][^)]+)\) *$", text, re.MULTILINE))
    assert said == set(REASONS)
    assert {reason: slurm.pending_reason(f"({reason})") for reason in said} == REASONS


def test_what_lustre_says_of_files_that_s3_keeps() -> None:
    text = record("lustre/hsm_state.txt")
    states = hsm.parse_states(text, [line.partition(": ")[0] for line in text.splitlines()])
    seen = {state.flags: (state.loaded, state.exported) for state in states.values()}
    assert seen.items() <= {0xD: (False, True), 0x0: (True, False), 0x9: (True, True)}.items()
    assert len(text.splitlines()) == 4
