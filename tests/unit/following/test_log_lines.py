"""The lines of a log that the head node chooses: the program runs here as it runs there."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from pathlib import Path

import pytest

from gpucluster.errors import RemoteError, UsageError
from gpucluster.following import log_lines, logs
from gpucluster.following.logs import ALL, Selection
from tests.in_process import InProcessRemote

RECORDS = Path(__file__).parents[3] / "localcloud/machines/guest/usr/share/records"
LOG = """\
[preflight] 2 nodes are fine
[0 train-1] loss 0.5
[1 train-2] loss 0.6
[10 train-2] loss 0.7
[launcher] sending USR1 to the ranks: the job is about to be stopped
[0 train-1] accuracy 0.9
[server-0 train-3] stored
"""


@pytest.fixture
def job(tmp_path, monkeypatch):
    """Writes a job's log, and returns the lines that a selection chooses."""
    monkeypatch.setattr(logs, "folder_of", lambda remote, job_id: str(tmp_path))
    monkeypatch.setattr(logs.jobs, "is_array", lambda remote, job_id: False)

    def chosen(log: bytes | str | None, selection: Selection = ALL, times: str = "") -> list[str]:
        if log is not None:
            (tmp_path / "log.txt").write_bytes(log if isinstance(log, bytes) else log.encode())
        if times:
            (tmp_path / "log.times").write_text(times)
        return list(logs.lines(InProcessRemote(), "12", selection))

    return chosen


def test_without_options_it_is_the_whole_log(job):
    assert job(LOG) == LOG.splitlines()


def test_a_rank_and_a_node_are_whole_words(job):
    assert job(LOG, Selection(rank=1)) == ["[1 train-2] loss 0.6"]
    assert job(LOG, Selection(rank="server-0")) == ["[server-0 train-3] stored"]
    assert job(LOG, Selection(node="train-2")) == ["[1 train-2] loss 0.6", "[10 train-2] loss 0.7"]
    assert job(LOG, Selection(node="train")) == [] == job(LOG, Selection(node=".*"))


def test_the_last_lines_are_counted_after_the_choice(job):
    assert job(LOG, Selection(tail=1)) == ["[server-0 train-3] stored"]
    assert job(LOG, Selection(rank=0, tail=1)) == ["[0 train-1] accuracy 0.9"]
    assert job(LOG, Selection(tail=0)) == []
    assert job(LOG, Selection(grep="loss", tail=2)) == ["[1 train-2] loss 0.6", "[10 train-2] loss 0.7"]


def test_long_lines_are_cut_if_only_their_beginnings_are_asked_for(job):
    log = "[0 n] " + "x" * 3_000_000 + "\n[0 n] é short\n"
    cut, short = job(log, Selection(tail=2, longest=20))
    assert (cut, short) == ("[0 n] " + "x" * 14 + "… (a line of 3,000,007 bytes)", "[0 n] é short")
    (cut,) = job(log, Selection(tail=1, grep="xx", longest=20))
    assert cut.endswith("x… (a line of 3,000,007 bytes)")


def test_the_last_lines_are_found_far_before_the_end(job, monkeypatch):
    log = "[1 train-1] here\n" * 3 + "[0 train-1] elsewhere\n" * 200_000  # 4 MB, more than the first window
    assert job(log, Selection(rank=1, tail=2)) == ["[1 train-1] here"] * 2


def test_an_expression_is_that_of_grep(job):
    assert job(LOG, Selection(grep="(loss|accuracy) 0[.][59]")) == ["[0 train-1] loss 0.5", "[0 train-1] accuracy 0.9"]
    with pytest.raises(UsageError, match=r"--grep: grep: Unmatched \( or"):
        job(LOG, Selection(grep="loss ("))


def test_an_expression_that_never_ends_is_ended(job, monkeypatch):
    """A back-reference makes grep try all divisions of the line."""
    text = Path(log_lines.__file__).read_text().replace("GREP_S = 20", "GREP_S = 1")
    monkeypatch.setattr(logs, "program", lambda: text)
    with pytest.raises(RemoteError, match="grep needs more than 1 s of CPU for 103 bytes"):
        job("a" * 100 + "cb\n", Selection(grep=r"^(a*)(a*)(a*)(a*)\4\3\2\1b$"))


