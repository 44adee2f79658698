"""`gpucluster submit --on sagemaker` as users type it. moto stores training jobs, and calls each Completed at once."""

from __future__ import annotations

import json

import boto3
import pytest
from moto import mock_aws

from gpucluster.cli import main
from gpucluster.sagemaker.limits import faults

TARGET = """\
region: us-west-2
role_arn: arn:aws:iam::123456789012:role/training
bucket: bucket-of-mine
instance_type: ml.g5.12xlarge
"""


@pytest.fixture
def submit(tmp_path, monkeypatch, capsys):
    (tmp_path / "sagemaker.yaml").write_text(TARGET)
    (tmp_path / "job.yaml").write_text("name: train\nnodes: 2\npartition: train\ncommand: [python, train.py]\n")
    (tmp_path / "train.py").write_text("print()\n")
    monkeypatch.chdir(tmp_path)

    def call(*words, place=("--on", "sagemaker")):
        code = main([*words, *place])
        out, err = capsys.readouterr()
        return code, out, err

    return call


def test_the_request_alone_is_on_stdout(submit):
    code, out, err = submit("submit", "job.yaml", "--nodes", "3", "--time", "90m", "--dry-run")
    request = json.loads(out)
    assert code == 0
    assert list(faults(request)) == []
    assert request["TrainingJobName"].startswith("train-20")
    assert request["ResourceConfig"]["InstanceCount"] == 3
    assert request["StoppingCondition"] == {"MaxRuntimeInSeconds": 5400}
    assert err == "warning: partition is left out: instance_type in sagemaker.yaml chooses the machines\n"


def test_another_file(submit, tmp_path):
    (tmp_path / "other.yaml").write_text(TARGET.replace("us-west-2", "eu-west-1"))
    _, out, _ = submit("-c", "other.yaml", "submit", "job.yaml", "--dry-run")
    assert ".eu-west-1." in json.loads(out)["AlgorithmSpecification"]["TrainingImage"]


@mock_aws
def test_a_job_is_submitted_and_then_skipped(submit, monkeypatch, moto_sagemaker):
    monkeypatch.delenv("AWS_ENDPOINT_URL", raising=False)
    s3 = boto3.client("s3", region_name="us-west-2")
    s3.create_bucket(Bucket="bucket-of-mine", CreateBucketConfiguration={"LocationConstraint": "us-west-2"})
    code, out, err = submit("submit", "job.yaml", "--gpus", "4")
    said = json.loads(out)
    name = said["job_id"]
    assert code == 0
    assert said["folder"] == f"s3://bucket-of-mine/gpucluster/{name}"
    link = f"https://us-west-2.console.aws.amazon.com/sagemaker/home?region=us-west-2#/jobs/{name}"
    assert said["console"] == link
    assert err.splitlines()[-3:] == [
        f"job {name} submitted: 8 ranks on 2 hosts of ml.g5.12xlarge",
        "price: at most $14.18 an hour while it runs, $340.32 within its time limit",
        link,
    ]
    code, out, err = submit("submit", "job.yaml", "--gpus", "4")
    assert json.loads(out) == {"job_id": name, "folder": said["folder"], "name": "train", "skipped": True}
    assert err.splitlines()[-1].startswith(f"skipped: job {name} succeeded with the same code")


def test_a_program_that_is_missing_is_no_job(submit, tmp_path):
    (tmp_path / "train.py").unlink()
    code, out, err = submit("submit", "job.yaml")
    assert (code, out) == (2, "")
    assert "train.py" in err


@pytest.mark.parametrize("option", ["--test-only", "--emit-only=there"])
def test_an_option_of_slurm(submit, option):
    code, _, err = submit("submit", "job.yaml", option)
    assert code == 2
    assert err.startswith(f"error: {option.partition('=')[0]} does not work on SageMaker\n")


def test_a_refused_key_is_shown_in_its_line(submit, tmp_path):
    (tmp_path / "job.yaml").write_text("command: [python, train.py]\nsecrets: [TOKEN]\n")
    code, out, err = submit("submit", "job.yaml", "--dry-run")
    assert (code, out) == (2, "")
    assert err.startswith("job.yaml:2:1: error: secrets: a job on SageMaker cannot have this key\n")


CLUSTER = """\
name: digits
region: eu-west-1
partitions: [{name: train, instance_types: [g5.xlarge], max_nodes: 2}]
"""
SECTION = """\
sagemaker:
  role_arn: arn:aws:iam::123456789012:role/training
  bucket: bucket-of-mine
  instance_type: ml.g5.12xlarge
"""


def test_the_section_of_a_cluster_file_does_as_well(submit, tmp_path):
    (tmp_path / "cluster.yaml").write_text(CLUSTER + SECTION)
    for words in (["-c", "cluster.yaml"], []):
        code, out, _ = submit(*words, "submit", "job.yaml", "--dry-run")
        assert code == 0
        region = "eu-west-1" if words else "us-west-2"  # sagemaker.yaml of the current folder comes first
        assert f".{region}." in json.loads(out)["AlgorithmSpecification"]["TrainingImage"]
    (tmp_path / "sagemaker.yaml").unlink()
    assert submit("submit", "job.yaml", "--dry-run")[0] == 0


