"""Commands of people who know other tools, and machines that are full, interrupted or half set up."""

from __future__ import annotations

import errno
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from gpucluster.cli import VERBS, coloured, main
from gpucluster.errors import LONGEST_MESSAGE, ConfigError, Notice

ROOT = Path(__file__).resolve().parents[3]
ENVIRONMENT = {**os.environ, "PYTHONPATH": str(ROOT)}
CLUSTER = (ROOT / "cluster.yaml").read_text()

Captured = pytest.CaptureFixture[str]


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "cluster.yaml").write_text(CLUSTER)
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("GPUCLUSTER_CONFIG", raising=False)
    return tmp_path


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["plan", "big.yaml"], "hint: gpucluster plan -c big.yaml\n"),
        (["why", "abc"], "command line: error: JOB_ID: must be a job ID such as 12, or the name of a"),
        (["logs", "-f", "abc"], "command line: error: JOB_ID: must be a job ID such as"),
        (["cancel", "12", "x"], "command line: error: JOB_ID...: must be a job ID such as"),
        (["down", "--export", "--discard"], "error: --export and --discard contradict each other"),
        (["queue"], "use `gpucluster jobs`"),
        (["launch"], "use `gpucluster up` for a cluster, or `gpucluster submit`"),
        (["big.yaml"], "-c big.yaml selects a cluster file, `gpucluster submit big.yaml` submits a job"),
        (["init", "--list", "fsdp"], "error: --list takes no FILE, got fsdp\n"),
        (["init", "sub/"], "error: sub is a folder\nhint: name the file: gpucluster init sub/cluster.yaml\n"),
        (["data", "verify", "-c", "no.yaml", "s3://a/b", "c"], "error: unexpected argument: c"),
    ],
)
def test_a_mistyped_command_is_answered_with_the_right_one(
    folder: Path, words: list[str], told: str, capsys: Captured
) -> None:
    assert main(words) == 2
    assert told in capsys.readouterr().err
    assert sorted(path.name for path in folder.iterdir()) == ["cluster.yaml"]


@pytest.mark.parametrize("verb", VERBS)
def test_every_verb_takes_the_cluster_file(verb: str, capsys: Captured) -> None:
    parts = {"context": "add", "data": "shard", "env": "build", "head": "replace", "image": "list"}
    assert main([verb, *filter(None, [parts.get(verb)]), "--help"]) == 0
    assert "-c, --config FILE" in capsys.readouterr().out


def test_the_cluster_file_after_the_verb_wins(folder: Path, capsys: Captured) -> None:
    (folder / "big.yaml").write_text(CLUSTER.replace("GpuCluster", "Big"))
    assert main(["-c", "cluster.yaml", "validate", "-c", "big.yaml"]) == 0
    assert capsys.readouterr().out.startswith("big.yaml: ok: Big in")


def test_the_nearest_cluster_file_is_taken_and_named(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: Captured
) -> None:
    (folder / "a" / "b").mkdir(parents=True)
    monkeypatch.chdir(folder / "a" / "b")
    (folder / "a" / "b" / "train.py").touch()
    assert main(["submit", "--dry-run", "--", "python", "train.py"]) == 0
    assert capsys.readouterr().err == f"cluster file: {folder}/cluster.yaml\n"
    assert main(["init"]) == 0
    assert (folder / "a" / "b" / "cluster.yaml").exists()


def test_validate_reads_stdin() -> None:
    command = [sys.executable, "-m", "gpucluster.cli", "validate", "-"]
    done = subprocess.run(command, input="name: 3\n", capture_output=True, text=True, env=ENVIRONMENT, timeout=60)
    assert (done.returncode, done.stderr.startswith("<stdin>:1:")) == (2, True)


def test_validate_reads_stdin_that_is_not_utf_8() -> None:
    command = [sys.executable, "-m", "gpucluster.cli", "validate", "-"]
    done = subprocess.run(command, input="name: Größe\n".encode("latin-1"), capture_output=True, env=ENVIRONMENT)
    assert (done.returncode, done.stderr) == (2, b"<stdin>: error: the file is not UTF-8 text: byte 8 is 0xf6\n")


