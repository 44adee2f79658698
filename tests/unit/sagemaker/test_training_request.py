"""A job of job.yaml as CreateTrainingJob. botocore's model, which is AWS's own, judges each request."""

from __future__ import annotations

import re

import botocore.session
import pytest
from botocore.validate import ParamValidator

from gpucluster.errors import ConfigError, JobSpecError
from gpucluster.job.spec import JobSpec
from gpucluster.sagemaker import keys, limits

JOB = "name: train\nproject: digits\nnodes: 2\ntime: 2:00:00\ncommand: python train.py --epochs 3\n"
NETWORK = "subnets: [subnet-0123456789abcdef0]\nsecurity_groups: [sg-0123456789abcdef0]\n"
KEY = "kms_key_arn: arn:aws:kms:us-west-2:123456789012:key/11111111-2222-3333-4444-555555555555\n"


def judged(request):
    """botocore's own validation, and what its model knows beyond."""
    model = botocore.session.get_session().get_service_model("sagemaker").operation_model("CreateTrainingJob")
    report = ParamValidator().validate(request, model.input_shape)
    return [report.generate_report()] * report.has_errors() + [each.message for each in limits.faults(request)]


def problems(caught):
    return [(each.line, each.key, each.message) for each in caught.value.problems]


def test_a_small_job(made):
    request = made(JOB).request
    assert judged(request) == []
    assert request["TrainingJobName"] == "train-20261129-102400"
    assert request["ResourceConfig"] == {
        "InstanceType": "ml.p4d.24xlarge",
        "InstanceCount": 2,
        "VolumeSizeInGB": 100,
    }
    assert request["StoppingCondition"] == {"MaxRuntimeInSeconds": 7200}
    asked = request["AlgorithmSpecification"]
    assert asked["TrainingImage"].startswith("763104351884.dkr.ecr.us-west-2.amazonaws.com/pytorch-training:2.8.0-gpu")
    words = ["--launcher", "torchrun", "--ranks-per-node", "8", "--", "python", "train.py", "--epochs", "3"]
    assert asked["ContainerArguments"] == words
    (ours,) = request["InputDataConfig"]
    assert ours["DataSource"]["S3DataSource"]["S3Uri"] == "s3://bucket-of-mine/gpucluster/train-20261129-102400/input/"
    state = "s3://bucket-of-mine/gpucluster/tasks/digits/train"
    assert request["CheckpointConfig"] == {"S3Uri": f"{state}/"}  # without the slash, also the state of train2
    assert request["Environment"] == {"GPUCLUSTER_CHECKPOINTS_S3": state}
    tags = {each["Key"]: each["Value"] for each in request["Tags"]}
    assert (tags["gpucluster:project"], tags["gpucluster:name"]) == ("digits", "train")
    assert re.fullmatch("[0-9a-f]{64}", tags["gpucluster:run"])


def test_a_job_with_every_section(made):
    job = JOB + (
        "env: {NCCL_DEBUG: INFO}\nstate: s3://other/state\nlauncher: smddp\n"
        "metrics: {loss: 'step (?P<step>[0-9]+) loss ([0-9.]+)', top: 'top (?P<value>[0-9.]+)'}\n"
        "channels: {train: {source: s3://data/train, mode: copy, shard: by-node}, eval: /fsx/eval}\n"
    )
    spot = "spot: true\nmax_wait: 1d\n"
    fsx = "file_systems: [{mount: /fsx, id: fs-0123456789abcdef0, type: FSxLustre, directory: /abcdefgh}]\n"
    request = made(job, NETWORK + KEY + spot + fsx, {"s3://data/train": ["a", "b", "c"]}).request
    assert judged(request) == []
    assert request["StoppingCondition"] == {"MaxRuntimeInSeconds": 7200, "MaxWaitTimeInSeconds": 86400}
    assert request["CheckpointConfig"] == {"S3Uri": "s3://other/state/digits/train/"}
    assert request["OutputDataConfig"]["KmsKeyId"] == KEY.split(": ")[1].strip()
    assert "VolumeKmsKeyId" not in request["ResourceConfig"]  # p4d has local disks
    assert request["AlgorithmSpecification"]["MetricDefinitions"] == [
        {"Name": "loss", "Regex": "step (?:[0-9]+) loss ([0-9.]+)"},
        {"Name": "top", "Regex": "top ([0-9.]+)"},
    ]
    _, train, held_out = request["InputDataConfig"]
    assert train["InputMode"] == "File"
    assert train["DataSource"]["S3DataSource"]["S3DataDistributionType"] == "ShardedByS3Key"
    assert held_out["DataSource"]["FileSystemDataSource"]["DirectoryPath"] == "/abcdefgh/eval"


