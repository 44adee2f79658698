"""Names of jobs that their users wrote to forge rows of other jobs, or to break the commands of the administrator.

`squeue` here prints as the real one does: a name as it is (print.c: _print_str), one job after the other.
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

import pytest

from gpucluster.cli import jobs as verb
from gpucluster.following import jobs
from gpucluster.head import records, slurm
from gpucluster.head.queue import parse_jobs
from tests.in_process import InProcessRemote

SQUEUE = f"""#!{sys.executable}
import json, os, pathlib, re, sys
form = os.environ["SQUEUE_FORMAT"]
pathlib.Path(__file__ + ".said").write_text(repr(sys.argv) + form)
for job in json.loads(pathlib.Path(__file__ + ".json").read_text()):
    sys.stdout.buffer.write(re.sub("%(.)", lambda f: job[f[1]], form).encode("utf-8", "surrogateescape") + b"\\n")
"""
OTHER = "7|RUNNING|train|4|train-[1-4]|3-00:00:00|UNLIMITED|2026-11-28T10:00:00|2026-11-28T10:00:00|secret|None"
# What Python (str.splitlines), awk, bash and terminals take for an end of something.
SEPARATORS = [
    "\n",
    "\r",
    "\r\n",
    "\v",
    "\f",
    "\x1c",
    "\x1d",
    "\x1e",
    "\x1f",
    "\x85",
    "\u2028",
    "\u2029",
    "|",
    "\t",
    " ",
]
NAMES = [
    *(f"x{each}{OTHER}" for each in SEPARATORS),
    *(f"{each}{OTHER}{each}" for each in SEPARATORS),
    f"x\n{OTHER.replace('|4|', '|many|')}",
    "x\n\n\n",
    "x\n8|PENDING",
    "x|y|z|(None)",
    "\x1b]52;c;cm0gLXJmIC8K\x07",
    "\udcff\udcfe",
    "x\n%i|" + OTHER,
    "y" * 10_000,
]


def row(job_id: str, name: str) -> dict[str, str]:
    fields = {"i": job_id, "T": "PENDING", "P": "train", "D": "1", "N": "", "M": "0:00", "l": "UNLIMITED"}
    return fields | {"V": "2026-11-28T10:00:00", "S": "N/A", "j": name, "r": "JobHeldUser"}


@pytest.fixture(autouse=True)
def _marked(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(records, "MARKS", True)
    monkeypatch.setenv("SQUEUE_FORMAT2", "name")  # squeue refuses both variables
    (tmp_path / "squeue").write_text(SQUEUE)
    (tmp_path / "squeue").chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")


def queue(tmp_path: Path, *rows: dict[str, str]) -> InProcessRemote:
    (tmp_path / "squeue.json").write_text(json.dumps(rows))
    return InProcessRemote()


@pytest.mark.parametrize("name", NAMES, ids=[ascii(name[:20]) for name in NAMES])
@pytest.mark.parametrize("newest", [True, False])
def test_a_name_is_one_jobs_name(tmp_path: Path, name: str, newest: bool) -> None:
    remote = queue(tmp_path, row("5", "before"), row("6", name), row("9", "after"))
    listed = jobs.current(remote) if newest else parse_jobs(remote.run(slurm.squeue_argv()).stdout)
    assert [(job.job_id, job.state, job.reason) for job in listed] == [
        (number, "PENDING", "JobHeldUser") for number in ("5", "6", "9")
    ]
    assert listed[1].name == name.encode(errors="surrogateescape").decode(errors="replace")


@pytest.mark.parametrize("argv", [slurm.newest_argv(20), slurm.squeue_argv()], ids=["newest", "all"])
def test_the_mark_is_new_for_each_call_and_in_no_argument(tmp_path: Path, argv: list[str]) -> None:
    """Everybody reads the arguments of a process."""
    remote = queue(tmp_path, row("5", "x"))
    marks = set()
    for _ in range(2):
        mark = remote.run(argv).stdout.partition("\n")[0]
        words, _, form = (tmp_path / "squeue.said").read_text().rpartition("]")
        assert form.startswith(f"{mark}|%i|") and len(mark) == 16
        assert mark not in words and mark not in str(argv)
        marks.add(mark)
    assert len(marks) == 2


def test_a_row_whose_numbers_are_none_is_left_out(tmp_path: Path) -> None:
    remote = queue(tmp_path, row("5", "before"), row("6", "x") | {"D": "many"})
    assert [job.job_id for job in jobs.current(remote)] == ["5"]


@pytest.mark.parametrize("name", NAMES, ids=[ascii(name[:20]) for name in NAMES])
def test_a_table_has_a_line_for_each_job_and_nothing_that_a_terminal_obeys(tmp_path: Path, name: str) -> None:
    remote = queue(tmp_path, row("5", "before"), row("6", name))
    lines = verb._table([verb.live(job) for job in jobs.current(remote)])
    assert [line.split()[0] for line in lines] == ["job", "5", "6"]
    assert all(line.isprintable() for line in lines)
