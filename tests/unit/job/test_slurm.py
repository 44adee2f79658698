"""What Slurm prints, as recorded, and what we make of it."""

from __future__ import annotations

import re
from datetime import datetime, timedelta
from pathlib import Path

import pytest
from gpucluster_node import slurm as node_slurm

from gpucluster.following import why
from gpucluster.following.jobs import Ending
from gpucluster.head import queue, slurm
from gpucluster_job.task import check
from localcloud.testing.recorded import record

ROOT = Path(__file__).resolve().parents[3]

SQUEUE = """\
7|RUNNING|train|2|train-[1-2]|0:04|2:00:00|2026-11-21T12:43:20|2026-11-21T12:43:40|digits|None
8|PENDING|train|4||0:00|UNLIMITED|2026-11-21T12:44:00|N/A|odd|name|Resources
9|PENDING|train|1||0:00|UNLIMITED|2026-11-21T12:44:00|2026-11-21T13:00:00|held|JobHeldUser
6|CANCELLED|train|1|train-1|0:10|UNLIMITED|2026-11-21T12:40:00|2026-11-21T12:40:01|x|None
"""

SINFO = """\
train-1|train|allocated|Unknown|none
train-2|train|idle~|Unknown|none
train-3|train|down*|2026-11-21T12:00:00|InsufficientInstanceCapacity: no g5.12xlarge | in us-east-1a
train-4|train|allocated#|Unknown|none
train-5|train|drained$|2026-11-21T11:00:00|step=slurm line=42: slurmd: fatal (log /var/log/gpucluster/boot.log)
big-1|big|mixed-|Unknown|none
"""


def test_jobs():
    running, pending, held, cancelled = queue.parse_jobs(SQUEUE)
    assert (running.job_id, running.state, running.nodes, running.node_list) == ("7", "RUNNING", 2, "train-[1-2]")
    assert (running.elapsed, running.time_limit, running.name, running.reason) == ("0:04", "2:00:00", "digits", "None")
    assert (pending.name, pending.reason, pending.start) == ("odd|name", "Resources", "N/A")
    assert [job.phase for job in (running, pending, held, cancelled)] == ["running", "waiting", "waiting", "done"]


def test_the_parts_of_a_job_are_one_job():
    part = "RUNNING|{}|2|{}|0:04|2:00:00|2026-11-21T12:43:20|2026-11-21T12:43:40|x|None\n"
    text = "12+1|" + part.format("ps", "ps-[1-2]") + "11|" + part.format("train", "train-3")
    other, job = sorted(
        queue.parse_jobs(text + "12+0|" + part.format("train", "train-[1-2]")), key=lambda job: job.job_id
    )
    assert (job.job_id, job.partition, job.nodes, job.node_list) == ("12", "train", 2, "train-[1-2],ps-[1-2]")
    assert (other.job_id, other.node_list) == ("11", "train-3")


def test_nodes():
    nodes = {node.name: node for node in slurm.parse_nodes(SINFO)}
    assert [(node.state, node.mark, node.available) for node in nodes.values()] == [
        ("allocated", "", True), ("idle", "~", True), ("down", "*", False), ("allocated", "#", True),
        ("drained", "$", False), ("mixed", "-", True),
    ]  # fmt: skip
    assert nodes["train-3"].reason == "InsufficientInstanceCapacity: no g5.12xlarge | in us-east-1a"
    assert (nodes["train-1"].reason, nodes["train-1"].since) == ("", "")
    assert nodes["train-4"].words == "allocated (booting)"


@pytest.mark.parametrize("text", ["", "slurm_load_jobs error: Unable to contact slurm controller\n", "|||\n"])
def test_other_text_is_no_job_and_no_node(text):
    assert queue.parse_jobs(text) == []
    assert slurm.parse_nodes(text) == []


@pytest.mark.parametrize(("text", "job_id"), [("12\n", "12"), ("12;cluster\n", "12"), ("lua: hello\n12\n", "12")])
def test_job_id(text, job_id):
    assert slurm.parse_job_id(text) == job_id


@pytest.mark.parametrize("text", ["", "Submitted batch job", "error: no"])
def test_no_job_id(text):
    with pytest.raises(ValueError, match="no job id"):
        slurm.parse_job_id(text)


@pytest.mark.parametrize(
    ("text", "hosts"),
    [
        ("Slurmctld(primary) at head is UP\n", {"head": True}),
        ("Slurmctld(primary) at head is DOWN\n", {"head": False}),
        ("*****************************************\n** RESTORE SLURMCTLD DAEMON TO SERVICE **\n", {}),
    ],
)
def test_ping(text, hosts):
    assert slurm.parse_ping(text) == hosts


@pytest.mark.parametrize(
    ("state", "phase"),
    [("PENDING", "waiting"), ("CANCELLED by 1000", "done"), ("NODE_FAIL", "done"), ("CANCELLED+", "done"),
     ("COMPLETING", "running"), ("SOMETHING_NEW", "unknown"), ("", "unknown")],
)  # fmt: skip
def test_states(state, phase):
    assert slurm.job_state(state).phase == phase


