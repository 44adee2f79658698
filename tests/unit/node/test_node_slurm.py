from __future__ import annotations

import timeit
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from gpucluster_node import retry, slurm
from gpucluster_node.beegfs import head
from gpucluster_node.beegfs.state import Settings, State
from gpucluster_node.health import aside, failed_jobs, look
from gpucluster_node.notices import spot
from gpucluster_node.power import announced, reconcile

LINE = (
    "NodeName=train-1 Arch=x86_64 CoresPerSocket=1 CPUAlloc=0 CPUTot=48 Gres=gpu:a10g:4 NodeAddr=10.0.1.5 "
    "NodeHostName=train-1 State=DOWN+CLOUD+POWERING_UP ThreadsPerCore=1 Partitions=train "
    "Reason=step=mpi line=5: no mpirun (log /var/log/gpucluster/boot.log); next try in 300 s [root@2026-11-21T12:00:00]"
)


def test_parse_nodes_reads_states_and_reason() -> None:
    (node,) = slurm.parse_nodes(LINE + "\n\n")
    assert (node.name, node.address) == ("train-1", "10.0.1.5")
    assert node.states == {"DOWN", "CLOUD", "POWERING_UP"}
    why = "step=mpi line=5: no mpirun (log /var/log/gpucluster/boot.log); next try in 300 s"
    assert node.reason == why
    assert node.reason_time == datetime(2026, 11, 21, 12, 0, 0)


def test_parse_nodes_without_reason() -> None:
    (node,) = slurm.parse_nodes("NodeName=ps-2 Arch=x86_64 State=IDLE*+CLOUD+POWERED_DOWN Partitions=ps")
    assert node == slurm.Node("ps-2", frozenset({"IDLE", "NOT_RESPONDING", "CLOUD", "POWERED_DOWN"}))


def test_the_time_to_parse_a_node_is_in_proportion_to_its_line() -> None:
    """reconcile parses all nodes every 5 s. Once a pattern took 0.6 ms for each line without Extra."""

    def seconds(length: int) -> float:
        line = f"NodeName=train-1 State=IDLE+CLOUD+POWERED_DOWN OS={'x' * length}"
        return min(timeit.repeat(lambda: slurm.parse_nodes(line), number=1, repeat=5))

    assert seconds(40_000) < 1000 * seconds(400)  # in proportion, it is at most 100 times as long


@pytest.mark.parametrize(
    ("shown", "states"),
    [
        ("IDLE+CLOUD+POWERED_DOWN+POWER_UP", {"IDLE", "CLOUD", "POWERED_DOWN", "POWER_UP"}),
        ("IDLE+CLOUD+POWER_UP", {"IDLE", "CLOUD"}),
    ],
    ids=["asked for", "up: its last instance answered before Slurm launched another one"],
)
def test_a_request_to_power_up_counts_while_the_node_is_off(shown: str, states: set[str]) -> None:
    (node,) = slurm.parse_nodes(f"NodeName=train-1 Arch=x86_64 State={shown} Partitions=train")
    assert node.states == states


@pytest.mark.parametrize(
    ("hostlist", "names"),
    [
        ("train-1", ["train-1"]),
        ("train-[1-3]", ["train-1", "train-2", "train-3"]),
        ("train-[1,3-4],ps-1", ["train-1", "train-3", "train-4", "ps-1"]),
        ("gpu-large-[9-11],ps-[1-2]", ["gpu-large-9", "gpu-large-10", "gpu-large-11", "ps-1", "ps-2"]),
        ("n[08-10]", ["n08", "n09", "n10"]),
        ("", []),
    ],
)
def test_expand(hostlist: str, names: list[str]) -> None:
    assert slurm.expand(hostlist) == names


def test_update_argv() -> None:
    argv = slurm.update_argv(["train-1", "train-2"], state="down", reason="a b")
    assert argv == ["scontrol", "update", "nodename=train-1,train-2", "state=down", "reason=a b"]


