"""`gpucluster doctor --node`: what it shows of a node, and how it is refused."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import pytest

from gpucluster.cli import doctor, main
from gpucluster.head.remote import Completed

HEALTHY = {"ok": True, "checks": {"GPUs": [], "DCGM": []}, "skipped": "", "drained": ""}
ILL = {"ok": False, "checks": {"GPUs": ["nvidia-smi lists 7 of 8 GPUs"], "EFA": []}, "skipped": "job 7 has the node"}
"""As a node says it that booted with an older version."""
MEMORY = "dcgmi diag: GPU Memory: Fail - GPU: 0"
DCGM = {"ok": False, "checks": {"GPUs": [], "DCGM": [MEMORY]}, "skipped": "", "drained": ""}


class Head:
    def __init__(self, done: Completed) -> None:
        self.done, self.ran = done, list[Sequence[str]]()

    def run(self, argv: Sequence[str], **options: Any) -> Completed:
        self.ran.append(argv)
        return self.done


@pytest.fixture
def answer(monkeypatch: pytest.MonkeyPatch) -> Head:
    remote = Head(Completed(0, json.dumps(HEALTHY) + "\n", ""))

    @contextmanager
    def opened(context: object) -> Iterator[Head]:
        yield remote

    monkeypatch.setattr(doctor, "head", opened)
    return remote


def test_a_healthy_node(answer: Head, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["doctor", "--node", "train-2"]) == 0
    assert capsys.readouterr().out == "ok       GPUs\nok       DCGM\ntrain-2 is healthy\n"
    assert list(answer.ran[0][-4:]) == ["sudo", "/opt/gpucluster/bin/node-program", "health.look", "--diagnose"]
    assert answer.ran[0][-5] == "train-2"


def test_a_node_that_dcgm_could_not_test_is_not_called_healthy(
    answer: Head, capsys: pytest.CaptureFixture[str]
) -> None:
    answer.done = Completed(0, json.dumps(HEALTHY | {"skipped": "dcgmi did not end within 840 s"}), "")
    assert main(["doctor", "--node", "train-2"]) == 0
    *_, why, summary = capsys.readouterr().out.splitlines()
    assert why == "DCGM's diagnostics could not run: dcgmi did not end within 840 s"
    assert summary == "train-2 passes the checks of its jobs, and nothing more is known"


def test_a_broken_node_says_what_and_what_to_do(answer: Head, capsys: pytest.CaptureFixture[str]) -> None:
    answer.done = Completed(0, json.dumps(ILL), "")
    assert main(["doctor", "--node", "train-2"]) == 1
    first, second, skipped, advice = capsys.readouterr().out.splitlines()
    assert (first, second) == ("broken   GPUs  nvidia-smi lists 7 of 8 GPUs", "ok       EFA")
    assert skipped == "DCGM's diagnostics could not run: job 7 has the node"
    assert advice.startswith("if this lasts, train-2 fails its next job's check and is replaced then; ")
    assert "scontrol update nodename=train-2 state=power_down_asap" in advice


def test_a_node_whose_gpus_fail_dcgm_is_drained_already(answer: Head, capsys: pytest.CaptureFixture[str]) -> None:
    answer.done = Completed(0, json.dumps(DCGM | {"drained": f"health: {MEMORY}"}), "")
    assert main(["doctor", "--node", "train-2"]) == 1
    *_, advice = capsys.readouterr().out.splitlines()
    assert advice.startswith("train-2 is drained: its instance is terminated") and "scontrol" not in advice


def test_no_jobs_check_finds_what_only_dcgm_finds(answer: Head, capsys: pytest.CaptureFixture[str]) -> None:
    """Somebody else has drained the node, or it booted with an older version."""
    answer.done = Completed(0, json.dumps(DCGM), "")
    assert main(["doctor", "--node", "train-2"]) == 1
    *_, advice = capsys.readouterr().out.splitlines()
    assert "its next job's check" not in advice and "state=power_down_asap reason=health` replaces it" in advice


def test_as_json(answer: Head, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["doctor", "--node", "train-2", "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == {"node": "train-2", **HEALTHY}


def test_a_node_that_is_not_up(answer: Head, capsys: pytest.CaptureFixture[str]) -> None:
    answer.done = Completed(255, "", "ssh: connect to host train-2 port 22: No route to host")
    assert main(["doctor", "--node", "train-2"]) not in (0, 1)
    assert "cannot check train-2: exit code 255: ssh: connect to host" in capsys.readouterr().err


def test_what_is_no_nodes_name_never_reaches_a_shell(answer: Head, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["doctor", "--node", "train-2; reboot"]) == 2
    assert "must be a node's name such as train-1" in capsys.readouterr().err
    assert answer.ran == []
