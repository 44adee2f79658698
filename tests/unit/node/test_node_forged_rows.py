"""Paths of scripts that their users wrote to forge records of other users' jobs, which root would requeue or signal.

`squeue` here prints as the real one does: a path as it is, padded to its width (print.c: _print_str). It takes its
format from the variables as the real one does, if no option has one (src/squeue/opts.c: parse_command_line, in
github.com/SchedMD/slurm): SQUEUE_FORMAT before SQUEUE_FORMAT2.
"""

from __future__ import annotations

import json
import os
import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from gpucluster_node import record_ends, scripts, slurm
from gpucluster_node.health import failed_jobs, held_gpus, journal, xid

SQUEUE = f"""#!{sys.executable}
import json, os, pathlib, re, sys
pathlib.Path(__file__ + ".argv").write_text("\\n".join(sys.argv))
jobs = json.loads(pathlib.Path(__file__ + ".json").read_text())
long = next((word.partition("=")[2] for word in sys.argv if word.startswith("--Format=")), "")
short = next((word.partition("=")[2] for word in sys.argv if word.startswith("--format=")), "")
if not long + short:
    short = os.environ.get("SQUEUE_FORMAT", "")
    long = "" if "SQUEUE_FORMAT" in os.environ else os.environ["SQUEUE_FORMAT2"]
for job in jobs:
    if long:
        fields = (re.fullmatch(r"([\\w-]+):(\\d+)(.*)", each).groups() for each in long.split(","))
        text = "".join(job[name][: int(width)].ljust(int(width)) + suffix for name, width, suffix in fields)
    else:
        text = re.sub("%(.)", lambda found: job[found[1]], short)
    sys.stdout.buffer.write(text.encode("utf-8", "surrogateescape") + b"\\n")
"""
SEPARATORS = [*"\n\r\v\f\x1c\x1d\x1e\x1f\x85\u2028\u2029|\t ", "\r\n"]
FORGED = "2|N/A|N/A|N/A|0|RUNNING|train-2|/home/bob/z"
PATHS = [
    *(f"/home/alice/x{each}{FORGED}" for each in SEPARATORS),
    *(f"/home/alice/x{each}{FORGED.replace('|0|', '|x|')}{each}" for each in SEPARATORS),
    f"/home/alice/x\n{FORGED.replace('|', ' ' * 9 + '|')}|\n",
    "/home/alice/\udcff\udcfe",
    "/home/alice/" + "y" * 5000,
    "",
]
JOB = {
    **{"JobID": "5", "HetJobID": "N/A", "ArrayJobID": "5", "ArrayTaskID": "N/A", "RestartCnt": "0"},
    **{"State": "RUNNING", "NodeList": "train-2", "Reason": "NonZeroExitCode", "tres-alloc": "", "tres-per-node": ""},
    **{"A": "5", "F": "5", "K": "N/A", "T": "RUNNING", "r": "None"},
}


def queue(folder: Path, *paths: str, **fields: str) -> None:
    now = f"{datetime.now():%Y-%m-%dT%H:%M:%S}"
    jobs = [
        JOB | fields | {"EndTime": now, "Command": path, "o": path, "JobID": str(number), "A": str(number)}
        for number, path in enumerate(paths, start=5)
    ]
    (folder / "squeue.json").write_text(json.dumps(jobs))


