"""The command line's frame: what is printed where, the exit codes, no tracebacks, and that it stays quick."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path
from types import SimpleNamespace
from typing import NoReturn

import click
import pytest

from gpucluster import errors
from gpucluster.cli import HIDDEN, VERBS, main
from gpucluster.config import load, loads

ROOT = Path(__file__).resolve().parents[3]
BAD = ROOT / "tests" / "data" / "config" / "invalid" / "efa-required.yaml"
PROGRAM = [sys.executable, "-m", "gpucluster.cli"]
ENVIRONMENT = {**os.environ, "PYTHONPATH": str(ROOT)}

Captured = pytest.CaptureFixture[str]


def run(*arguments: str, cwd: Path = ROOT) -> subprocess.CompletedProcess[str]:
    return subprocess.run([*PROGRAM, *arguments], capture_output=True, text=True, cwd=cwd, env=ENVIRONMENT, timeout=60)


def verb_that_raises(monkeypatch: pytest.MonkeyPatch, error: BaseException) -> None:
    """Puts a verb `explode` beside the real ones."""

    @click.command()
    def command() -> NoReturn:
        raise error

    monkeypatch.setitem(VERBS, "explode", "Fails.")
    monkeypatch.setitem(sys.modules, "gpucluster.cli.explode", SimpleNamespace(command=command))


@pytest.mark.parametrize(
    ("error", "code", "printed"),
    [
        (errors.GpuClusterError("odd"), 1, "error: odd\n"),
        (errors.UsageError("no file x", "name one"), 2, "error: no file x\nhint: name one\n"),
        (errors.ConfigError([errors.Notice("error", "a.yaml", 2, 1, "b", "no")]), 2, "a.yaml:2:1: error: b: no\n"),
        (errors.CapacityError("no g5.12xlarge left"), 3, "error: no g5.12xlarge left\n"),
        (errors.DeployError("step=slurm line=42: no"), 3, "error: step=slurm line=42: no\n"),
        (errors.NotDeployedError("no cluster GpuCluster"), 3, "error: no cluster GpuCluster\n"),
        (errors.JobFailedError("rank 1 on train-2 exited with 3"), 4, "error: rank 1 on train-2 exited with 3\n"),
        (KeyboardInterrupt(), 130, "interrupted\n"),
        (click.UsageError("no"), 2, "error: no\n"),
        (SystemExit(7), 7, ""),
    ],
    ids=repr,
)
def test_each_error_has_its_exit_code_and_one_message(
    error: BaseException, code: int, printed: str, monkeypatch: pytest.MonkeyPatch, capsys: Captured
) -> None:
    verb_that_raises(monkeypatch, error)
    assert main(["explode"]) == code
    captured = capsys.readouterr()
    assert captured.err.lstrip("\n").startswith(printed)
    assert captured.out == ""
    assert "Traceback" not in captured.err


def test_an_unexpected_error_is_one_line_with_a_way_to_report_it(
    monkeypatch: pytest.MonkeyPatch, capsys: Captured
) -> None:
    verb_that_raises(monkeypatch, KeyError("nodes"))
    assert main(["explode"]) == 1
    assert capsys.readouterr().err.startswith(
        "error: unexpected KeyError: 'nodes'\nhint: run it again with `gpucluster --debug"
    )


@pytest.mark.parametrize("error", [errors.AwsError("denied"), KeyError("nodes")], ids=repr)
def test_debug_shows_where(error: Exception, monkeypatch: pytest.MonkeyPatch, capsys: Captured) -> None:
    verb_that_raises(monkeypatch, error)
    main(["--debug", "explode"])
    assert "Traceback" in capsys.readouterr().err


def test_every_error_class_is_in_the_tree_of_the_docstring() -> None:
    classes = [value for value in vars(errors).values() if isinstance(value, type) and issubclass(value, Exception)]
    assert len(classes) >= 11
    assert [cls.__name__ for cls in classes if cls.__name__ not in (errors.__doc__ or "")] == []


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["sumbit"], "error: no such verb: 'sumbit', did you mean 'submit'?"),
        (["frobnicate"], "error: no such verb: 'frobnicate'\n"),
        (["validate", "--jsno"], "error: no such option: --jsno"),
        (["--nope"], "error: no such option: --nope"),
        (["validate", "a", "b"], "error: unexpected argument: b\n"),
        (["validate", "/no/such.yaml"], "/no/such.yaml: error: no such file"),
        (["-c", str(BAD), "validate"], f"{BAD}:7:10: error: partitions[0].efa: 'required' needs"),
        ([], "Usage: gpucluster"),
    ],
)
def test_the_users_slips_exit_with_2(arguments: list[str], message: str, capsys: Captured) -> None:
    assert main(arguments) == 2
    captured = capsys.readouterr()
    assert captured.err.startswith(message)
    assert captured.out == ""


def test_help_lists_every_verb_and_each_verb_has_a_module(capsys: Captured) -> None:
    assert main(["--help"]) == 0
    printed = capsys.readouterr().out
    assert all(f"  {verb} " in printed for verb in VERBS)
    modules = {path.stem for path in (ROOT / "gpucluster" / "cli").rglob("*.py")}
    assert [verb for verb in (*VERBS, *HIDDEN) if verb.replace("-", "_") not in modules] == []
    assert [verb for verb in HIDDEN if f"  {verb} " in printed] == []


@pytest.mark.parametrize("verb", [*VERBS, *HIDDEN])
def test_each_verb_has_a_help_text(verb: str, capsys: Captured) -> None:
    assert main([verb, "--help"]) == 0
    assert f"Usage: gpucluster {verb}" in capsys.readouterr().out


def test_help_imports_next_to_nothing() -> None:
    """The goal is 60 ms of CPU. Imports cost the most, and they can be counted also on a busy machine."""
    code = "import sys; from gpucluster.cli import main; main(['--help']); print(*sys.modules, file=sys.stderr)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env=ENVIRONMENT, timeout=60)
    loaded = {name.partition(".")[0] for name in done.stderr.split()}
    assert not loaded & {
        "pydantic",
        "ruamel",
        "rich",
        "boto3",
        "botocore",
        "jinja2",
        "paramiko",
        "asyncio",
        "importlib_metadata",
    }
    assert [name for name in done.stderr.split() if name.startswith("gpucluster.config")] == []


def test_version() -> None:
    done = run("--version")
    assert (done.returncode, done.stdout.startswith("gpucluster ")) == (0, True)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_ctrl_c_says_so_and_exits_with_130(tmp_path: Path, number: signal.Signals) -> None:
    """A real signal in a real process: a named pipe as the file holds `validate` while it reads."""
    if signal.getsignal(number) is signal.SIG_IGN:  # tests under nohup, whose children keep it
        signal.signal(number, signal.SIG_DFL)
    pipe = tmp_path / "cluster.yaml"
    os.mkfifo(pipe)
    argv, printed = [*PROGRAM, "validate", str(pipe)], ""
    with subprocess.Popen(argv, stderr=subprocess.PIPE, text=True, env=ENVIRONMENT) as process:
        with pipe.open("w"):  # returns when the program has opened it for reading
            for _ in range(6):  # a signal right before the call that reads is noted, and the call still waits
                time.sleep(0.1)
                process.send_signal(number)
                with suppress(subprocess.TimeoutExpired):
                    _, printed = process.communicate(timeout=10)
                    break
        process.kill()
    assert (process.returncode, printed.strip()) == (130, "interrupted")


def test_a_closed_pipe_is_no_error(tmp_path: Path) -> None:
    read, write = os.pipe()
    os.close(read)
    done = subprocess.run([*PROGRAM, "--help"], stdout=write, stderr=subprocess.PIPE, text=True, env=ENVIRONMENT)
    os.close(write)
    assert done.stderr == ""


def test_validate_prints_one_line_for_a_good_file(capsys: Captured) -> None:
    assert main(["validate", str(ROOT / "cluster.yaml")]) == 0
    captured = capsys.readouterr()
    assert captured.out == f"{ROOT}/cluster.yaml: ok: GpuCluster in us-east-1, train (0 to 4 x g5.12xlarge)\n"
    assert captured.err == ""


def test_validate_counts_parameter_servers_as_a_partition(capsys: Captured) -> None:
    assert main(["validate", str(ROOT / "examples" / "p3-beegfs-mxnet.yaml")]) == 0
    assert "train (8 to 8 x p3.16xlarge), ps (0 to 16 x m4.16xlarge); " in capsys.readouterr().out


def test_validate_json_contains_the_problems(capsys: Captured) -> None:
    assert main(["validate", "--json", str(BAD)]) == 2
    captured = capsys.readouterr()
    report = json.loads(captured.out)
    assert (report["valid"], report["file"], captured.err) == (False, str(BAD), "")
    assert [(each["line"], each["column"], each["key"], each["validator"]) for each in report["errors"]] == [
        (7, 10, "partitions[0].efa", "efa-required-needs-efa-types")
    ]


def test_validate_json_of_a_good_file(capsys: Captured) -> None:
    assert main(["validate", "--json", str(ROOT / "cluster.yaml")]) == 0
    assert json.loads(capsys.readouterr().out) == {
        "file": str(ROOT / "cluster.yaml"),
        "valid": True,
        "errors": [],
        "warnings": [],
        "silenced": [],
    }


def test_the_environment_names_the_file_and_the_flag_wins(monkeypatch: pytest.MonkeyPatch, capsys: Captured) -> None:
    monkeypatch.setenv("GPUCLUSTER_CONFIG", str(BAD))
    assert main(["validate"]) == 2
    assert main(["-c", str(ROOT / "cluster.yaml"), "validate"]) == 0


def test_init_writes_a_file_that_is_valid_and_overwrites_nothing(tmp_path: Path, capsys: Captured) -> None:
    path = tmp_path / "cluster.yaml"
    assert main(["-c", str(path), "init"]) == 0
    assert capsys.readouterr().out.splitlines()[-1] == str(path)
    config = load(path)
    assert config.warnings() == []
    path.write_text("mine")
    assert main(["init", str(path)]) == 2
    assert path.read_text() == "mine"
    assert capsys.readouterr().err.startswith(f"error: {path} already exists\nhint: ")


def test_init_where_nothing_can_be_written(tmp_path: Path, capsys: Captured) -> None:
    assert main(["init", str(tmp_path / "no" / "folder.yaml")]) == 2
    assert "cannot be written: there is no folder" in capsys.readouterr().err


def test_the_starter_builds_the_default_cluster() -> None:
    from gpucluster.cli.init import STARTER

    assert loads(STARTER).model_dump() == load(ROOT / "cluster.yaml").model_dump()


def test_doctor_json_names_each_check_and_what_it_is_needed_for(capsys: Captured) -> None:
    assert main(["doctor", "--json"]) == 0
    checks = {check["name"]: check for check in json.loads(capsys.readouterr().out)["checks"]}
    assert checks["python"]["ok"] is True
    assert {"node", "cdk", "aws credentials"} <= set(checks)
    assert all(check["advice"] for check in checks.values() if not check["ok"])


def test_doctor_says_what_to_do_about_missing_credentials(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Captured
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SHARED_CREDENTIALS_FILE", "AWS_CONFIG_FILE"):
        monkeypatch.delenv(name, raising=False)
    assert main(["doctor"]) == 0
    captured = capsys.readouterr().out
    assert "needed for AWS: run `aws sso login` or `aws configure`" in captured
    summary = captured.splitlines()[-1]
    assert summary.endswith("not for AWS") or "AWS" in summary.removeprefix("not ready for ").split(", ")