def test_both_tables_of_states_are_slurm_s():
    """The nodes' and the user's, which know each word that squeue can print, and no other."""
    phases = {name: state.phase for name, state in slurm.JOB_STATES.items()}
    assert set(phases) == set(record("slurm/job-states.txt").split())
    having = {name for name, state in slurm.JOB_STATES.items() if state.has_nodes}
    assert having == node_slurm.RUNNING | node_slurm.ENDING
    assert {name for name, phase in phases.items() if phase == "waiting"} - having == node_slurm.WAITING
    assert {name for name, phase in phases.items() if phase == "done"} == node_slurm.OVER
    assert set(check.OVER) == node_slurm.OVER, "the list in the job's runtime, which cannot import that of the nodes"


def test_programs_ask_squeue_for_all_states():
    """squeue asked for some of them misses a job with a flag, such as RUNNING and STOPPED."""
    for folder in ("gpucluster", "bootstrap", "gpucluster_job", "templates", "stacks"):
        for path in (ROOT / folder).rglob("*"):
            if path.is_file() and path.suffix in (".py", ".sh", ".j2"):
                assert not re.search(r"--states=(?!all)", path.read_text()), path


@pytest.mark.parametrize(
    ("reason", "words"),
    [
        ("(Resources)", "it is next in the queue; its nodes are busy or starting"),
        ("ReqNodeNotAvail, UnavailableNodes:train-1", "a node that it needs is down, drained or reserved"),
        ("QOSMaxJobsPerUserLimit", "a limit of its quality of service delays it"),
        ("SomethingNew", "SomethingNew"),
    ],
)
def test_pending_reasons(reason, words):
    assert slurm.pending_reason(reason) == words


def test_argv():
    assert slurm.sbatch_argv("/x/job.sbatch") == ["sbatch", "--parsable", "/x/job.sbatch"]
    assert slurm.scancel_argv("7") == ["scancel", "7"]
    assert slurm.squeue_argv("7")[-1] == "--jobs=7"
    assert slurm.sinfo_argv("train")[-1] == "--partition=train"


def test_why_it_waits():
    job = queue.parse_jobs(SQUEUE)[1]
    nodes = [node for node in slurm.parse_nodes(SINFO) if node.partition == "train"]
    assert list(why.waiting(job, nodes)) == [
        "job 8 is pending: it is next in the queue; its nodes are busy or starting",
        "Slurm says: Resources",
        "it needs 4 of the 5 nodes of train: 1 free, 2 busy or starting, 2 out of service",
        "  train-3 is down (does not respond): InsufficientInstanceCapacity: no g5.12xlarge | in us-east-1a",
        "  train-5 is drained (reserved for maintenance): "
        "step=slurm line=42: slurmd: fatal (log /var/log/gpucluster/boot.log)",
        "it cannot start until enough nodes are in service: "
        "`sudo scontrol update nodename=NAME state=resume` on the head node resumes a node",
        "Slurm does not know yet when it will start",
    ]


def test_a_node_that_is_tried_again_needs_nobody():
    job = queue.parse_jobs(SQUEUE)[1]
    nodes = slurm.parse_nodes(
        "train-3|train|down#|2026-11-21T12:00:00|InsufficientInstanceCapacity; next try in 120 s\n"
    )
    assert any("resume automatically" in line for line in why.waiting(job, nodes))


@pytest.mark.parametrize(
    ("days", "said"),
    [
        (364.9, "Slurm cannot say when it will start: a job before it has no time limit"),
        (40, "expected to start at "),
    ],
)
def test_a_start_after_a_job_without_a_limit_is_no_date(days: float, said: str) -> None:
    start = datetime.now() + timedelta(days=days)
    (job,) = queue.parse_jobs(f"9|PENDING|train|4||0:00|UNLIMITED|x|{start:%Y-%m-%dT%H:%M:%S}|big|(Resources)\n")
    assert list(why.waiting(job, []))[-1].startswith(said)


@pytest.mark.parametrize("start", ["Tomorr 11:30", "2026-11-25T10:00:00+0000"])
def test_a_start_in_another_format(start: str) -> None:
    """man squeue, SLURM_TIME_FORMAT: `relative` prints the weekday, the day or `Tomorr`; `%FT%T%z` has an offset."""
    (job,) = queue.parse_jobs(f"9|PENDING|train|4||0:00|UNLIMITED|x|{start}|big|(Resources)\n")
    assert list(why.waiting(job, []))[-1] == f"expected to start at {start}"


