"""A running job whose node does not answer Slurm: `why` and the follower say so before Slurm gives the node up."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from gpucluster import account
from gpucluster.following import explain, jobs, silent
from gpucluster.following.patience import Patience
from tests.in_process import InProcessRemote

NO_ANSWER = "Slurm gets no answer from train-2: the network, the clock, slurmd or the instance has failed"
AGAIN = "after 120 s without an answer Slurm gives a node up and runs the job again on other nodes"
ENDS = "after 120 s without an answer Slurm gives a node up and ends the job"


class Cluster:
    """Slurm's commands on this machine. The states of nodes are those of node_state_string in Slurm's
    slurm_protocol_defs.c, the lines of `scontrol show config` those of slurm_print_ctl_conf in its config_info.c."""

    def __init__(self, root: Path) -> None:
        self.root = root
        (root / "bin").mkdir()
        (root / "jobs/by-id/7").mkdir(parents=True)
        self.slurmd_timeout("120 sec")
        self.second("allocated")

    def says(self, program: str, text: str) -> None:
        path = self.root / "bin" / program
        path.write_text(f"#!/bin/sh\ncat <<'END'\n{text}\nEND\n")
        path.chmod(0o755)

    def second(self, state: str) -> None:
        """The state of train-2, which is in two partitions."""
        nodes = {"train-1": "allocated", "train-2": state}
        lines = (f"{node}|{name}|{nodes[node]}|Unknown|none" for name in ("train", "all") for node in nodes)
        self.says("sinfo", "\n".join(lines))

    def slurmd_timeout(self, timeout: str, requeue: int = 1) -> None:
        config = f"SlurmctldTimeout        = 30 sec\nSlurmdTimeout           = {timeout}\n"
        self.says("scontrol", config)
        self.says("squeue", "7|RUNNING|train|2|train-[1-2]|0:04|UNLIMITED|x|x|raise|None")
        queue = self.root / "bin" / "squeue"
        queue.write_text(
            queue.read_text().replace("\n", f"\ncase $* in *Requeue*) echo '{requeue}   '; exit ;; esac\n", 1)
        )


@pytest.fixture
def cluster(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Cluster:
    monkeypatch.setenv("PATH", f"{tmp_path / 'bin'}:{os.environ['PATH']}")
    monkeypatch.setattr(account, "home", lambda: str(tmp_path))
    return Cluster(tmp_path)


@pytest.mark.parametrize("state", ["allocated*", "mixed*", "completing*", "draining*"])
def test_why_names_the_node_and_what_follows(cluster: Cluster, state: str) -> None:
    cluster.second(state)
    assert f"{NO_ANSWER}; {AGAIN}" in explain.of(InProcessRemote(), None, "7").lines


@pytest.mark.parametrize("state", ["allocated", "allocated#", "down*"])
def test_why_names_no_node_that_answers_boots_or_is_given_up(cluster: Cluster, state: str) -> None:
    cluster.second(state)
    assert not any("no answer" in line for line in explain.of(InProcessRemote(), None, "7").lines)


@pytest.mark.parametrize(
    ("timeout", "requeue", "then"), [("120 sec", 0, f"; {ENDS}"), ("0 sec", 1, ""), ("300 sec", 1, "; after 300 s")]
)
def test_what_follows_is_as_the_cluster_and_the_job_have_it(
    cluster: Cluster, timeout: str, requeue: int, then: str
) -> None:
    """The client's contexts are other clusters. A SlurmdTimeout of 0 gives no node up (slurm.conf)."""
    cluster.second("allocated*")
    cluster.slurmd_timeout(timeout, requeue)
    (said,) = (line for line in explain.of(InProcessRemote(), None, "7").lines if "no answer" in line)
    assert said.startswith(f"{NO_ANSWER}{then}") and (then or said == NO_ANSWER)


def test_the_follower_tells_it_once_and_not_while_systemd_restarts_slurmd(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(jobs, "POLL_S", 0.0)
    monkeypatch.setattr(silent, "LOOK_S", 0.0)
    messages: list[str] = []
    watch = jobs.Watch(InProcessRemote(), "7", messages.append, Patience("7", messages.append))
    for state in ("allocated", "allocated*", "allocated", "allocated*", "allocated*", "allocated*", "allocated"):
        cluster.second(state)
        assert not watch.ended()
    runs = "job 7 runs on train-[1-2]"
    assert messages == [runs, f"{runs}; {NO_ANSWER}; {AGAIN}", runs]


def test_the_follower_asks_seldom(cluster: Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(jobs, "POLL_S", 0.0)
    watch = jobs.Watch(InProcessRemote(), "7", print, Patience("7", print))
    cluster.says("sinfo", "")
    calls = cluster.root / "calls"
    (cluster.root / "bin/sinfo").write_text(f"#!/bin/sh\necho call >>{calls}\n")
    for _ in range(3):
        watch.ended()
    assert calls.read_text() == "call\n"