def test_a_type_without_local_disks_has_an_encrypted_volume(made):
    machines = made(JOB, KEY + "instance_type: m5.4xlarge\nvolume_gb: 30\n").request["ResourceConfig"]
    assert machines["InstanceType"] == "ml.m5.4xlarge"
    assert machines["VolumeSizeInGB"] == 30
    assert machines["VolumeKmsKeyId"].startswith("arn:aws:kms")


def test_a_volume_is_no_larger_than_local_disks(made):
    machines = made(JOB, "instance_type: ml.g5.xlarge\nvolume_gb: 500\n").request["ResourceConfig"]
    assert machines["VolumeSizeInGB"] == 250


@pytest.mark.parametrize(
    ("job", "more", "key", "said"),
    [
        ("name: " + "n" * 48, "", "name", "a training job's name has at most 63 characters"),
        ("launcher: smddp", "instance_type: ml.p5.48xlarge\n", "launcher", "SMDDP does not support ml.p5.48xlarge"),
        ("launcher: mxnet-ps", "", "launcher", "mxnet-ps does not run on SageMaker"),
        ("launcher: horovodrun", "", "launcher", "AWS's images for SageMaker are not known to have Horovod"),
        ("framework: mxnet", "", "framework", "AWS has no image with mxnet"),
        ("gpus_per_node: 9", "", "gpus_per_node", "ml.p4d.24xlarge has 8 GPUs, got 9"),
        ("efa: required", "instance_type: ml.g5.xlarge\n", "efa", "EFA is required, and ml.g5.xlarge has none"),
        ("time: 29-00:00:00", "", "time", "SageMaker runs a job for at most 28 days"),
        ("time: 2:00:00", "spot: true\nmax_wait: 1h\n", "time", "max_wait in sagemaker.yaml is 3600 s, less than"),
        ("state: /fsx/state", "", "state", "/fsx/state is a path on the cluster"),
        ("state: s3://b-of-mine/s", "", "state", "only a job with a name keeps state"),
        ("container_image: docker://pytorch/pytorch", "", "container_image", "SageMaker pulls images from ECR alone"),
        ("array: 0-3", "", "array", "a job on SageMaker cannot have this key"),
        ("secrets: [TOKEN]", "", "secrets", "a job on SageMaker cannot have this key"),
        ("env: {A: " + "x" * 513 + "}", "", "env", "Environment.A of CreateTrainingJob must be at most 512"),
        ("metrics: {a: '(" + "x" * 500 + ")'}", "", "metrics", "must be at most 500 characters, got 502"),
        ("command: [python, " + "x" * 257 + "]", "", "command", "must be at most 256 characters, got 257"),
        ("command: [python, train.py, --prefix, '']", "", "command", "SageMaker passes no empty arguments"),
        ('command: [bash, -c, "a\\nb"]', "", "command", "SageMaker passes no arguments with line breaks"),
        (
            "nodes: 2",
            "image: 123456789012.dkr.ecr.us-east-1.amazonaws.com/mine:1\n",
            "",
            "is not in us-west-2, from where",
        ),
        ("nodes: 2", "instance_type: g4dn.metal\n", "nodes", "SageMaker has no ml.g4dn.metal"),
    ],
)
def test_a_job_that_sagemaker_refuses_is_refused_here(made, job, more, key, said):
    lines = [job] if job.startswith("command") else [job, "command: python train.py"]
    with pytest.raises(JobSpecError) as caught:
        made("\n".join(lines), more)
    ((line, at, message),) = problems(caught)
    assert (line, at.partition(".")[0]) == (1, key)
    assert said in message