@pytest.mark.parametrize(
    ("text", "refusal"),
    [
        ("sbatch: error: Invalid --signal specification\n", "Invalid --signal specification"),
        ("sbatch: error: lua: hm\nsbatch: error: Batch job submission failed: Invalid qos\n", "lua: hm; Invalid qos"),
        (
            "sbatch: error: lua: You must give --account\nsbatch: error: cli_filter plugin terminated with error\n",
            "lua: You must give --account; cli_filter plugin terminated with error",
        ),
        (
            "sbatch: info: hello\nsbatch: error: QOSMaxSubmitJobPerUserLimit\n"
            "sbatch: error: Batch job submission failed: Job violates accounting/QOS policy (job submit limit, …)\n",
            "QOSMaxSubmitJobPerUserLimit; Job violates accounting/QOS policy (job submit limit, …)",
        ),
        (
            "sbatch: error: Memory specification can not be satisfied\n"
            "sbatch: error: Batch job submission failed: Requested node configuration is not available\n",
            "Memory specification can not be satisfied; Requested node configuration is not available",
        ),
        ("sbatch: error: lua: first\n  second\nsbatch: error: lua: first\nscancel: x\nrest\n", "lua: first; second"),
        ("sbatch: error: hm\nsbatch: error: Batch job submission failed: Unable to contact slurm controller\n", None),
        ("sbatch: error: Batch job submission failed: Unable to contact slurm controller (connect failure)\n", None),
        ("tar: no space left\n", None),
    ],
)
def test_slurms_reasons_against_a_job(text, refusal):
    assert slurm.refusal(text) == refusal


def test_how_far_its_data_is():
    line = "7|PENDING|train|1||0:00|UNLIMITED|x|N/A|digits|(%s)\n"
    (job,) = queue.parse_jobs(line % "BurstBufferStageIn")
    moved = {"stage": "in", "path": "/fsx/data", "done": 3, "total": 40}
    assert list(why.waiting(job, [], moved))[:2] == [
        "job 7 is pending: its data is being loaded from S3: `gpucluster why` shows the progress",
        "3 of 40 files of /fsx/data are loaded from S3",
    ]
    said = "burst_buffer/lua: slurm_bb_data_in: /fsx/data does not exist"
    assert slurm.pending_reason(f"({said})").endswith("scontrol release JOB` tries again: /fsx/data does not exist")


@pytest.mark.parametrize("reason", ["JobHoldMaxRequeue", "launch failure limit exceeded requeued held"])
def test_a_job_that_failed_to_start_too_often_says_who_releases_it(reason):
    """Slurm 23.11 and 24.11, job_mgr.c: _handle_requeue_limit; squeue shows the description if there is one."""
    line = f"7|REQUEUE_HOLD|train|1||0:00|UNLIMITED|x|N/A|digits|({reason})\n"
    said = "\n".join(why.waiting(queue.parse_jobs(line.replace("REQUEUE_HOLD", "PENDING"))[0], []))
    assert "`gpucluster ssh -- sudo scontrol release JOB` tries again" in said
    assert "does not know yet when it will start" not in said
    assert queue.parse_jobs(line)[0].phase == "waiting"
    (limit,) = re.findall(
        r"^MaxBatchRequeue=(\d+)$", (ROOT / "templates/slurm/slurm.conf.j2").read_text(), re.MULTILINE
    )
    assert f"{limit} times" in said


@pytest.mark.parametrize("reason", ["Priority", "Resources", "BeginTime", "ReqNodeNotAvail, UnavailableNodes:train-1"])
def test_other_reasons_are_no_hold(reason):
    assert not slurm.is_held(f"({reason})")
    assert slurm.is_held("(JobHeldUser)") and slurm.is_held("(launch failed requeued held)")


def test_why_it_failed():
    ending = Ending("FAILED", {"exit_code": 3, "failed_rank": 1, "failed_node": "train-2", "reason": "ValueError: x"})
    assert list(why.ended("7", ending, ["[1 train-2] x"])) == [
        "job 7 failed: rank 1 on train-2 exited with code 3: ValueError: x",
        "the last lines of rank 1:",
        "  [1 train-2] x",
    ]
    assert list(why.ended("7", ending, ["[launcher] x"]))[1] == "the end of its log:"
    lost = Ending("FAILED", {"exit_code": 1, "failed_rank": "server-0", "failed_node": "ps-1", "reason": "MemoryError"})
    assert lost.sentence("7") == "job 7 failed: server-0 on ps-1 exited with code 1: MemoryError"
    assert list(why.ended("7", Ending("TIMEOUT", {}), [])) == ["job 7 reached its time limit"]
    assert list(why.ended("7", Ending("COMPLETED", {"exit_code": 0}), ["x"])) == ["job 7 completed"]


def test_a_shell_asks_for_its_share_of_one_node() -> None:
    argv = slurm.shell_argv("train", "train-1", gpus=1, cpus=12, time="1:00:00", pty=True)
    assert argv == [
        *("srun", "--job-name=shell", "--partition=train", "--nodes=1", "--ntasks=1", "--cpus-per-task=12"),
        *("--nodelist=train-1", "--gres=gpu:1", "--time=1:00:00", "--pty", "bash", "--login"),
    ]
    anywhere = slurm.shell_argv("train", None, gpus=0, cpus=1, time=None, pty=False)
    assert anywhere[-3:] == ["--cpus-per-task=1", "bash", "--login"]