def test_an_expression_that_needs_all_memory_is_ended(job):
    with pytest.raises((UsageError, RemoteError), match="grep"):
        job(LOG, Selection(grep="((((a{1,200}){1,200}){1,200}){1,200})"))


def test_bad_bytes_and_escapes_stay_in_their_lines(job):
    log = b"[0 n] \xff\xfe loss 1\n[0 n] \x1b[31mred\x1b[0m\r50 %\n[0 n] nul \x00 loss 2\n[0 n] no end"
    assert job(log, Selection(grep="loss")) == ["[0 n] \ufffd\ufffd loss 1", "[0 n] nul \x00 loss 2"]
    assert job(log)[1:] == ["[0 n] \x1b[31mred\x1b[0m\r50 %", "[0 n] nul \x00 loss 2", "[0 n] no end"]
    assert job(log, Selection(tail=1)) == ["[0 n] no end"] == job(log, Selection(grep="no end"))


def test_a_line_of_64_mb_is_whole_and_costs_little_memory(job, tmp_path):
    (tmp_path / "log.txt").write_bytes(b"[0 n] first\n[0 n] " + b"x" * 64_000_000 + b"\n[0 n] last\n")
    found = job(None)
    assert [len(line) for line in found] == [11, 64_000_006, 10]
    argv = ["/usr/bin/time", "--format=%M", sys.executable, log_lines.__file__]
    for more in ({}, {"tail": 2}, {"grep": "last"}, {"rank": 0}):
        done = subprocess.run([*argv, json.dumps({"log": str(tmp_path / "log.txt"), **more})], capture_output=True)
        assert int(done.stderr.split()[-1]) < 100_000, more  # KiB


def test_a_job_without_a_log_says_so(job):
    with pytest.raises(UsageError, match="job 12 has no log: there is no file"):
        job(None)


TIMES = "100.0 0 1\n110.0 29 1\n115.0 50 1\n12"  # the end of a line is missing, as on a full disk


def test_times_choose_all_that_may_have_been_written_between_them(job):
    lines = LOG.splitlines()
    assert job(LOG, Selection(since=110.0), TIMES) == lines[1:]
    assert job(LOG, Selection(since=114.9, until=115.0), TIMES) == lines[1:2]
    assert job(LOG, Selection(until=109.0), TIMES) == lines[:1]
    assert job(LOG, Selection(since=116.0), TIMES) == lines[2:]
    assert job(LOG, Selection(since=50.0), TIMES) == lines


def test_a_negative_time_is_before_now_by_the_head_nodes_clock(job):
    now = time.time()
    assert job(LOG, Selection(since=-60.0), f"{now - 100} 0 1\n{now - 70} 29 1\n") == LOG.splitlines()[1:]


def test_runs_of_a_requeued_job_are_apart(job):
    times = "100.0 0 1\n110.0 29 1\n200.0 50 2\n210.0 71 2\n"
    lines = LOG.splitlines()
    assert job(LOG, Selection(run=1), times) == lines[:2]
    assert job(LOG, Selection(run=2), times) == lines[2:]
    with pytest.raises(UsageError, match="job 12 has no such run: its newest is run 2"):
        job(LOG, Selection(run=3))


def test_an_older_jobs_log_has_no_times(job):
    with pytest.raises(UsageError, match="job 12: the log does not say when its lines were written"):
        job(LOG, Selection(since=1.0))


def test_what_an_interrupted_follower_has_read_does_not_come_again(tmp_path):
    log = tmp_path / "log.txt"
    log.write_text(LOG + "[0 train-1] not yet whole")
    asked = {"log": str(log), "follow": True, "rank": 0}
    argv = [sys.executable, log_lines.__file__]
    first = subprocess.run([*argv, json.dumps(asked)], stdin=subprocess.DEVNULL, capture_output=True, text=True)
    _, *lines = first.stdout.splitlines()
    texts = [line.partition(" ")[2] for line in lines]
    assert texts == ["[0 train-1] loss 0.5", "[0 train-1] accuracy 0.9", "[0 train-1] not yet whole"]
    for place, line in enumerate(lines):
        again = subprocess.run(
            [*argv, json.dumps({**asked, "offset": int(line.split()[0])})],
            stdin=subprocess.DEVNULL, capture_output=True, text=True,
        )  # fmt: skip
        assert again.stdout.splitlines()[1:] == lines[place + 1 :]


