"""A GPU that breaks while jobs run: the lines are those of real machines, in tests/data/health."""

from __future__ import annotations

import re
import threading
from collections.abc import Iterator, Sequence
from datetime import datetime, timedelta
from pathlib import Path

import pytest
from gpucluster_node import slurm
from gpucluster_node.health import answered, facts, failed_jobs, held_gpus, kernel_log, look

LINES = (Path(__file__).resolve().parents[2] / "data/health/xid.txt").read_text().splitlines()
(FALLEN,) = [line for line in LINES if "fallen off" in line]
(UNCONTAINED,) = [line for line in LINES if ": 95," in line]
(AFTER_THE_JOBS,) = [line for line in LINES if "0x4 (Drain" in line]
WHY = "health: Xid 79 of GPU 0000:06:00: the GPU has fallen off the bus"
ONE_GPU = "health: Xid 95 of GPU 0000:01:00: an uncontained memory error"

# cat /proc/driver/nvidia/gpus/0000:62:00.0/information: H100, driver 535.129.03; from notes on GitHub.
# The driver's source has "Device Minor: \t %u" (kernel-open/nvidia/nv-procfs.c).
INFORMATION = """\
Model: \t\t NVIDIA H100 80GB HBM3
IRQ:   \t\t 10
Bus Type: \t PCIe
Bus Location: \t 0000:62:00.0
Device Minor: \t 5
GPU Excluded:\t No
"""

# scontrol show job -d, only the lines that are parsed: a DGX's job, from logs on GitHub.
DETAILS = """\
JobId={job} JobName=bash
   UserId=testuser(1002) GroupId=testuser(1002) MCS_label=N/A
   NodeList={nodes}
   NumNodes=1 NumCPUs=6 NumTasks=1 CPUs/Task=5 ReqB:S:C:T=0:0:*:*
   JOB_GRES=gpu:1
     Nodes={nodes} CPU_IDs=0-5 Mem=0 GRES={gres}
   MinCPUsNode=5 MinMemoryNode=0 MinTmpDiskNode=0

"""


def drain(why: str) -> list[str]:
    return ["scontrol", "update", "nodename=train-2", "state=power_down_asap", f"reason={why}"]


