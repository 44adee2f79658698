"""Jobs that AWS's toolkit starts. What it makes of hyperparameters is recorded in tests/data/sagemaker/toolkit.json."""

from __future__ import annotations

import io
import json
import tarfile

import botocore.session
import pytest
from botocore.validate import ParamValidator

from gpucluster.errors import JobSpecError
from gpucluster.sagemaker import limits, toolkit
from gpucluster_job.sagemaker import inputs, variables

JOB = "name: train\nproject: digits\nnodes: 2\ntime: 2:00:00\n"
TOOLKIT = "toolkit: true\nimage: 123456789012.dkr.ecr.us-west-2.amazonaws.com/mine:1\n"
COMMAND = "command: python src/train.py --epochs 3 --name=a=b -k -7\n"


def test_the_request(made):
    request = made(JOB + COMMAND, TOOLKIT).request
    model = botocore.session.get_session().get_service_model("sagemaker").operation_model("CreateTrainingJob")
    assert not ParamValidator().validate(request, model.input_shape).has_errors()
    assert list(limits.faults(request)) == []
    assert "ContainerEntrypoint" not in request["AlgorithmSpecification"]
    assert "InputDataConfig" not in request
    place = "s3://bucket-of-mine/gpucluster/train-20261129-102400"
    assert {key: json.loads(value) for key, value in request["HyperParameters"].items()} == {
        "sagemaker_program": "src/train.py",
        "sagemaker_submit_directory": f"{place}/input/sourcedir.tar.gz",
        "sagemaker_container_log_level": 20,
        "sagemaker_job_name": "train-20261129-102400",
        "sagemaker_region": "us-west-2",
        "sagemaker_torch_distributed_enabled": True,
        "sagemaker_instance_type": "ml.p4d.24xlarge",
        "epochs": "3",
        "name": "a=b",
        "k": "-7",
    }
    assert request["Environment"]["GPUCLUSTER_STATE"] == "/opt/ml/checkpoints"


def test_options_reach_the_program_as_the_toolkit_passes_them(made):
    given = made(JOB + COMMAND, TOOLKIT).request["HyperParameters"]
    decoded = {name: json.loads(value) for name, value in given.items() if not inputs.is_toolkits(name)}
    assert variables.arguments(decoded) == ["--epochs", "3", "-k", "-7", "--name", "a=b"]


@pytest.mark.parametrize(
    ("launcher", "more", "key"),
    [
        ("mpirun", "ntasks_per_node: 4\n", "sagemaker_mpi_enabled"),
        ("smddp", "", "sagemaker_distributed_dataparallel_enabled"),
        ("srun", "ntasks_per_node: 1\n", None),
    ],
)
def test_launchers(made, launcher, more, key):
    given = made(f"{JOB}{COMMAND}launcher: {launcher}\n{more}", TOOLKIT).request["HyperParameters"]
    assert [name for name in given if name.endswith("_enabled")] == [key] * bool(key)
    assert given.get("sagemaker_mpi_num_of_processes_per_host") == ("4" if launcher == "mpirun" else None)


@pytest.mark.parametrize(
    ("command", "more", "said"),
    [
        ("./run.sh --epochs 3", "", "AWS's toolkit starts a script alone"),
        ("python -m train", "", "AWS's toolkit starts a script alone"),
        ("python train.py data --epochs 3", "", "options with values alone: got 'data'"),
        ("python train.py --quick --epochs 3", "", "options with values alone: --quick has none"),
        ("python train.py --epochs 3 --epochs 4", "", "--epochs is given twice"),
        ("python train.py --sagemaker_program x", "", "AWS's toolkit keeps --sagemaker_program for itself"),
        ("python train.py", "ntasks_per_node: 4\n", "starts 8 ranks on ml.p4d.24xlarge with torchrun, got 4"),
    ],
)
def test_what_the_toolkit_cannot_start(made, command, more, said):
    with pytest.raises(JobSpecError) as caught:
        made(f"{JOB}command: {command}\n{more}", TOOLKIT)
    (problem,) = caught.value.problems
    assert said in problem.message


def test_the_code_lies_at_the_top_of_its_archive(tmp_path):
    (tmp_path / "src").mkdir()
    (tmp_path / "src" / "train.py").write_text("print()\n")
    (tmp_path / "link").symlink_to("src/train.py")
    with tarfile.open(fileobj=io.BytesIO(toolkit.source(tmp_path, "einops\n")), mode="r:gz") as tar:
        assert sorted(tar.getnames()) == ["link", "requirements.txt", "src/train.py"]
        assert tar.extractfile("src/train.py").read() == b"print()\n"
        assert tar.extractfile("requirements.txt").read() == b"einops\n"
