"""`null` on the command line, as in job.yaml: the key is not set, whatever the file says."""

from __future__ import annotations

from pathlib import Path

import click
import pytest

from gpucluster.cli import cli, main
from gpucluster.job.spec import JobSpec

CLUSTER = "name: Test\nregion: us-east-1\npartitions: [{name: train, instance_types: [g5.12xlarge], max_nodes: 4}]\n"
JOB = """\
command: [python, train.py]
name: train
project: demo
time: 1:00:00
gpus_per_node: 1
ntasks_per_node: 1
mem: 8G
resubmit: until-done
resubmit_limit: 3
"""


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "cluster.yaml").write_text(CLUSTER)
    (tmp_path / "train.py").write_text("")
    (tmp_path / "job.yaml").write_text(JOB)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def _emitted(tmp_path: Path, *words: str) -> tuple[str, str, Path]:
    assert main(["submit", "--emit-only", "job", *words]) == 0
    folder = tmp_path / "job"
    return (folder / "job.yaml").read_text(), (folder / "job.sbatch").read_text(), folder


def test_a_project_of_null_is_no_task(folder: Path) -> None:
    spec, _, emitted = _emitted(
        folder, "--project", "null", "--resubmit", "null", "--resubmit-limit", "null", "job.yaml"
    )
    assert "project: null\n" in spec.replace("project:\n", "project: null\n") and not (emitted / "task.json").exists()
    assert main(["submit", "--dry-run", "--project", "", "job.yaml"]) == 2


def test_a_workdir_of_null_uploads_nothing(folder: Path) -> None:
    _, _, emitted = _emitted(folder, "--workdir", "null", "--", "hostname")
    assert list((emitted / "code").iterdir()) == []


def test_limits_of_the_file_are_removed(folder: Path) -> None:
    words = ("--time", "null", "--mem", "null", "--gpus-per-node", "null", "--ntasks-per-node", "null")
    _, script, _ = _emitted(folder, *words, "--resubmit", "null", "--resubmit-limit", "null", "job.yaml")
    assert "--time=" not in script and "--mem=8G" not in script and "--gres=gpu:4\n" in script


def test_every_option_of_a_key_that_can_be_null_accepts_it(capsys: pytest.CaptureFixture[str]) -> None:
    for verb in ("submit", "bench"):
        command = cli.get_command(click.Context(cli), verb)
        assert command
        for parameter in command.params:
            field = JobSpec.model_fields.get(parameter.name or "")
            if (
                field is None
                or field.default is not None
                and parameter.name != "workdir"
                or parameter.name == "servers"
            ):
                continue
            assert main([verb, "--dry-run", parameter.opts[-1], "null", "--", "python", "train.py"]) == 0, (
                parameter.name
            )
            assert "null" not in capsys.readouterr().err


def test_a_number_that_is_none_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["submit", "--dry-run", "--gpus-per-node", "x", "--", "python", "train.py"]) == 2
    assert "--gpus-per-node: must be a whole number or null, got 'x'" in capsys.readouterr().err
    assert main(["submit", "--dry-run", "--nodes", "null", "--", "python", "train.py"]) == 2