class Node:
    """With eight GPUs, of which the one at 0000:01:00 is /dev/nvidia5."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.jobs, self.ran, self.refuses = folder, list[slurm.Running](), list[list[str]](), ""
        self.details = dict[str, str]()
        self.known("0000:01:00.0", 5)
        self.failed = list[str]()
        self.away = 0
        """So many commands get no answer."""

    def known(self, address: str, minor: int) -> None:
        path = self.folder / "gpus" / address / "information"
        path.parent.mkdir(parents=True)
        path.write_text(INFORMATION.replace("Minor: \t 5", f"Minor: \t {minor}"))

    def job(self, job_id: str, *options: str, restarts: int = 0, gpus: str = "gpu:8(IDX:0-7)") -> None:
        script = self.folder / job_id
        script.write_text("".join(["#!/bin/bash\n", *(f"#SBATCH {option}\n" for option in options), "exec true\n"]))
        self.jobs.append(slurm.Running(job_id, restarts, str(script), job_id))
        self.details[job_id] = DETAILS.format(job=job_id, nodes="train-[1-2]", gres=gpus)

    def run(self, argv: Sequence[str]) -> str:
        if self.away:
            self.away -= 1
            raise slurm.UnansweredError("Unable to contact slurm controller (connect failure)")
        if list(argv[:4]) == ["scontrol", "--details", "show", "job"]:
            return self.details[argv[4]]
        if argv[0] == "squeue":
            assert (
                "--states=all" in argv and "--nodelist=train-2" in argv and f"--Format={failed_jobs._COLUMNS}" in argv
            )
            return "".join(self.failed)
        self.ran.append(list(argv))
        if self.refuses and self.refuses in argv:
            raise slurm.SlurmError("not now")
        return ""

    def end(
        self, job_id: str, gpus: int, ends_in: timedelta = timedelta(seconds=5), reason: str = "NonZeroExitCode"
    ) -> None:
        """Its script fails. slurmctld then says how many GPUs it had, and not which (job_mgr.c: _pack_job_gres)."""
        (job,) = [each for each in self.jobs if each.part == job_id]
        self.jobs.remove(job)
        lines = self.details[job_id].splitlines(keepends=True)
        self.details[job_id] = "".join(line for line in lines if "GRES=" not in line)
        values = {
            "Reason": reason,
            "EndTime": f"{datetime.now() + ends_in:%Y-%m-%dT%H:%M:%S}",
            "tres-alloc": f"cpu=192,mem=2235G,node=2,billing=192,gres/gpu={2 * gpus}",
            "JobID": job_id,
            "RestartCnt": str(job.restarts),
            "State": "COMPLETING",
            "NodeList": "train-2",
            "Command": job.script,
        }
        columns = re.findall(r"([\w-]+):(\d+)\|", failed_jobs._COLUMNS)
        self.failed.append("".join(f"{values.get(name, 'N/A'):{width}}|" for name, width in columns) + "\n")


@pytest.fixture
def node(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Node:
    made = Node(tmp_path)
    monkeypatch.setattr(slurm, "call", made.run)
    monkeypatch.setattr(slurm, "running_on", lambda name: made.jobs if name == "train-2" else [])
    monkeypatch.setattr("socket.gethostname", lambda: "train-2.c.internal")
    monkeypatch.setattr(kernel_log, "TIME", "2026-11-23T07:00:00Z")
    monkeypatch.setattr(kernel_log, "GPUS", tmp_path / "gpus")
    monkeypatch.setattr(facts, "load", lambda: facts.Facts(gpus=8))
    return made


def requeue(job_id: str, run: int = 0, why: str = WHY) -> list[list[str]]:
    comment = f"admincomment=run {run}: train-2 was lost: {why} at 2026-11-23T07:00:00Z"
    return [["scontrol", "update", f"jobid={job_id}", comment], ["scontrol", "requeue", job_id]]


def test_an_error_of_the_whole_node_ends_all_its_jobs(node: Node) -> None:
    node.job("7", gpus="gpu:1(IDX:0)")
    node.job("8", restarts=2, gpus="gpu:1(IDX:1)")
    kernel_log.follow([FALLEN, FALLEN])
    assert node.ran == [*requeue("7"), *requeue("8", 2), drain(WHY)]
    reboot = (
        UNCONTAINED.partition("95,")[0]
        + "154, GPU recovery action changed from 0x0 (None) to 0x2 (Node Reboot Required)"
    )
    node.ran.clear()
    kernel_log.follow([reboot])
    assert [argv for argv in node.ran if "requeue" in argv] == [["scontrol", "requeue", job] for job in ("7", "8")]


@pytest.mark.parametrize("gpus", ["gpu:2(IDX:4-5)", "gpu:h100:4(IDX:3,5-7)", "gpu:8(IDX:0-7)"])
def test_an_error_of_one_gpu_ends_only_the_job_that_has_it(node: Node, gpus: str) -> None:
    node.job("7", gpus="gpu:4(IDX:0-3)")
    node.job("8", gpus=gpus)
    node.job("9", gpus="")
    kernel_log.follow([UNCONTAINED])
    assert node.ran == [*requeue("8", why=ONE_GPU), drain(ONE_GPU)]


def test_of_a_gpu_that_the_driver_does_not_know_only_a_job_with_all_gpus_ends(node: Node) -> None:
    unknown = UNCONTAINED.replace("0000:01:00", "0000:99:00")
    node.job("7", gpus="gpu:4(IDX:0-3)")
    kernel_log.follow([unknown])
    assert node.ran == [drain(ONE_GPU.replace("0000:01:00", "0000:99:00"))]
    node.job("8")
    kernel_log.follow([unknown])
    assert ["scontrol", "requeue", "8"] in node.ran and ["scontrol", "requeue", "7"] not in node.ran


def test_a_gpu_that_works_until_its_reset_ends_no_job(node: Node) -> None:
    """The driver may ask for more soon after: then its job ends, and the node keeps its first reason."""
    node.known("0009:01:00.0", 6)
    node.job("7")
    kernel_log.follow([AFTER_THE_JOBS])
    first = "health: Xid 154 of GPU 0009:01:00: the driver asks for: Drain and Reset"
    assert node.ran == [drain(first)]
    node.ran.clear()
    more = AFTER_THE_JOBS.replace(
        "0x0 (None) to 0x4 (Drain and Reset)", "0x4 (Drain and Reset) to 0x1 (GPU Reset Required)"
    )
    kernel_log.follow([AFTER_THE_JOBS, more])
    assert node.ran == [drain(first), *requeue("7", why=first.replace("Drain and Reset", "GPU Reset Required"))]


def test_a_job_is_found_among_those_of_its_array() -> None:
    text = DETAILS.format(job="12", nodes="train-1", gres="gpu:1(IDX:0)")
    text += DETAILS.format(job="10", nodes="train-2", gres="gpu:1(IDX:3)")
    assert held_gpus.parse(text, "10", "train-2") == ["/dev/nvidia3"]
    assert held_gpus.parse(text, "12", "train-2") == []


def test_a_job_that_shrinks_with_its_nodes_goes_on(node: Node) -> None:
    node.job("7", "--no-kill")
    kernel_log.follow([FALLEN])
    assert node.ran == [drain(WHY)]


def test_what_programs_do_themselves_is_left_alone(node: Node) -> None:
    node.job("7")
    kernel_log.follow([line for line in LINES if ": 31," in line or ": 94," in line or ": 43," in line])
    assert node.ran == []


@pytest.mark.parametrize("refused", ["state=power_down_asap", "jobid=7"])
def test_one_refusal_blocks_nothing_else(node: Node, refused: str) -> None:
    node.job("7")
    node.job("8")
    node.refuses = refused
    kernel_log.follow([FALLEN])
    assert node.ran == [*requeue("7"), *requeue("8"), drain(WHY)]


@pytest.fixture
def pauses(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """Between attempts, without waiting."""
    slept = list[float]()
    monkeypatch.setattr(answered.time, "sleep", slept.append)
    return slept


def test_while_slurmctld_is_away_everything_is_tried_again(node: Node, pauses: list[float]) -> None:
    node.job("7")
    node.away = 8
    kernel_log.follow([FALLEN])
    assert node.ran == [*requeue("7"), drain(WHY)]
    assert pauses == [1, 2, 5, 10, 20, 30, 30, 30]


def test_the_drain_is_tried_again_too(node: Node, pauses: list[float], monkeypatch: pytest.MonkeyPatch) -> None:
    node.job("7")
    real = look.drain

    def drained(why: str) -> None:
        node.away = 0 if pauses[2:] else 1
        real(why)

    monkeypatch.setattr(look, "drain", drained)
    kernel_log.follow([UNCONTAINED])
    assert node.ran == [*requeue("7", why=ONE_GPU), drain(ONE_GPU)] and pauses == [1, 2, 5]


def test_a_job_that_was_requeued_without_an_answer_is_not_requeued_again(
    node: Node, pauses: list[float], monkeypatch: pytest.MonkeyPatch
) -> None:
    """It may already run again on other nodes."""
    node.job("7")
    real = node.run

    def run(argv: Sequence[str]) -> str:
        real(argv)
        if argv[1] == "requeue":
            node.jobs.clear()
            raise slurm.UnansweredError("Unable to contact slurm controller (receive failure)")
        return ""

    monkeypatch.setattr(slurm, "call", run)
    kernel_log.follow([FALLEN])
    assert node.ran == [*requeue("7"), drain(WHY)] and pauses == [1]


def test_a_job_whose_script_failed_while_slurmctld_was_away_runs_again(node: Node, pauses: list[float]) -> None:
    """As soon as slurmctld answers, it learns from slurmstepd that the script has failed."""
    node.job("7")
    node.job("8", gpus="gpu:4(IDX:4-7)")
    node.end("7", 8)
    node.end("8", 4)
    node.away = 3
    kernel_log.follow([UNCONTAINED])
    assert node.ran == [*requeue("7", why=ONE_GPU), drain(ONE_GPU)], "nobody knows whether job 8 used the GPU"
    node.ran.clear()
    kernel_log.follow([FALLEN])
    assert node.ran == [*requeue("7"), *requeue("8"), drain(WHY)], "the whole node is lost"


def test_a_job_that_was_requeued_and_still_completes_is_not_requeued_by_the_next_fault(node: Node) -> None:
    """Its next run would get the comment that this node was lost."""
    node.job("7", restarts=1)
    node.end("7", 8, ends_in=timedelta(minutes=1, seconds=1))
    kernel_log.follow([FALLEN])
    assert node.ran == [drain(WHY)]


def test_a_job_that_ends_before_slurm_is_asked_runs_again(node: Node) -> None:
    """The program on a broken GPU may fail at once."""
    node.job("7")
    node.job("8", gpus="gpu:4(IDX:4-7)")
    node.end("7", 8, ends_in=timedelta(0))
    node.end("8", 4, ends_in=timedelta(0))
    kernel_log.follow([UNCONTAINED])
    assert node.ran == [*requeue("7", why=ONE_GPU), drain(ONE_GPU)], "nobody knows whether job 8 used the GPU"


def test_a_job_that_failed_before_the_fault_stays_ended(node: Node) -> None:
    node.job("7")
    node.end("7", 8, ends_in=timedelta(seconds=-1))
    kernel_log.follow([FALLEN])
    assert node.ran == [drain(WHY)]


def test_a_job_that_its_user_cancelled_stays_cancelled(node: Node) -> None:
    """Slurm shows it as COMPLETING too, with another reason (job_mgr.c: job_complete)."""
    node.job("7")
    node.end("7", 8, reason="None")
    kernel_log.follow([FALLEN])
    assert node.ran == [drain(WHY)]


def test_the_log_is_read_while_slurmctld_is_away(
    node: Node, pauses: list[float], monkeypatch: pytest.MonkeyPatch
) -> None:
    node.job("7", gpus="gpu:1(IDX:5)")
    node.job("8", gpus="gpu:1(IDX:1)")
    read = threading.Event()

    def lines() -> Iterator[str]:
        yield UNCONTAINED
        yield FALLEN
        read.set()

    node.away = 2
    monkeypatch.setattr(answered.time, "sleep", lambda pause_s: read.wait(60) or pytest.fail("nothing was read"))
    kernel_log.follow(lines())
    assert [argv[2] for argv in node.ran if argv[1] == "requeue"] == ["7", "7", "8"]
    assert [argv for argv in node.ran if "nodename=train-2" in argv] == [drain(ONE_GPU)]


def test_it_gives_up_when_slurm_would_have_forgotten_the_job(
    node: Node, pauses: list[float], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert answered.LONGEST_S >= 600
    monkeypatch.setattr(answered, "LONGEST_S", -1.0)
    node.job("7")
    node.away = 2
    kernel_log.follow([FALLEN])
    assert node.ran == [] and pauses == []