def test_a_full_disk_is_not_reported_as_a_bug(folder: Path) -> None:
    with open("/dev/full", "w") as full:
        command = [sys.executable, "-m", "gpucluster.cli", "validate"]
        done = subprocess.run(command, stdout=full, stderr=subprocess.PIPE, text=True, env=ENVIRONMENT, timeout=60)
    assert (done.returncode, done.stderr) == (1, f"error: {os.strerror(errno.ENOSPC)}\n")


@pytest.mark.parametrize("after_s", [0.02, 0.05, 0.1])
def test_ctrl_c_while_it_loads_prints_no_traceback(folder: Path, after_s: float) -> None:
    """Before our first line runs, Python itself would print a traceback, so the test waits for that line."""
    program = "import gpucluster.start as start; print('here', flush=True); raise SystemExit(start.main())"
    command = [sys.executable, "-c", program, "plan"]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=ENVIRONMENT)
    assert process.stdout and process.stdout.readline() == "here\n"
    time.sleep(after_s)
    process.send_signal(signal.SIGINT)
    _, told = process.communicate(timeout=60)
    assert "Traceback" not in told
    assert process.returncode in (0, 130, -signal.SIGINT)


def test_long_values_and_long_lists_are_cut() -> None:
    long = Notice("error", "a.yaml", 1, 1, "name", "x" * 200_000)
    assert len(long.render()) < LONGEST_MESSAGE
    many = ConfigError([Notice("error", "a.yaml", each, 1, "name", "odd") for each in range(1, 301)])
    assert len(many.render().splitlines()) == 51
    assert many.render().endswith("and 250 more; `gpucluster validate --json` lists all")


def test_errors_are_red_on_a_terminal_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("NO_COLOR", raising=False)
    assert coloured("a.yaml:1:1: error: name: odd") == "a.yaml:1:1: \x1b[31m\x1b[1merror:\x1b[0m name: odd"
    assert coloured("no warning here: error") == "no warning here: error"
    monkeypatch.setenv("NO_COLOR", "1")
    assert coloured("error: x") == "error: x"


def test_plan_shows_what_needs_no_aws_where_aws_does_not_answer(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: Captured
) -> None:
    for name, value in {
        "AWS_ACCESS_KEY_ID": "a", "AWS_SECRET_ACCESS_KEY": "b", "AWS_ENDPOINT_URL": "http://127.0.0.1:1",
        "AWS_MAX_ATTEMPTS": "1",
    }.items():  # fmt: skip
        monkeypatch.setenv(name, value)
    assert main(["plan"]) == 3
    out, err = capsys.readouterr()
    assert "g5.12xlarge" in out
    assert "error: http://127.0.0.1:1/ does not answer" in err


@pytest.mark.parametrize(("require", "code"), [(None, 0), ("aws", 1), ("local", 0)])
def test_doctors_exit_code_can_gate_a_script(
    require: str | None, code: int, monkeypatch: pytest.MonkeyPatch, capsys: Captured
) -> None:
    from gpucluster.cli import doctor

    lacking = doctor.Check("aws credentials", False, "none", "aws configure", "AWS")
    monkeypatch.setattr(doctor, "_user_side", lambda: iter([lacking]))
    monkeypatch.setattr(doctor, "_local_cloud", lambda: iter([]))
    assert main(["doctor", "--json", *(["--require", require] if require else [])]) == code
    assert len(json.loads(capsys.readouterr().out)["checks"]) == 1


@pytest.mark.parametrize("verb", ["context", "data", "env", "head", "image"])
def test_a_groups_help_shows_whole_sentences(verb: str, capsys: Captured) -> None:
    assert main([verb, "--help"]) == 0
    assert "..." not in capsys.readouterr().out.partition("Commands:")[2]


def test_completion_of_a_value() -> None:
    words = {
        "_GPUCLUSTER_COMPLETE": "bash_complete",
        "COMP_WORDS": "gpucluster submit --launcher tor",
        "COMP_CWORD": "3",
    }
    command = [sys.executable, "-m", "gpucluster.cli"]
    program = (
        "import sys; sys.argv = ['gpucluster']; from gpucluster.cli import cli; "
        "from gpucluster.cli.frame.context import "
    )
    program += "CliContext; cli.main(prog_name='gpucluster', obj=CliContext())"
    command = [sys.executable, "-c", program]
    done = subprocess.run(command, capture_output=True, text=True, env={**ENVIRONMENT, **words}, timeout=60)
    assert done.stdout == "plain,torchrun\n"
