"""What `gpucluster init --template` writes: a cluster and a job that fit, and a program that compiles."""

from __future__ import annotations

import ast
import json
import re
from pathlib import Path

import pytest
from ruamel.yaml import YAML

from gpucluster.cli import main
from gpucluster.config import loads
from gpucluster.job import load
from gpucluster.job.templates import templates
from gpucluster.layout import expand

ROOT = Path(__file__).resolve().parents[3]
NAMES = sorted(templates())
Captured = pytest.CaptureFixture[str]


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("GPUCLUSTER_CONFIG", raising=False)
    return tmp_path


@pytest.mark.parametrize("name", NAMES)
def test_a_templates_files_are_accepted_unchanged(
    name: str, folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: Captured
) -> None:
    assert main(["init", "--template", name]) == 0
    assert capsys.readouterr().out == f"{name}\n"
    monkeypatch.chdir(folder / name)
    assert main(["validate"]) == 0, capsys.readouterr().err
    assert main(["submit", "job.yaml", "--dry-run"]) == 0, capsys.readouterr().err
    lines = capsys.readouterr().err.splitlines()
    assert [line for line in lines if not line.startswith("packages on top of the environment torch: ")] == []
    programs = list(Path().glob("*.py"))
    assert programs
    for program in programs:
        ast.parse(program.read_text(), str(program))
    assert not [path for path in Path().iterdir() if f"examples/{name}" in path.read_text()]


@pytest.mark.parametrize("name", NAMES)
def test_its_page_says_how_to_run_it_and_what_to_change_for_gpus(name: str) -> None:
    text = (ROOT / "examples" / name / "README.md").read_text()
    assert re.match(r"# \S.{20,100}\n", text)
    assert f"gpucluster submit examples/{name}/job.yaml --follow" in text
    assert "**8 × H100:**" in text


LARGE = expand(
    loads(
        "name: Test\nregion: us-east-1\nstorage: [{mount: /fsx, type: fsx-lustre}]\n"
        "partitions: [{name: train, instance_types: [p5.48xlarge], max_nodes: 2, placement_group: none}]\n"
        "software: {frameworks: [torch, horovod, tensorflow]}\n"
    )
)


@pytest.mark.parametrize("name", [name for name in NAMES if name != "hello"])
def test_what_its_page_says_to_change_for_gpus_is_a_job_with_time_and_state_of_its_own(name: str, folder: Path) -> None:
    recipe = ROOT / "examples" / name
    page = (recipe / "README.md").read_text().partition("**8 × H100:**")[2]
    small = YAML(typ="safe").load((recipe / "job.yaml").read_text())
    changed = small | {key: YAML(typ="safe").load(value) for key, value in re.findall(r"`([a-z_]+): ([^`]+)`", page)}
    (folder / "job.yaml").write_text(json.dumps(changed))
    spec = load(LARGE, folder / "job.yaml")
    assert (spec.gpus_per_node, spec.time) == (8, "12:00:00")
    other = re.findall(r"`--name ([^`]+)`", page)
    assert len(other) == 1 and load(LARGE, folder / "job.yaml", {"name": other[0]}).name != small["name"]


@pytest.mark.parametrize("name", ["hello", "keras"])
def test_an_example_that_is_asked_for_is_the_templates_cluster(name: str, folder: Path, capsys: Captured) -> None:
    """The template keras has a cluster file of its own."""
    assert main(["init", "--template", name, "--example", "g5-spot"]) == 0
    assert (folder / name / "cluster.yaml").read_text() == (ROOT / "examples/g5-spot.yaml").read_text()


def test_templates_and_examples_are_listed(capsys: Captured) -> None:
    assert main(["init", "--list"]) == 0
    out = capsys.readouterr().out
    assert re.search(r"^--template +fsdp +FSDP: ", out, re.MULTILINE)
    assert re.search(r"^--example +g5-spot +Spot capacity for jobs that can be requeued$", out, re.MULTILINE)


def test_a_template_takes_the_cluster_of_an_example(folder: Path) -> None:
    assert main(["init", "--template", "fsdp", "--example", "p5-capacity-block", "mine"]) == 0
    assert (folder / "mine" / "cluster.yaml").read_text() == (ROOT / "examples/p5-capacity-block.yaml").read_text()


def test_a_template_overwrites_nothing(folder: Path, capsys: Captured) -> None:
    (folder / "fsdp").mkdir()
    (folder / "fsdp" / "train.py").write_text("mine")
    assert main(["init", "--template", "fsdp"]) == 2
    assert capsys.readouterr().err.startswith("error: fsdp/train.py already exists\nhint: ")
    assert [path.name for path in (folder / "fsdp").iterdir()] == ["train.py"]


def test_the_error_about_an_unknown_template_lists_the_others(capsys: Captured) -> None:
    assert main(["init", "--template", "fsdq"]) == 2
    assert f"no template 'fsdq'; there are {', '.join(NAMES)}" in capsys.readouterr().err