def at(reason: str, seconds_ago: int) -> tuple[slurm.Node, datetime]:
    since = datetime(2026, 1, 1)
    return slurm.Node("train-1", frozenset({"DOWN"}), reason, since), since + timedelta(seconds=seconds_ago)


@pytest.mark.parametrize(
    ("reason", "seconds_ago", "due"),
    [
        (retry.reason("no capacity", 30), 29, False),
        (retry.reason("no capacity", 30), 30, True),
        ("bad GPU, do not touch", 59, False),
        ("Not responding", 59, False),
        ("Not responding", 60, True),
        (retry.reason("no capacity", 30) + " : Not responding", 59, False),
        (retry.reason("no capacity", 30) + " : Not responding", 60, True),
        ("health: no GPU : Not responding : ResumeTimeout reached", 119, False),
        ("health: no GPU : Not responding : ResumeTimeout reached", 120, True),
        ("bad GPU : do not touch", 9999, False),
    ],
)
def test_a_failed_node_is_retried_at_the_time_in_its_reason(reason: str, seconds_ago: int, due: bool) -> None:
    node, now = at(reason, seconds_ago)
    assert retry.is_due(node, now) is due


SILENT = " : Not responding"


@pytest.mark.parametrize(
    ("reason", "flags", "due"),
    [
        ("bad GPU, do not touch" + SILENT, "DOWN+CLOUD", True),
        ("bad GPU, do not touch" + SILENT, "DOWN+CLOUD+DRAIN", False),
        ("bad GPU, do not touch" + SILENT, "DOWN+CLOUD+FAIL", False),
        ("bad GPU : do not touch" + SILENT, "DOWN+CLOUD+DRAIN", False),
        ("bad GPU, do not touch : Not responding : ResumeTimeout reached", "DOWN+CLOUD+DRAIN", False),
        ("my own health: no GPU" + SILENT, "DOWN+CLOUD+DRAIN", False),
        ("gpucluster up --drain" + SILENT, "DOWN+CLOUD+DRAIN", False),
        ("Not responding", "DOWN+CLOUD+DRAIN", True),
        ("Not responding : ResumeTimeout reached", "DOWN+CLOUD+DRAIN", True),
        (retry.reason("no capacity", 30) + SILENT, "DOWN+CLOUD+DRAIN", True),
        ("health: no GPU" + SILENT, "DOWN+CLOUD+DRAIN", True),
        ("health: dcgmi : diag" + SILENT, "DOWN+CLOUD+DRAIN", True),
        ("health: no GPU : Not responding : ResumeTimeout reached", "DOWN+CLOUD+DRAIN", True),
    ],
)
def test_a_silent_node_that_a_user_has_drained_is_left_to_the_user(reason: str, flags: str, due: bool) -> None:
    node = slurm.Node("train-1", frozenset(flags.split("+")), reason, datetime(2026, 1, 1))
    assert retry.is_due(node, datetime(2026, 1, 1, 1)) is due
    assert retry.is_ours(node) is due


AT = datetime(2026, 1, 1, tzinfo=UTC)
EVENT = {"Events": [{"Code": "instance-stop", "NotBefore": AT}]}
RAM = Settings("/ram", "cluster", "train", ("train-1",), "s3://b/data", None, "8", 150)


@pytest.mark.parametrize(
    "reason",
    [
        *(end.words for end in announced._events(EVENT)),
        announced._block({"CapacityReservationId": "cr-1", "EndDate": AT}).words,
        spot.parse('{"action": "terminate", "time": "2026-01-01T00:00:00Z"}').words,
        spot.REBALANCED,
        f"{announced.FAILING}: system status impaired",
        f"{aside.OWN}root tests its GPUs with gpucluster doctor --node",
        look.reason(["no GPU"]),
        reconcile.OLD,
        head._reason(RAM, State("1", "building", "train-1 is down", "", ())),
        head._reason(RAM, State("1", "filling", "new", "", ())),
        "step=scripts/x.sh: it exited with status 1: no (log /var/log/gpucluster/scripts/x.sh.log)",
        "step=job_lustre_mount line=7: mount: /x: no route (log /var/log/gpucluster/boot.log)",
    ],
)
def test_a_silent_node_that_a_program_has_drained_is_tried_again(reason: str) -> None:
    node = slurm.Node("train-1", frozenset({"DOWN", "DRAIN"}), f"{reason}{SILENT}", datetime(2026, 1, 1))
    assert retry.is_due(node, datetime(2026, 1, 1, 1))