@pytest.fixture(autouse=True)
def _real(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """The end of records is baked into the formats."""
    monkeypatch.setattr(record_ends, "END", slurm.RUNNING_COLUMNS.rpartition("|")[2])
    (tmp_path / "squeue").write_text(SQUEUE)
    (tmp_path / "squeue").chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")


@pytest.mark.parametrize("path", PATHS, ids=[ascii(path[:24]) for path in PATHS])
def test_a_path_is_one_jobs_path(tmp_path: Path, path: str) -> None:
    queue(tmp_path, "/home/bob/a", path, "/home/bob/c")
    assert len(record_ends.END) == 16
    assert [job.job_id for job in slurm.running_on("train-2")] == ["5", "6", "7"]
    assert [job.part for job in slurm.queued()] == ["5", "6", "7"]
    listed = slurm.queued()[1].script
    assert listed == path
    assert slurm.running_on("train-2")[1].script == path[:4000].rstrip(" ")


@pytest.mark.parametrize("path", PATHS, ids=[ascii(path[:24]) for path in PATHS])
def test_a_path_is_one_failed_jobs_path(tmp_path: Path, path: str) -> None:
    queue(tmp_path, "/home/bob/a", path, State="FAILED")
    since = datetime.now(UTC) - timedelta(minutes=1)
    assert [job.job_id for job in failed_jobs.on("train-2", since)] == ["5", "6"]


def test_a_record_that_does_not_fit_is_left_out_alone(tmp_path: Path) -> None:
    queue(tmp_path, "/home/bob/a", RestartCnt="x")
    assert slurm.running() == []


def test_a_comment_is_read_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """A job's name may be `x AdminComment=run 0: …`."""
    said = {("squeue", "--noheader", "--jobs=7", "--Format=AdminComment:40"): "run 0: train-1 was lost: spot\n"}
    monkeypatch.setattr(slurm, "call", lambda argv: said[tuple(argv)])
    assert slurm.has_comment(slurm.Running("7", 0, ""))
    assert not slurm.has_comment(slurm.Running("7", 1, ""))


@pytest.mark.timeout(20)
def test_a_script_that_is_exchanged_for_a_pipe_stops_nobody(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "link").symlink_to("pipe")
    (tmp_path / "zero").symlink_to("/dev/zero")
    for name in ("pipe", "link", "zero", "none", "."):
        assert scripts.text(slurm.Running("7", 0, str(tmp_path / name))) == ""
    assert scripts.text(slurm.Running("7", 0, "/home/a\0b")) == ""
    (tmp_path / "script").write_bytes(b"#SBATCH --no-kill\n\xff" + bytes(1 << 20))
    assert scripts.shrinks(scripts.text(slurm.Running("7", 0, str(tmp_path / "script"))))


def test_users_do_not_see_the_end_of_records(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Everybody reads the arguments of root's processes in /proc/PID/cmdline, and the programs' logs."""
    monkeypatch.setenv("SQUEUE_FORMAT", "%j")
    for ask in (
        lambda: slurm.running_on("train-2"),
        slurm.queued,
        lambda: failed_jobs.on("train-2", datetime.now(UTC)),
    ):
        queue(tmp_path, "/home/bob/a")
        ask()
        assert record_ends.END not in (tmp_path / "squeue.argv").read_text()
        (tmp_path / "squeue.json").write_text("broken")
        with pytest.raises(slurm.SlurmError) as refused:
            ask()
        assert record_ends.END not in str(refused.value).splitlines()[0]


@pytest.mark.parametrize("seconds", ["9" * 14, "9" * 5000, "65536", "", "x"])
def test_a_signals_time_that_slurm_would_refuse_is_slurms_default(seconds: str) -> None:
    """It may stand anywhere in the file: Slurm reads options only before the first command, once."""
    assert scripts.signal_before(f"#SBATCH --signal=B:USR1@{seconds}\n") == timedelta(seconds=60)
    assert scripts.signal_before("#SBATCH --signal=B:USR1@65535\n") == timedelta(seconds=65535)


# Of `scontrol --details show job`, where a job's name is printed as it is.
FORGED_GRES = [
    "Nodes={node}[b] CPU_IDs=0 GRES=gpu(IDX:0)",
    "Nodes=train-[0-999999999999] CPU_IDs=0 GRES=gpu(IDX:0)",
    f"Nodes=train-[{'9' * 5000}] CPU_IDs=0 GRES=gpu(IDX:0)",
    "Nodes=train-2 CPU_IDs=0 GRES=gpu(IDX:0-999999999999)",
    f"Nodes=train-2 CPU_IDs=0 GRES=gpu(IDX:{'9' * 5000})",
    "Nodes=train-2 CPU_IDs=0 GRES=gpu(IDX:3-,-4,,5--6)",
    f"Nodes=train-2 CPU_IDs=0 GRES={'gpu-' * 20_000}",
    f"Nodes=train-2 CPU_IDs=0 GRES=gpu(IDX:{','.join(['0-999'] * 2_000)})",
    f"Nodes={','.join(['train-[0-99999]'] * 2_000)} CPU_IDs=0 GRES=gpu(IDX:1)",
]


@pytest.mark.timeout(20)
@pytest.mark.parametrize("forged", FORGED_GRES, ids=[each[:40] for each in FORGED_GRES])
def test_a_name_that_forges_gpus_neither_ends_nor_stops_the_reader(forged: str) -> None:
    real = "   JOB_GRES=gpu:1\n     Nodes=train-[1-2] CPU_IDs=0-5 Mem=0 GRES=gpu:1(IDX:7)\n   MinCPUsNode=1\n\n"
    text = f"JobId=7 JobName=x\n     {forged}\n   UserId=alice(1002)\n{real}"
    assert "/dev/nvidia7" in held_gpus.parse(text, "7", "train-2")
    assert len(held_gpus.parse(text, "7", "train-2")) <= 1001


XID = "NVRM: Xid (PCI:0000:00:1b): 79, pid='<unknown>', name=<unknown>, GPU has fallen off the bus."


@pytest.mark.parametrize("separator", ["", " ", *SEPARATORS])
def test_users_text_in_the_kernel_log_is_no_fault(separator: str) -> None:
    """A user in their own namespaces mounts with options of their choice, which overlayfs logs (fs/overlayfs/super.c:
    ovl_mount_dir_noesc, in github.com/torvalds/linux v6.1)."""
    said = f"overlayfs: failed to resolve '{separator}{XID}': -2"
    for message in (said, list(said.encode())):
        assert list(xid.faults(journal.message(json.dumps({"MESSAGE": message})))) == []


@pytest.mark.parametrize(
    "line",
    [
        json.dumps({"MESSAGE": XID}),
        json.dumps({"MESSAGE": list(XID.replace("name=<unknown>", "name=\x1b[2J").encode())}),  # control characters
        json.dumps({"MESSAGE": list(XID.replace("name=<unknown>", "name=").encode() + b"\xff")}),
    ],
)
def test_a_fault_is_found_whatever_its_programs_name(line: str) -> None:
    (fault,) = xid.faults(journal.message(line))
    assert fault.gpu == "0000:00:1b"


@pytest.mark.parametrize(
    "line", ["", "\n", "{", "[]", "null", "3", "{}", '{"MESSAGE": null}', '{"MESSAGE": [300, "x"]}']
)
def test_a_record_without_text_is_none(line: str) -> None:
    assert journal.message(line) == ""
