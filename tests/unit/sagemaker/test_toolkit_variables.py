"""The variables SM_* against those that AWS's own toolkit has set from the same files."""

import json
from pathlib import Path
from typing import Any

import pytest

from gpucluster_job.sagemaker import inputs, variables
from gpucluster_job.settings import GaveUp

RECORDED: dict[str, Any] = json.loads(
    (Path(__file__).parents[2] / "data" / "sagemaker" / "toolkit.json").read_text(encoding="utf-8")
)


def write(base: Path, **files: object) -> Path:
    config = base / "input" / "config"
    config.mkdir(parents=True, exist_ok=True)
    for name, content in files.items():
        (config / f"{name}.json").write_text(json.dumps(content), encoding="utf-8")
    return base


def test_every_variable_of_the_toolkit(tmp_path: Path) -> None:
    host = inputs.read(write(tmp_path, **RECORDED["given"]))
    ours = variables.of_toolkit(
        host._replace(base=Path("/opt/ml")), variables.Machine(gpus=0, cpus=2), ["python", "train.py"], "digits-1"
    )
    assert ours == RECORDED["variables"]


def test_hyperparameters_as_the_programs_arguments(tmp_path: Path) -> None:
    host = inputs.read(write(tmp_path, **RECORDED["given"]))
    assert variables.arguments(host.own_hyperparameters) == RECORDED["argv"]


@pytest.mark.parametrize(
    ("command", "name"),
    [
        (["python", "train.py", "--epochs", "3"], "train.py"),
        (["/usr/bin/python3", "-u", "code/train.py"], "code/train.py"),
        (["./run.sh", "x"], "./run.sh"),
        ([], ""),
    ],
)
def test_entry_point_of_a_command(command: list[str], name: str) -> None:
    assert variables.entry_point(command) == name


def test_a_job_without_channels(tmp_path: Path) -> None:
    given = {name: RECORDED["given"][name] for name in ("hyperparameters", "resourceconfig")}
    host = inputs.read(write(tmp_path, **given))
    assert host.channels == {}
    assert (host.name, host.number) == ("algo-2", 1)


def test_outside_of_a_container(tmp_path: Path) -> None:
    with pytest.raises(GaveUp, match=r"resourceconfig.json: cannot be read: No such file .* SAGEMAKER_BASE_DIR"):
        inputs.read(tmp_path)


def test_a_host_that_is_none_of_the_job(tmp_path: Path) -> None:
    write(tmp_path, hyperparameters={}, resourceconfig={"current_host": "algo-3", "hosts": ["algo-1"]})
    with pytest.raises(GaveUp, match=r"current_host is 'algo-3', expected one of hosts, which is \['algo-1'\]"):
        inputs.read(tmp_path)