def test_nodes_with_slurms_own_reasons_are_retried_eventually() -> None:
    node = slurm.Node("train-1", frozenset({"DOWN"}), "ResumeTimeout reached", datetime(2026, 1, 1))
    assert retry.is_due(node, datetime(2026, 1, 1, 1))


def test_a_reason_is_one_line_without_quotes() -> None:
    assert retry.reason('no "x"\nhere', 5) == "no 'x' here; next try in 5 s"


# `squeue --Format` of slurm._REQUEUED, Slurm 24.11.
REQUEUED = """\
12        |12        |N/A     |1   |BeginTime           |2026-11-22T10:19:11 |2026-11-22T10:21:12 |small         |
13        |13        |N/A     |0   |BeginTime           |2026-11-22T10:19:11 |2026-11-22T10:21:12 |small         |
14        |14        |N/A     |2   |Resources           |2026-11-22T10:19:11 |2026-11-22T10:21:12 |small         |
15        |15        |N/A     |1   |BeginTime           |2026-11-22T10:19:11 |2026-11-23T10:00:00 |small,train   |
16        |16        |N/A     |1   |BeginTime           |2026-11-22T10:19:11 |N/A                 |small         |
31        |29        |4       |1   |BeginTime           |2026-11-22T10:19:11 |2026-11-22T10:21:12 |small         |
29        |29        |9       |1   |BeginTime           |2026-11-22T10:19:11 |2026-11-22T10:21:12 |small         |
33        |33        |3-8     |0   |BeginTime           |2026-11-22T10:19:11 |2026-11-22T10:21:12 |small         |
"""


def test_jobs_that_slurm_requeued_and_that_wait_for_their_begin_time() -> None:
    found = slurm.parse_requeued(REQUEUED)
    jobs = [(job.job_id, sorted(job.partitions)) for job in found]
    assert jobs == [("12", ["small"]), ("15", ["small", "train"]), ("29_4", ["small"]), ("29_9", ["small"])]
    assert found[0].begins - found[0].submitted == timedelta(seconds=121)


@pytest.mark.parametrize(
    ("body", "kind"),
    [
        ("echo 'slurm_reconfigure error: Socket timed out on send/recv operation' >&2; exit 1", slurm.UnansweredError),
        ("sleep 60", slurm.UnansweredError),
        ("echo 'slurm_reconfigure error: Unspecified error' >&2; exit 1", slurm.SlurmError),
    ],
)
def test_a_call_without_an_answer_is_distinguished_from_a_refused_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, body: str, kind: type[slurm.SlurmError]
) -> None:
    (tmp_path / "scontrol").write_text(f"#!/bin/sh\n{body}\n")
    (tmp_path / "scontrol").chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=":")
    monkeypatch.setattr(slurm, "TIMEOUT_S", 1)
    with pytest.raises(slurm.SlurmError) as caught:
        slurm.reconfigure()
    assert type(caught.value) is kind


ALLOCATED = "cpu=192,mem=2235G,node=2,billing=192,gres/gpu=16"


def failed_line(
    job: str, state: str, reason: str, end: str, allocated: str = ALLOCATED, asked: str = "gres/gpu:8"
) -> str:
    """A line of failed_jobs._COLUMNS."""
    gpus = (allocated.ljust(400), asked.ljust(200))
    fields = (f"{reason:<20}", end.ljust(20), *gpus, job.ljust(12), *[f"{'N/A':<12}"] * 3, "1   ")
    return "|".join((*fields, state.ljust(14), "train-2".ljust(4000), f"/home/ubuntu/{job}.sh".ljust(4000))) + "|"