def test_a_job_says_itself_where_it_runs(submit, tmp_path):
    (tmp_path / "job.yaml").write_text("target: sagemaker\ncommand: [python, train.py]\n")
    assert "TrainingJobName" in json.loads(submit("submit", "job.yaml", "--dry-run", place=[])[1])
    (tmp_path / "cluster.yaml").write_text(CLUSTER)
    assert "#SBATCH" in submit("submit", "job.yaml", "--dry-run", place=["--on", "cluster"])[1]
    (tmp_path / "job.yaml").write_text("target: sagmaker\ncommand: [python, train.py]\n")
    assert submit("submit", "job.yaml", "--dry-run", place=[])[2].startswith("job.yaml:1:9: error: target: must be")


def test_another_instance_type(submit):
    _, out, _ = submit("submit", "job.yaml", "--instance-type", "p4d.24xlarge", "--dry-run")
    assert json.loads(out)["ResourceConfig"]["InstanceType"] == "ml.p4d.24xlarge"
    code, _, err = submit("submit", "job.yaml", "--instance-type", "ml.p4d", "--dry-run")
    assert code == 2
    assert err.startswith("error: --instance-type: must be an instance type such as ml.p4d.24xlarge, got 'ml.p4d'")
    code, _, err = submit("submit", "job.yaml", "--instance-type", "p4d.24xlarge", place=[])
    assert err.startswith("error: --instance-type: only a job on SageMaker has it\nhint: add --on sagemaker")


def test_nothing_says_where_on_sagemaker(submit, tmp_path):
    (tmp_path / "sagemaker.yaml").unlink()
    code, _, err = submit("submit", "job.yaml", "--dry-run")
    assert code == 2
    assert err.startswith("error: there is no sagemaker.yaml and no cluster.yaml\nhint: write a sagemaker.yaml, or a")
    (tmp_path / "cluster.yaml").write_text(CLUSTER)
    _, _, err = submit("submit", "job.yaml", "--dry-run")
    assert "cluster.yaml: has no section sagemaker" in err
    assert "error: other.yaml: no such file" in submit("-c", "other.yaml", "submit", "job.yaml", "--dry-run")[2]


def test_a_section_is_checked_in_its_lines(submit, tmp_path):
    (tmp_path / "cluster.yaml").write_text(CLUSTER + SECTION.replace("role_arn: arn:aws:iam::", "role_arn: arn:"))
    _, _, err = submit("-c", "cluster.yaml", "submit", "job.yaml", "--dry-run")
    assert err.startswith("cluster.yaml:5:13: error: sagemaker.role_arn: must be the ARN of a role")


def test_a_pipeline_stays_on_the_cluster(submit, tmp_path):
    (tmp_path / "cluster.yaml").write_text(CLUSTER)
    job = "{command: [python, train.py], target: sagemaker}"
    (tmp_path / "pipeline.yaml").write_text(f"project: a\njobs:\n  train: {job}\n")
    _, _, err = submit("submit", "pipeline.yaml", "--dry-run", place=[])
    assert "a job of this cluster cannot run on sagemaker" in err


NO_KEYS = {
    "AWS_EC2_METADATA_DISABLED": "true",
    "AWS_SHARED_CREDENTIALS_FILE": "/dev/null",
    "AWS_CONFIG_FILE": "/dev/null",
}


@pytest.fixture
def plan(submit, tmp_path, monkeypatch, capsys):
    """Without credentials."""
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN", "AWS_PROFILE"):
        monkeypatch.delenv(name, raising=False)
    for name, value in NO_KEYS.items():
        monkeypatch.setenv(name, value)

    def call(*words):
        code = main(["plan", *words])
        out, err = capsys.readouterr()
        return code, out, err

    return call


def test_a_dry_run_needs_no_credentials(plan, submit, tmp_path):
    """`plan` takes them away."""
    chained = "name: train\ncommand: [python, train.py]\nchannels: {data: {task: p/prepare, output: shards}}\n"
    (tmp_path / "job.yaml").write_text(chained)
    code, out, err = submit("submit", "job.yaml", "--dry-run")
    assert code == 0, err
    source = json.loads(out)["InputDataConfig"][1]["DataSource"]["S3DataSource"]["S3Uri"]
    assert source == "s3://bucket-of-mine/gpucluster/tasks/p/prepare/outputs/shards/"
    assert "warning: the task p/prepare was not looked for" in err
    assert submit("submit", "job.yaml")[0] == 3


def test_the_price_beside_that_of_a_cluster(plan, tmp_path):
    price = "$7.09 an hour for each ml.g5.12xlarge, only while a job runs, $5.67 as a node of a cluster"
    unasked = "AWS was not called: no credentials; `aws sso login` or `aws configure` sets them\n"
    assert plan() == (0, f"jobs on SageMaker, in us-west-2: {price}\n", unasked)
    (tmp_path / "cluster.yaml").write_text(CLUSTER + SECTION)
    code, out, _ = plan()
    assert code == 0
    assert "total" in out and out.splitlines()[-1].startswith("jobs on SageMaker, in eu-west-1: $")
    code, out, _ = plan("--json")
    assert json.loads(out)["sagemaker"]["instance_type"] == "ml.g5.12xlarge"
    assert json.loads(plan("-c", "sagemaker.yaml", "--json")[1])["faults"] is None
