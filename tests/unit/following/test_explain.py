"""What `why` prints and returns: a headline, the causes, the evidence, and what to do."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from gpucluster import account
from gpucluster.cli.why import entry
from gpucluster.following import explain, slowness
from gpucluster.following.known.cause import Found
from gpucluster.following.known.table import BY_ID
from tests.in_process import InProcessRemote

OUT_OF_GPU = "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB."
Put = Callable[..., Path]


@pytest.fixture
def story(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Put:
    """story(line of squeue, result, log): job 7 on this machine; its folder."""
    (tmp_path / "bin").mkdir()
    monkeypatch.setenv("PATH", f"{tmp_path / 'bin'}:{os.environ['PATH']}")
    monkeypatch.setattr(account, "home", lambda: str(tmp_path))

    def put(squeue: str, result: dict[str, Any] | None = None, log: str = "", sinfo: str = "") -> Path:
        folder = tmp_path / "jobs/by-id/7"
        folder.mkdir(parents=True)
        if result:
            (folder / "result.json").write_text(json.dumps(result))
        (folder / "log.txt").write_text(log)
        for name, said in {"squeue": squeue, "sinfo": sinfo, "scontrol": "", "sacct": ""}.items():
            program = tmp_path / "bin" / name
            program.write_text(f"#!/bin/sh\ncat <<'END'\n{said}\nEND\n")
            program.chmod(0o755)
        return folder

    return put


def of_7() -> explain.Explanation:
    return explain.of(InProcessRemote(), None, "7")


def test_a_failed_job_has_its_cause_after_the_headline(story: Put) -> None:
    result = {"exit_code": 1, "failed_rank": 1, "failed_node": "train-2", "reason": OUT_OF_GPU}
    story("7|FAILED|train|2|train-[1-2]|0:04|UNLIMITED|x|x|raise|None", result, f"[1 train-2] {OUT_OF_GPU}\n")
    found = of_7()
    assert (found.state, found.causes) == ("dead", ("gpu-memory",))
    assert found.headline == f"job 7 failed: rank 1 on train-2 exited with code 1: {OUT_OF_GPU}"
    assert found.sentences[0] == "rank 1 on train-2: the GPU's memory was too small for what the program wanted"
    assert found.lines[-1] == f"what to do: {BY_ID['gpu-memory'].advice}"
    assert entry(found)["explanation"] == found.lines and entry(found)["causes"] == ("gpu-memory",)


def test_evidence_that_the_headline_lacks_is_shown(story: Put) -> None:
    shm = "misc/shmutils.cc:71 NCCL WARN Error: failed to extend /dev/shm/nccl-fjwOOB to 5967876 bytes"
    result = {
        "exit_code": 1,
        "failed_rank": 0,
        "failed_node": "n",
        "reason": "NCCL error in: x, unhandled system error",
    }
    lines = [shm, *(f"line {number}" for number in range(30))]
    story("7|FAILED|train|1|n|0:04|UNLIMITED|x|x|raise|None", result, "".join(f"[0 n] {each}\n" for each in lines))
    assert f"  {shm}" in of_7().sentences


def test_a_timeout_is_a_job_that_hung(story: Put) -> None:
    reason = "rank 2 did not come to all_reduce number 4, in which ranks 0, 1 waited; rank 0 on n says: x"
    story("7|FAILED|train|2|n|0:04|UNLIMITED|x|x|raise|None", {"exit_code": 1, "reason": reason}, "[0 n] step 1\n")
    found = of_7()
    assert (found.state, found.causes) == ("hung", ("rank-missing",))
    assert found.sentences[0] == "the others waited for rank 2, which did not reach the same call"


def test_a_pending_job_has_advice_with_its_own_number(story: Put) -> None:
    story("7|PENDING|train|2||0:00|UNLIMITED|x|N/A|raise|(JobHeldUser)")
    found = of_7()
    assert (found.state, found.causes) == ("pending", ("held-by-user",))
    assert found.lines[-1] == "what to do: `gpucluster ssh -- scontrol release 7` releases it"


def test_a_node_that_is_out_names_its_cause(story: Put) -> None:
    sinfo = "train-1|train|down*|x|Not responding"
    story("7|PENDING|train|1||0:00|UNLIMITED|x|N/A|raise|(ReqNodeNotAvail, UnavailableNodes:train-1)", sinfo=sinfo)
    found = of_7()
    assert found.causes == ("nodes-out", "not-responding")
    assert any(line.startswith("train-1: slurmd on the node does not answer") for line in found.sentences)


def test_a_node_that_is_out_is_no_cause_if_others_suffice(story: Put) -> None:
    sinfo = "train-1|train|down*|x|Not responding\ntrain-2|train|idle|x|none"
    story("7|PENDING|train|1||0:00|UNLIMITED|x|N/A|raise|(Priority)", sinfo=sinfo)
    assert of_7().causes == ()


@pytest.mark.parametrize(("ids", "state"), [((), "running"), (("slow-rank",), "slow"), (("gpu-idle",), "slow")])
def test_a_running_job_is_slow_if_something_shows_it(
    story: Put, monkeypatch: pytest.MonkeyPatch, ids: tuple[str, ...], state: str
) -> None:
    story("7|RUNNING|train|1|train-1|0:04|UNLIMITED|x|x|raise|None", log="[0 n] step 1\n")
    seen = [Found(BY_ID[each], BY_ID[each].words, "70 %", "GPU 0 of train-1") for each in ids]
    monkeypatch.setattr(slowness, "of", lambda *_: slowness.Slowness(seen, ["its disks cannot be told"]))
    found = of_7()
    assert (found.state, found.causes) == (state, ids)
    assert "its disks cannot be told" in found.sentences


def test_a_completed_job_whose_gpus_were_idle(story: Put) -> None:
    folder = story("7|COMPLETED|train|1|n|0:04|UNLIMITED|x|x|raise|None", {"exit_code": 0})
    (folder / "usage/7").mkdir(parents=True)
    (folder / "usage/7/n.json").write_text(json.dumps({"node": "n", "gpus": [{"index": 0, "idle_share": 0.62}]}))
    found = of_7()
    assert (found.state, found.causes) == ("completed", ())
    assert "its GPUs did nothing for 62% of its time" in found.sentences
