"""`output`, the second place of a job's log: what is refused, and what sbatch's filename patterns become."""

from __future__ import annotations

import os
import pwd
from typing import Any

import pytest

from gpucluster.config import loads
from gpucluster.errors import JobSpecError
from gpucluster.job import SbatchRequest, load, log_place
from gpucluster.job.sbatch_options import refusal
from gpucluster.layout import expand
from gpucluster_job.log_place import filled_in

CLUSTER = "name: Test\nregion: us-east-1\npartitions: [{name: train, instance_types: [g5.12xlarge], max_nodes: 4}]\n"
LAYOUT = expand(loads(CLUSTER))
ON_NODE = {"SLURM_JOB_ID": "31", "SLURM_JOB_NAME": "big-one", "SLURMD_NODENAME": "train-1"}
ELEMENT = {**ON_NODE, "SLURM_ARRAY_JOB_ID": "29", "SLURM_ARRAY_TASK_ID": "2"}
ME = pwd.getpwuid(os.getuid()).pw_name
MUST = (
    "--output: must be the path of a file such as /fsx/logs/%x-%j.out, or logs/%x-%j.out below your home directory on "
    "the cluster, got "
)
ALLOWED = (
    "allowed: %j the job's id, %x its name, %A the array's id, %a the element's index, %u your user name, %N the job's "
    "first node, %% a percent sign; %4j is at least 4 digits"
)


def script(**keys: Any) -> str:
    spec = load(LAYOUT, flags={"command": ("python", "train.py")} | keys)
    return SbatchRequest.from_spec(spec, LAYOUT, "/jobs/a").materialize()


def refused(output: Any, **keys: Any) -> str:
    with pytest.raises(JobSpecError) as caught:
        script(output=output, **keys)
    (notice,) = caught.value.problems
    return f"{notice.key}: {notice.message} | {notice.hint or ''}"


@pytest.mark.parametrize(
    ("pattern", "environment", "path"),
    [
        ("logs/%x-%j.out", ON_NODE, "logs/big-one-31.out"),
        ("%4j-%10j-%11j-%0j", ON_NODE, "0031-0000000031-0000000031-31"),
        ("%A", ON_NODE, "31"),
        ("%A_%a-%3a.%j", ELEMENT, "29_2-002.31"),
        ("100%%/%%j/%%%j", ON_NODE, "100%/%j/%31"),
        ("%u@%N", ON_NODE, f"{ME}@train-1"),
        ("%8x-%9N", ON_NODE, "big-one-train-1"),
    ],
)
def test_what_patterns_become(
    pattern: str, environment: dict[str, str], path: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    assert filled_in(pattern) == path


def test_every_pattern_that_is_accepted_is_replaced(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in ELEMENT.items():
        monkeypatch.setenv(name, value)
    left = {symbol: filled_in(f"%{symbol}") for symbol in log_place.SYMBOLS}
    assert left.pop("%") == "%"
    assert not [value for value in left.values() if "%" in value]


@pytest.mark.parametrize(
    ("output", "line"),
    [
        ("/home/ubuntu/logs/%x-%j.out", "export GPUCLUSTER_OUTPUT=/home/ubuntu/logs/%x-%j.out"),
        ("~/logs/it's mine.out", "export GPUCLUSTER_OUTPUT='logs/it'\"'\"'s mine.out'"),
        ("~//%j.out", "export GPUCLUSTER_OUTPUT=%j.out"),
        (".out", "export GPUCLUSTER_OUTPUT=.out"),
    ],
)
def test_the_script_names_the_place(output: str, line: str) -> None:
    assert f"\n{line}\n" in script(output=output)


def test_a_job_without_the_key_has_one_log() -> None:
    assert "GPUCLUSTER_OUTPUT" not in script()


NO_FILES = ["", "logs/", "/", "logs/..", ".", "~", "~/", "~ben/a.out", "a\nb", "a\0", r"\%j.out", "\udcff"]


@pytest.mark.parametrize("output", NO_FILES)
def test_a_path_that_names_no_file(output: str) -> None:
    assert refused(output) == f"{MUST}{output!r} | "


@pytest.mark.parametrize(
    ("output", "keys", "said"),
    [
        ("%t.out", {}, f"--output: has the unknown pattern %t, got '%t.out' | {ALLOWED}"),
        ("a-%4J", {}, f"--output: has the unknown pattern %4J, got 'a-%4J' | {ALLOWED}"),
        ("100%", {}, f"--output: has the unknown pattern %, got '100%' | {ALLOWED}"),
        ("%4%", {}, f"--output: has the unknown pattern %4%, got '%4%' | {ALLOWED}"),
        (
            "%A_%a.out",
            {},
            "--output: %a is the index of an element, and the job has no array and no sweep, got '%A_%a.out' | "
            "remove %a: %j is the job's id",
        ),
        (
            "logs/%x-%A.out",
            {"array": "0-1"},
            "--output: all 2 elements would write to one file, got 'logs/%x-%A.out' | "
            "add %a, the element's index, such as logs/%x-%A_%a.out",
        ),
        ("logs/%%a.out", {"sweep": {"lr": "1,2,3"}}, "--output: all 3 elements would write to one file"),
        (
            "/tmp/%j.out",
            {},
            "--output: /tmp/%j.out is not on shared storage (/home) | "
            "name a file there, or in your home directory, such as logs/%x-%j.out",
        ),
        (["shards"], {}, "--output: must be one path, got a list | the folders that other tasks read are outputs"),
        ({"a": "/fsx/a"}, {}, "--output: must be one path, got a section | the folders that other tasks read"),
        (5, {}, "--output: must be text, got 5"),
    ],
)
def test_refused(output: Any, keys: dict[str, Any], said: str) -> None:
    assert refused(output, **keys).startswith(said)


@pytest.mark.parametrize("keys", [{"array": "0-1"}, {"sweep": {"lr": "1,2"}}])
@pytest.mark.parametrize("output", ["%x-%a.out", "%j.out"])
def test_elements_with_a_file_each(output: str, keys: dict[str, Any]) -> None:
    assert f"GPUCLUSTER_OUTPUT={output}\n" in script(output=output, **keys)


def test_one_element_needs_no_index() -> None:
    assert "GPUCLUSTER_OUTPUT=a.out\n" in script(output="a.out", array="3")


@pytest.mark.parametrize(("option", "written"), [("--output=a", "--output"), ("--out=a", "--out"), ("-oa", "-o")])
def test_sbatchs_own_option_names_the_key(option: str, written: str) -> None:
    assert refusal(option) == (f"the job's key output sets {written}", "remove it, and set output")