def test_jobs_that_failed_since_a_moment_are_distinguished_from_cancelled_ones() -> None:
    since = datetime(2026, 11, 25, 12, 0, 0).astimezone()
    before, after = "2026-11-25T11:59:59", "2026-11-25T12:00:07"
    lines = [
        failed_line("7", "COMPLETING", "NonZeroExitCode", after),
        failed_line("8", "FAILED", "NonZeroExitCode", after),
        failed_line("9", "FAILED", "NonZeroExitCode", before),
        failed_line("10", "COMPLETING", "None", after),
        failed_line("11", "COMPLETED", "None", after),
        failed_line("12", "PENDING", "NonZeroExitCode", "N/A"),
        failed_line("13", "RUNNING", "None", after),
    ]
    until = since + timedelta(seconds=30)
    found = failed_jobs.parse("\n".join(["slurm: a warning", *lines]), since, until)
    assert [(job.job_id, job.restarts, job.script) for job in found] == [
        ("7", 1, "/home/ubuntu/7.sh"),
        ("8", 1, "/home/ubuntu/8.sh"),
    ]
    assert failed_jobs.parse("\n".join(lines), since.astimezone(UTC), until.astimezone(UTC)) == found


def test_a_job_that_was_requeued_while_it_completed_has_not_failed_again() -> None:
    """PENDING|COMPLETING: Slurm shows COMPLETING, the old reason, and an end of now and its time limit of a minute."""
    since = datetime(2026, 11, 25, 12, 0, 0).astimezone()
    requeued = failed_line("7", "COMPLETING", "NonZeroExitCode", "2026-11-25T12:01:30")
    assert failed_jobs.parse(requeued, since, since + timedelta(seconds=30)) == []
    assert len(failed_jobs.parse(requeued, since, since + timedelta(seconds=80))) == 1, "the head's clock is ahead"


@pytest.mark.parametrize(
    ("allocated", "asked", "gpus"),
    [
        (ALLOCATED, "N/A", 8),
        ("cpu=8,mem=1M,node=1,billing=8,gres/gpu=4,gres/gpu:a100=4", "gres/gpu:a100:4", 4),
        ("cpu=8,mem=1M,node=3,billing=8,gres/gpu=23", "N/A", 7),
        ("cpu=8,mem=1M,node=2,billing=8", "gres/gpu:8", 8),
        ("cpu=8,mem=1M,node=2,billing=8", "gres:gpu:a100:8", 8),
        ("cpu=8,mem=1M,node=2,billing=8", "N/A", 0),
    ],
)
def test_a_failed_job_says_how_many_gpus_it_had(allocated: str, asked: str, gpus: int) -> None:
    """Without accounting, Slurm counts no GPUs. Before 23.11, a request begins with gres:."""
    since = datetime(2026, 11, 25, 12, 0, 0).astimezone()
    line = failed_line("7", "FAILED", "NonZeroExitCode", "2026-11-25T12:00:07", allocated, asked)
    (job,) = failed_jobs.parse(line, since, since + timedelta(seconds=30))
    assert job.gpus == gpus


@pytest.mark.parametrize(
    "said",
    [
        "slurm_update error: Unable to contact slurm controller (connect failure)",
        "slurm_load_jobs error: Unable to contact slurm controller (receive failure)",
        "slurm_update error: Socket timed out on send/recv operation",
        "Zero Bytes were transmitted or received",
    ],
)
def test_no_answer_is_not_a_refusal(said: str) -> None:
    with pytest.raises(slurm.UnansweredError):
        slurm.call(["sh", "-c", f"echo '{said}' >&2; exit 1"])
    with pytest.raises(slurm.SlurmError) as refused:
        slurm.call(["sh", "-c", "echo 'slurm_update error: Invalid node name specified' >&2; exit 1"])
    assert not isinstance(refused.value, slurm.UnansweredError)