def test_a_follower_sees_lines_as_they_are_written_and_ends_with_its_input(tmp_path):
    log = tmp_path / "log.txt"
    asked = json.dumps({"log": str(log), "follow": True, "grep": "loss", "tail": 1})
    argv = [sys.executable, log_lines.__file__, asked]
    with subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdin and process.stdout and json.loads(process.stdout.readline()) == {}
        log.write_text("[0 n] loss 1\n")
        assert process.stdout.readline() == "13 [0 n] loss 1\n"
        with log.open("a") as file:
            file.write("[0 n] accuracy\n[0 n] lo")
            file.flush()
            time.sleep(0.5)
            file.write("ss 2\n[0 n] loss, the last")
        assert process.stdout.readline() == "41 [0 n] loss 2\n"
        process.stdin.close()
        assert process.stdout.read() == "61 [0 n] loss, the last\n"
        assert process.wait(10) == 0


def recorded(name: str, first: str) -> list[str]:
    """From this line on, as lines of the job's log."""
    text = (RECORDS / name).read_text(encoding="utf-8")
    return [f"[launcher] {line}" for line in text[text.index(first) :].splitlines()]


def test_a_launchers_report_is_one_line_unless_all_is_asked_for(job):
    summary = recorded("torchrun/childfailed-sigkill.txt", "Traceback (most")[:19]
    assert summary[-1] == f"[launcher] {'=' * 60}"
    own = "[0 train-1] exited with code 137: killed", "[launcher] lost train-2: the ranks start again on 1 node"
    log = "\n".join([own[0], *summary, own[1], "[0 train-1] end"])
    folded = "[launcher] 19 lines of the launcher about failed ranks: `gpucluster logs --all` shows them"
    assert job(log, Selection()) == [own[0], folded, own[1], "[0 train-1] end"]
    assert job(log, Selection(tail=3)) == [folded, own[1], "[0 train-1] end"]
    assert job(log, ALL) == log.splitlines()
    assert job(log, Selection(grep="exitcode")) == ["[launcher]   exitcode  : -9 (pid: 14750)"]


@pytest.mark.parametrize("record", ["mpirun/nonzero-exit.txt", "mpirun/openmpi5-prterun.txt"])
def test_mpirun_reports_between_rules(job, record):
    lines = recorded(record, "-----")
    end = next(place for place, line in enumerate(lines) if place > 6 and line.endswith("-----"))
    assert len(job("\n".join(lines[: end + 1]), Selection())) == 1


def test_other_words_of_a_launcher_stay(job):
    lines = [f"[launcher] srun: error: task {number} could not start" for number in range(20)]
    assert job("\n".join(lines), Selection()) == lines


def test_horovodrun_reports_with_a_traceback_of_its_own(job):
    """The texts of horovod/runner/gloo_run.py (_exec_command_fn, launch_gloo)."""
    said = [
        "Process 1 exit with status code 1.",
        "Terminating remaining workers after failure of Process 1.",
        "Process 0 exit with status code 143.",
        "Traceback (most recent call last):",
        '  File "/opt/gpucluster/env/bin/horovodrun", line 8, in <module>',
        "    sys.exit(run_commandline())",
        "RuntimeError: Horovod detected that one or more processes exited with non-zero status, thus causing the job "
        "to be terminated. The first process to do so was:",
        "Process name: 1",
        "Exit code: 1",
        "",
    ]
    lines = job("\n".join(f"[launcher] {line}" for line in said), Selection())
    assert lines == [
        "[launcher] 9 lines of the launcher about failed ranks: `gpucluster logs --all` shows them",
        "[launcher] ",
    ]


@pytest.mark.parametrize(("record", "count"), [("child-failed", 41), ("agent-sigterm", 31)])
def test_torchrun_reports_as_it_did_here(job, record, count):
    text = (Path(__file__).parents[2] / f"data/torchrun/{record}.txt").read_text(encoding="utf-8")
    lines = [f"[launcher] {line}" for line in text.splitlines()[1:]]
    last = "[launcher] srun: error: train-1: task 0: Exited with exit code 1"
    (folded, *rest) = job("\n".join([*lines, last]), Selection())
    assert folded.startswith(f"[launcher] {count} lines of the launcher") and rest[-1:] == [last]
