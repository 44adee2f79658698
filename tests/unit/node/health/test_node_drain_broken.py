"""A node that a job's preflight found broken is drained after the job, whatever the job's user writes into the file."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest
from gpucluster_node import retry, slurm
from gpucluster_node.health import drain_broken

EPILOG = Path(__file__).resolve().parents[4] / "bootstrap/programs/epilog.d/84-preflight"
SAID = "train-2 has 3 of the 4 GPUs that the job asks for"


@pytest.fixture
def drained(monkeypatch: pytest.MonkeyPatch) -> list[list[str]]:
    """What scontrol was asked after job 12, on train-2."""
    calls: list[list[str]] = []
    monkeypatch.setattr(slurm, "call", lambda argv: calls.append(list(argv)) or "")
    monkeypatch.setattr("socket.gethostname", lambda: "train-2.c.internal")
    monkeypatch.setenv("SLURM_JOB_ID", "12")
    monkeypatch.setenv("SLURM_JOB_UID", str(os.getuid()))
    return calls


@pytest.fixture
def file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    path = tmp_path / "broken-12-train-2"
    path.write_text(f"{SAID}\n")
    monkeypatch.setattr("sys.argv", ["drain_broken", str(path)])
    return path


def test_the_node_is_drained_with_the_preflights_words(drained: list[list[str]], file: Path) -> None:
    drain_broken.main()
    reason = f"reason=health: preflight of job 12: {SAID}"
    assert drained == [["scontrol", "update", "nodename=train-2", "state=power_down_asap", reason]]
    assert not file.exists(), "the job's next run may get the node's next instance"


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("two\nlines\tand\0a \x1b[31mcolour\x7f", "two lines and a [31mcolour"),
        ("bad; next try in 999999 s", "bad, next try in 999999 s"),
        ('a "quote"', "a 'quote'"),
        ("\u202eturned r\u00e4ther", "turned r ther"),
        ("x" * 900, "x" * 228 + "…"),
    ],
)
def test_only_one_plain_line_reaches_slurm(text: str, said: str, drained: list[list[str]], file: Path) -> None:
    file.write_text(text)
    drain_broken.main()
    ((*_, reason),) = drained
    assert reason == f"reason=health: preflight of job 12: {said}"
    assert retry.is_ours(slurm.Node("train-2", frozenset({"DOWN", "DRAIN"}), f"{reason[7:]} : Not responding"))
    assert not retry.is_ours(slurm.Node("train-2", frozenset({"DOWN"}), reason[7:])), "no time of a next try"


def test_a_path_brings_no_line_of_its_own_into_the_log(
    drained: list[list[str]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    folder = tmp_path / "a\n2026-11-28T00:00:00+0000 reconcile INFO all is well\x1b]52;c;\udcff"
    folder.mkdir()
    (folder / "broken").write_text("x" * 1025)
    monkeypatch.setattr("sys.argv", ["drain_broken", str(folder / "broken")])
    drain_broken.main()
    said = capfd.readouterr().out
    assert drained == [] and said.count("\n") == 1 and said.rstrip("\n").isprintable()


def test_what_is_not_the_users_own_small_file_drains_nothing(
    drained: list[list[str]], file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file.write_text("x" * 1025)
    drain_broken.main()
    file.write_text(" \n")
    drain_broken.main()
    (tmp_path / "own").write_text(SAID)
    file.symlink_to(tmp_path / "own")
    drain_broken.main()
    file.unlink()
    os.mkfifo(file)
    drain_broken.main()
    file.unlink()
    file.mkdir()
    drain_broken.main()
    file.rmdir()
    drain_broken.main()
    file.write_text(SAID)
    monkeypatch.setenv("SLURM_JOB_UID", str(os.getuid() + 1))
    drain_broken.main()
    assert drained == [] and file.exists()


def test_the_drain_is_repeated_until_slurm_answers(
    drained: list[list[str]], file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    away = [slurm.UnansweredError("Unable to contact slurm controller (connect failure)")] * 2

    def call(argv: list[str]) -> str:
        if away:
            raise away.pop()
        drained.append(argv)
        return ""

    monkeypatch.setattr(slurm, "call", call)
    monkeypatch.setattr("time.sleep", lambda seconds: None)
    drain_broken.main()
    assert len(drained) == 1


def test_a_refusal_does_not_fail_the_epilog(
    drained: list[list[str]], file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(argv: list[str]) -> str:
        raise slurm.SlurmError("Invalid node name specified")

    monkeypatch.setattr(slurm, "call", refuse)
    drain_broken.main()


def run(folder: Path, node: str) -> list[str]:
    """The epilog's program, with the variables that slurmd 23.11 and 24.11 give it (prep_script_slurmd.c: _build_env).
    Returns the arguments of node-program."""
    program = folder / "node-program"
    program.write_text(f'#!/bin/sh\necho "$@" >>{folder}/calls\nexit 1\n')
    program.chmod(0o755)
    text = EPILOG.read_text()
    assert "/opt/gpucluster/bin/node-program" in text
    script = text.replace("/opt/gpucluster/bin/node-program", str(program))
    variables = {"SLURM_JOB_ID": "12", "SLURM_JOB_WORK_DIR": f"{folder}/a job/code", "SLURMD_NODENAME": node}
    subprocess.run(["sh", "-c", script], env={"PATH": os.environ["PATH"]} | variables, check=True)
    calls = folder / "calls"
    return calls.read_text().splitlines() if calls.exists() else []


def test_the_epilog_looks_only_for_its_own_node(tmp_path: Path) -> None:
    place = tmp_path / "a job/preflight"
    place.mkdir(parents=True)
    (place / "broken-12-train-2").write_text(SAID)
    assert run(tmp_path, "train-1") == []
    assert run(tmp_path, "train-2") == [f"health.drain_broken {place}/broken-12-train-2"], "and it never fails"
