"""Parts of gpucluster_job without processes: reading files and lines, finding the cause, filling in launch lines."""

from __future__ import annotations

import ast
import builtins
import collections.abc
import json
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from gpucluster_job import ending, failures, launch, log, mpi, network
from gpucluster_job.exports import assignments
from gpucluster_job.failures import Failure
from gpucluster_job.ranks import signals
from gpucluster_job.ranks.last_words import last_words, reason
from gpucluster_job.ranks.program import Lines
from gpucluster_job.roles import steps

PACKAGE = Path(failures.__file__).parent


def failure(at: float, label: str, why: str = "boom") -> Failure:
    return Failure(at, 1, label, "train-1", why)


def test_the_first_failure_that_no_peer_explains_is_the_cause(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GPUCLUSTER_JOB_DIR", str(tmp_path))
    place = failures.folder("run-0")
    monkeypatch.setenv("GPUCLUSTER_FAILURES", place)
    reset, cause = "RuntimeError: Connection reset by peer", "ValueError: bad seed"
    for each in (failure(1.0, "0", reset), failure(3.0, "2", "later"), failure(2.0, "server-1", cause)):
        failures.record(each)
    Path(place, ".4-train-1-9.json").write_text("{")  # one that is just being written
    assert [each.label for each in failures.recorded(place)] == ["server-1", "2", "0"]
    assert failures.recorded(failures.folder("run-0")) == []


@pytest.mark.parametrize(
    ("code", "lines", "why"),
    [
        (1, ["a", "b", " "], "b"),
        (1, ["Traceback (most recent call last):", "  File x", "ValueError: x", "noise"], "ValueError: x"),
        (137, ["last"], "killed by SIGKILL, last line: last"),
        (139, [], "killed by SIGSEGV"),
        (255, ["sys.exit(-1)"], "sys.exit(-1)"),
        (3, [], "it printed nothing"),
    ],
)
def test_why_a_program_ended(code: int, lines: list[str], why: str) -> None:
    assert reason(code, lines) == why


@pytest.mark.parametrize(
    ("code", "lines", "why"),
    [
        (137, ["step 7"], "out of memory: the kernel killed it, last line: step 7"),
        (137, [], "out of memory: the kernel killed it"),
        (139, [], "killed by SIGSEGV"),
        (
            1,
            ["RuntimeError: DataLoader worker (pid 9) is killed by signal: Killed."],
            "RuntimeError: DataLoader worker (pid 9) is killed by signal: Killed. "
            "(memory ran out: the kernel killed a process on this node)",
        ),
    ],
)
def test_why_a_program_ended_on_a_node_whose_memory_ran_out(code: int, lines: list[str], why: str) -> None:
    assert reason(code, lines, short=True) == why


def test_the_jobs_own_limit_of_memory_is_named() -> None:
    said = reason(137, ["step 7"], short=True, limit="8.0 GiB")
    assert said == "out of memory: the kernel killed it at the job's limit of 8.0 GiB on this node, last line: step 7"
    said = reason(1, ["RuntimeError: x"], short=True, limit="8.0 GiB")
    assert said == (
        "RuntimeError: x (the job's limit of 8.0 GiB on this node was reached: the kernel killed a process of it)"
    )


def test_nccls_own_words_are_kept() -> None:
    """https://github.com/pytorch/torchtitan/issues/1224: the message has several lines."""
    error = "torch.distributed.DistBackendError: NCCL error in: NCCLUtils.cpp:77, invalid usage, NCCL version 2.26.5"
    own = "Duplicate GPU detected : rank 0 and rank 1 both on CUDA device 6000"
    lines = ["Traceback (most recent call last):", '  File "x"', error, "ncclInvalidUsage: This usually", "Last error:"]
    assert last_words([f"[rank2]: {line}" for line in [*lines, own]]) == f"{error}; {own}"
    assert last_words([*lines[:2], "ValueError: x", "Last error:", own]) == "ValueError: x"


def test_a_reason_is_one_line_of_bounded_length() -> None:
    assert last_words(["a\tb" + "x" * 2000]) == "a b" + "x" * 997


def printed(monkeypatch: pytest.MonkeyPatch) -> list[bytes]:
    written: list[bytes] = []
    monkeypatch.setattr("gpucluster_job.ranks.program._write", written.append)
    monkeypatch.setattr("gpucluster_job.log.write", written.append)
    return written


def test_lines_of_ranks_are_whole_whatever_the_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    written, lines = printed(monkeypatch), Lines("[0 n] ")
    for piece in (b"one\ntw", b"o\r50%", b"\r\n", b"\xff end"):
        lines.take(piece)
    assert b"".join(written) == b"[0 n] one\n[0 n] two\n[0 n] 50%\n"
    lines.end()
    assert written[-1] == b"[0 n] \xff end\n"
    assert list(lines.last) == [b"one", b"two", b"50%", b"\xff end"]


def test_what_ranks_write_at_once_fits_a_pipe(monkeypatch: pytest.MonkeyPatch) -> None:
    """Ranks of torchrun share one, and what is longer than PIPE_BUF may be mixed."""
    written = printed(monkeypatch)
    Lines("[0 n] ").take(b"x" * 99 + b"\n" + b"y" * 5000 + b"\n" + (b"z" * 99 + b"\n") * 100)
    assert max(len(each) for each in written if b"y" not in each) <= 4096
    assert b"".join(written).count(b"\n") == 102


def test_which_rank_printed_a_line_of_the_log(monkeypatch: pytest.MonkeyPatch) -> None:
    written, output = printed(monkeypatch), log.LauncherOutput()
    output.take(
        b"[0]<stdout>:[0 n] a\n[1,3]<stderr>: [3 m] b\n[server-0 p] c\n[x y] d\nsrun: error: Node failure on n\n"
    )
    output.take(b"last")
    output.take(b"")
    assert b"".join(written).decode().splitlines() == [
        "[0 n] a", "[3 m] b", "[server-0 p] c", "[launcher] [x y] d", "[launcher] srun: error: Node failure on n",
        "[launcher] last",
    ]  # fmt: skip
    assert (output.words.last, output.words.lost_node) == ("last", "n")


def test_variables_are_read_as_a_shell_has_them(tmp_path: Path) -> None:
    own, node = tmp_path / "env.sh", tmp_path / "node.sh"
    own.write_bytes(b"export A='it'\"'\"'s \"$HOME\"\nexport B=2'\nexport B=\nexport C='50%\r\xff'\n")
    node.write_text("[ -v FI_PROVIDER ] || export FI_PROVIDER=efa\n[ -v X ] || export X=a\\ b\n")
    assert list(assignments(str(own))) == [("A", 'it\'s "$HOME"\nexport B=2'), ("B", ""), ("C", "50%\r\udcff")]
    assert list(assignments(str(node))) == [("FI_PROVIDER", "efa"), ("X", "a b")]
    assert list(assignments(str(tmp_path / "none.sh"))) == []


@pytest.fixture
def two_nodes(monkeypatch: pytest.MonkeyPatch) -> None:
    values = {"GPUCLUSTER_JOB_DIR": "/job", "GPUCLUSTER_NODES": "a b", "RANKS_PER_NODE": "4", "SLURM_CPUS_ON_NODE": "9"}
    for name, value in values.items():
        monkeypatch.setenv(name, value)


def test_words_of_the_command_are_never_filled_in(two_nodes: None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SLURM_JOB_ID", "77")
    line = ["x", "-H", "{HOSTS}", "--id={SLURM_JOB_ID}", "--cpus={CPUS_PER_RANK}", "{CONTAINER}"]
    command = ["{HOSTS}", "--", "{COMMAND}"]
    assert launch.argv(line, command) == ["x", "-H", "a:4,b:4", "--id=77", "--cpus=2", *command]


def test_a_command_that_looks_like_a_step_is_not_a_step() -> None:
    command = ["leading", ";", "{COMMAND}", "--"]
    line = ["leashed", "srun", "serve", ";", "leading", "srun", "work", "{COMMAND}", ";"]
    assert steps.steps(line, command) == [(False, ["srun", "serve"]), (True, ["srun", "work", *command])]


def test_the_hostfile_names_each_node_once(monkeypatch: pytest.MonkeyPatch) -> None:
    addresses = {"a": "10.0.0.1", "b": "10.0.0.2", "c": "10.0.0.1"}
    monkeypatch.setattr(mpi, "address_of", addresses.__getitem__)
    assert mpi.hostfile(["a", "b"], "4") == "a slots=4\nb slots=4\n"
    with pytest.raises(network.NetworkError, match=r"^a and c have the same address 10.0.0.1$"):
        mpi.hostfile(["a", "b", "c"], "4")


RANK = ["/usr/bin/python3", "-IS", "/job/lib/gpucluster_job"]


@pytest.mark.parametrize(
    ("words", "found"),
    [
        ([*RANK, "rank", "python", ""], True),
        (["python3", *RANK[1:], "mpi-rank", "python", ""], True),
        ([*RANK, "role", "worker", "leading", "x", ""], True),
        ([*RANK, "role", "server", "leashed", "x", ""], False),
        ([*RANK, "job", "srun", *RANK, "rank", "x", ""], False),
        (["python3", "-IS", "/other/lib/gpucluster_job", "rank", "x", ""], False),
        (["srun", *RANK, "rank", "x", ""], False),
    ],
)
def test_which_processes_stand_beside_ranks(words: list[str], found: bool) -> None:
    assert signals.is_rank(words, "/job/lib/gpucluster_job") == found


OTHER_PYTHON = ("allreduce.py", "wheels.py", "cache.py")
"""The first imports torch, and the job's own Python runs it. The others import boto3, a package of the system's."""


def test_every_module_is_python_3_8_and_imports_nothing_that_is_not_pythons_own() -> None:
    for path in PACKAGE.rglob("*.py"):
        tree = ast.parse(path.read_text(), str(path), feature_version=(3, 8))
        for node in ast.walk(tree):
            names = [each.name for each in node.names] if isinstance(node, ast.Import) else []
            names += [node.module or ""] if isinstance(node, ast.ImportFrom) else []
            for name in (each.partition(".")[0] for each in names if path.name not in OTHER_PYTHON):
                assert name in sys.stdlib_module_names or name == "gpucluster_job", f"{path}: {name}"


BOTH = (PACKAGE, PACKAGE.with_name("gpucluster_train"))
FRAMEWORKS = ("torch", "tensorflow", "mxnet", "horovod", "numpy")
SUBSCRIPTS_OF_3_9 = {
    *dir(builtins),
    *collections.__all__,
    *collections.abc.__all__,
    "Popen",
    "CompletedProcess",
    "PathLike",
}
NAMES_OF_3_9 = {"removeprefix", "removesuffix", "is_relative_to", "with_stem", "to_thread", "bit_count", "pairwise"}
MODULES_OF_3_9 = {"graphlib", "zoneinfo", "tomllib"}


def _after_3_8(tree: ast.AST) -> Iterator[Any]:
    """What no syntax check finds. Annotations are not evaluated."""
    nodes = list(ast.walk(tree))
    typing = [node.names for node in nodes if isinstance(node, ast.ImportFrom) and node.module == "typing"]
    generic = SUBSCRIPTS_OF_3_9 - {each.name for names in typing for each in names}
    annotations = [getattr(node, name, None) for node in nodes for name in ("annotation", "returns")]
    unevaluated = {inner for each in annotations if each for inner in ast.walk(each)}
    for node in nodes:
        match node if node not in unevaluated else None:
            case ast.Subscript(value=ast.Name(id=name) | ast.Attribute(attr=name)) if name in generic:
                yield node
            case ast.AugAssign(op=ast.BitOr()):
                yield node
            case ast.BinOp(op=ast.BitOr(), left=left, right=right):
                yield from [node] * any(isinstance(each, (ast.Dict, ast.Constant)) for each in (left, right))
            case ast.Attribute(attr=name) | ast.alias(name=name) if name in NAMES_OF_3_9 | MODULES_OF_3_9:
                yield node
            case ast.Call(func=ast.Name(id="zip"), keywords=[_, *_]):
                yield node


@pytest.mark.parametrize("package", BOTH, ids=lambda path: path.name)
def test_no_module_uses_what_python_3_8_lacks(package: Path) -> None:
    found = [
        f"{path.relative_to(package)}:{node.lineno}: {ast.unparse(node)}"
        for path in package.rglob("*.py")
        for node in _after_3_8(ast.parse(path.read_text(), str(path), feature_version=(3, 8)))
    ]
    assert found == []


def _python_3_8() -> str | None:
    found = (shutil.which("python3.8"), *map(str, Path.home().glob(".pyenv/versions/3.8.*/bin/python")))
    return next(
        (each for each in found if each and subprocess.run([each, "-V"], capture_output=True).returncode == 0), None
    )


def test_python_3_8_imports_every_module() -> None:
    if not (python := _python_3_8()):
        pytest.skip("no Python 3.8 on this machine")
    modules = [path.relative_to(PACKAGE.parent) for package in BOTH for path in package.rglob("*.py")]
    names = [".".join(path.with_suffix("").parts) for path in modules if path.name != "__main__.py"]
    program = f"""
import importlib, sys
sys.path.insert(0, {str(PACKAGE.parent)!r})
for name in {names!r}:
    try:
        importlib.import_module(name)
    except ModuleNotFoundError as error:
        if error.name.partition(".")[0] not in {FRAMEWORKS!r}:
            print(name, error)
    except Exception as error:
        print(name, error)
"""
    done = subprocess.run([python, "-BIS", "-c", program], capture_output=True, text=True)
    assert (done.stdout, done.stderr) == ("", "")


def test_a_failure_is_plain_json(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GPUCLUSTER_FAILURES", str(tmp_path))
    failures.record(failure(1.5, "2", 'say "ünï"'))
    (path,) = tmp_path.iterdir()
    written = json.loads(path.read_text())
    assert written == {"at": 1.5, "code": 1, "label": "2", "node": "train-1", "reason": 'say "ünï"'}


@pytest.mark.parametrize(
    ("lost", "reason_"),
    [("train-2", "train-2 was lost: EC2 plans instance-stop at {}"), ("train-1", "lost the node train-1")],
)
def test_an_end_that_ec2_has_announced_explains_only_the_loss_of_that_node(
    lost: str, reason_: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    at = "2999-01-31T12:00:00Z"
    shown = f"JobId=7 JobName=x AdminComment=run 0: train-2 was lost: EC2 plans instance-stop at {at} Restarts=0 "
    monkeypatch.setattr(ending, "_shown", lambda settings: shown)
    settings: Any = SimpleNamespace(job_id="7", runs_before=0, log=tmp_path / "log.txt")
    assert ending.stop_reason(settings, 0, lost) == reason_.format(at)


def test_an_elastic_job_that_survived_an_announced_end_is_cancelled_later(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The comment stays, because the job is the same run."""
    shown = "JobId=7 JobName=x AdminComment=run 0: spot-2 was lost: spot: at 2026-01-31T12:00:00Z Restarts=0 "
    monkeypatch.setattr(ending, "_shown", lambda settings: shown)
    settings: Any = SimpleNamespace(job_id="7", runs_before=0, log=tmp_path / "log.txt")
    assert ending.stop_reason(settings, 0, None) == "spot-2 was lost: spot: at 2026-01-31T12:00:00Z"
    assert ending.stop_reason(settings, 0, "spot-2", survives=True) == "cancelled"