def test_all_problems_at_once(made):
    with pytest.raises(JobSpecError) as caught:
        made("command: python train.py\nsecrets: [A]\nlauncher: mxnet-ps\nnodes: x\n")
    assert [line for line, _, _ in problems(caught)] == [2, 3, 4]


@pytest.mark.parametrize(
    ("more", "key", "said"),
    [
        ("spot: true\n", "", "spot needs max_wait"),
        ("max_wait: 1h\n", "", "max_wait needs spot: true"),
        ("subnets: [subnet-0123456789abcdef0]\n", "", "subnets and security_groups belong together"),
        ("role_arn: training\n", "role_arn", "must be the ARN of a role"),
        ("instance_type: ml.p4d.24xlrage\n", "instance_type", "must be an instance type"),
        ("image: pytorch/pytorch:latest\n", "image", "must be an image in ECR"),
        ("regoin: us-east-1\n", "regoin", "unknown key"),
        ("channels: {train: {mod: Pipe}}\n", "channels.train.mod", "unknown key"),
        ("channels: {train: {records: RecordIO}}\n", "channels.train", "records and per are for mode: Pipe"),
        (
            NETWORK + "file_systems: [{mount: /fsx, id: fs-0123456789abcdef0, type: FSxLustre}]\n",
            "file_systems[0]",
            "FSxLustre needs as directory its mount name",
        ),
    ],
)
def test_sagemaker_yaml_says_what_is_wrong(made, more, key, said):
    with pytest.raises(ConfigError) as caught:
        made(JOB, more)
    ((_, at, message),) = problems(caught)
    assert at == key
    assert said in message


def test_a_key_of_slurms_queue_is_left_out_and_said(made):
    notes = made(JOB + "partition: train\nqos: high\n").notes
    assert notes == (
        "partition is left out: instance_type in sagemaker.yaml chooses the machines",
        "qos is left out: there is no Slurm",
    )


def test_defaults_that_differ_are_said(made):
    job = made("command: python train.py\n", "spot: true\nmax_wait: 2d\n")
    assert [note.partition(":")[0] for note in job.notes] == ["no time", "no name"]
    assert "CheckpointConfig" not in job.request


def test_every_key_of_a_job_has_one_fate():
    fates = [*keys.CARRIED, *keys.REFUSED, *keys.LEFT_OUT]
    assert sorted(fates) == sorted(JobSpec.model_fields)


def test_the_users_image_and_another_regions_account(made):
    own = "123456789012.dkr.ecr.us-west-2.amazonaws.com/mine:1"
    assert (
        made(JOB + "launcher: horovodrun\n", f"image: {own}\n").request["AlgorithmSpecification"]["TrainingImage"]
        == own
    )
    there = made(JOB, "region: eu-south-1\n").request["AlgorithmSpecification"]["TrainingImage"]
    assert there.startswith("692866216735.dkr.ecr.eu-south-1.amazonaws.com/")


def test_the_guard_knows_what_botocore_leaves_to_aws(made):
    request = dict(made(JOB).request)
    broken = request | {"TrainingJobName": "a.b", "Tags": request["Tags"] * 20, "Unknown": 1}
    del broken["RoleArn"]
    found = {".".join(fault.path): fault.message for fault in limits.faults(broken)}
    assert found == {
        "RoleArn": "is missing",
        "Unknown": "is no member",
        "Tags": "must be at most 50 entries, got 60",
        "TrainingJobName": "must match [a-zA-Z0-9](-*[a-zA-Z0-9]){0,62}, got 'a.b'",
    }
