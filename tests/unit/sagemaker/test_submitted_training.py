"""What a submission puts into the bucket and asks SageMaker for. moto stores it; a Stubber has AWS's refusals."""

from __future__ import annotations

import io
import json
import tarfile

import boto3
import pytest
from botocore.stub import Stubber
from moto import mock_aws

from gpucluster.config.parse import parse
from gpucluster.errors import AwsError, JobSpecError, UsageError
from gpucluster.sagemaker import submission, target, tasks
from gpucluster.sagemaker.tasks import Run

JOB = "name: train\nproject: digits\nnodes: 2\ntime: 2:00:00\ncommand: python train.py\n"
TARGET = """\
region: us-west-2
role_arn: arn:aws:iam::123456789012:role/training
bucket: bucket-of-mine
instance_type: ml.p4d.24xlarge
"""
STATE = "gpucluster/tasks/digits/train"
BUCKET = "bucket-of-mine"


class Clients(dict):
    def client(self, service):
        return self[service]


@pytest.fixture(scope="module")
def made_once():
    """botocore reads its model of SageMaker, which is large, once for each session."""
    session = boto3.Session("one", "two", region_name="us-west-2")
    return Clients({name: session.client(name) for name in ("s3", "sagemaker")})


@pytest.fixture
def clients(made_once, moto_sagemaker):
    with mock_aws():
        place = {"LocationConstraint": "us-west-2"}
        made_once["s3"].create_bucket(Bucket=BUCKET, CreateBucketConfiguration=place)
        yield made_once


def submitted(clients, job, told=None, **more):
    where = target.loads(parse(TARGET, "sagemaker.yaml"))
    tell = (told if told is not None else []).append
    return submission.submit(clients, where, job, **{"force": False, "clean": False, "tell": tell} | more)


def keys(clients):
    return [each["Key"] for each in clients["s3"].list_objects_v2(Bucket=BUCKET).get("Contents", ())]


def test_the_bucket_has_what_the_container_needs(made, clients, tmp_path):
    (tmp_path / "train.py").write_text("print()\n")
    job = made(JOB)
    assert submitted(clients, job) == (job.name, False)
    key = f"gpucluster/{job.name}/input/gpucluster.tar.gz"
    assert keys(clients) == [key]
    body = clients["s3"].get_object(Bucket=BUCKET, Key=key)["Body"].read()
    with tarfile.open(fileobj=io.BytesIO(body)) as tar:
        names = tar.getnames()
    assert {"gpucluster/lib/gpucluster_job/__main__.py", "gpucluster/code/train.py"} <= set(names)
    found = clients["sagemaker"].describe_training_job(TrainingJobName=job.name)
    assert found["CheckpointConfig"] == {"S3Uri": f"s3://{BUCKET}/{STATE}/"}
    assert tasks.newest(clients["sagemaker"], "digits", "train") == (
        job.name,
        "Completed",
        job.key,
        f"s3://{BUCKET}/{STATE}",
    )


def test_secrets_that_others_could_read_are_named(made, tmp_path):
    for name in ("train.py", ".env", ".env.example", "keys/id_rsa"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).touch()
    variable, files = made(JOB + "env: {WANDB_API_KEY: abc}\n").checked()
    assert variable.startswith("env: WANDB_API_KEY: DescribeTrainingJob shows its value to others")
    assert files.startswith(f".env, keys/id_rsa: everybody who may read s3://{BUCKET}/gpucluster can read")


def test_manifests_are_there_before_the_job(made, clients):
    objects = [f"{index}.tfrecord" for index in range(96)]
    pipe = "channels: {train: {mode: Pipe}}\n"
    job = made(JOB + "channels: {train: s3://data/train}\n", pipe, {"s3://data/train": objects})
    submitted(clients, job)
    key = f"gpucluster/{job.name}/manifests/train_3.json"
    manifest = json.loads(clients["s3"].get_object(Bucket=BUCKET, Key=key)["Body"].read())
    assert manifest[:3] == [{"prefix": "s3://data/train/"}, "3.tfrecord", "11.tfrecord"]


@pytest.mark.parametrize(
    ("edit", "more", "skipped"),
    [
        (lambda text: text, {}, True),
        (lambda text: text.replace("train.py", "train.py --epochs 3"), {}, False),
        (lambda text: text.replace("2:00:00", "4:00:00"), {}, True),
        (lambda text: text, {"force": True}, False),
        (lambda text: text, {"clean": True}, False),
        (lambda text: text.replace("digits", "letters"), {}, False),
    ],
)
def test_a_run_that_equals_the_last_one_is_skipped(made, clients, edit, more, skipped):
    alone = JOB + "workdir: null\n"  # otherwise job.yaml is one of the files that are compared
    first = made(alone)
    submitted(clients, first)
    again = made(edit(alone), started="20261129-112400")
    assert submitted(clients, again, **more) == (first.name if skipped else again.name, skipped)


def test_another_code_is_another_run(made, clients, tmp_path):
    (tmp_path / "train.py").write_text("print(1)\n")
    first = made(JOB)
    (tmp_path / "train.py").write_text("print(2)\n")
    assert first.key != made(JOB).key


def test_clean_state_deletes_the_state_and_keeps_outputs(made, clients):
    for name in ("model.pt", "outputs/shards/0.tar"):
        clients["s3"].put_object(Bucket=BUCKET, Key=f"{STATE}/{name}", Body=b"x")
    told = []
    submitted(clients, made(JOB), told, clean=True)
    assert [key for key in keys(clients) if key.startswith(STATE)] == [f"{STATE}/outputs/shards/0.tar"]
    assert told == [f"deleted 1 files of s3://{BUCKET}/{STATE}"]


def test_two_runs_at_once_are_refused():
    running = Run("train-20261129-102400", "InProgress", "key")
    with pytest.raises(UsageError, match="job train-20261129-102400 of the task digits/train has not ended"):
        tasks.refuse_unfinished("digits/train", running)
    tasks.refuse_unfinished("digits/train", running._replace(status="Stopped"))


def test_only_a_job_with_the_tags_is_a_run(clients):
    """Another job's name may be equal up to its last letters, and another project may have a task of this name."""

    def summary(name):
        arn = f"arn:aws:sagemaker:us-west-2:123456789012:training-job/{name}"
        return {"TrainingJobName": name, "TrainingJobArn": arn, "CreationTime": 0, "TrainingJobStatus": "Completed"}

    def tags(project):
        found = {"project": project, "name": "train", "run": "key"}
        return {"Tags": [{"Key": f"gpucluster:{key}", "Value": value} for key, value in found.items()]}

    client = clients["sagemaker"]
    names = ["pre-train-20261129-102403", "train-20261129-102402", "train-20261129-102401"]
    with Stubber(client) as stub:
        asked = {"NameContains": "train", "SortBy": "CreationTime", "SortOrder": "Descending", "MaxResults": 100}
        stub.add_response("list_training_jobs", {"TrainingJobSummaries": [summary(name) for name in names]}, asked)
        stub.add_response("list_tags", tags("letters"), {"ResourceArn": summary(names[1])["TrainingJobArn"]})
        stub.add_response("list_tags", tags("digits"), {"ResourceArn": summary(names[2])["TrainingJobArn"]})
        described = description(names[2])
        stub.add_response("describe_training_job", described, {"TrainingJobName": names[2]})
        assert tasks.newest(client, "digits", "train") == (names[2], "Failed", "key", "")
        stub.assert_no_pending_responses()


def description(name):
    return {
        "TrainingJobName": name,
        "TrainingJobArn": f"arn:aws:sagemaker:us-west-2:123456789012:training-job/{name}",
        "ModelArtifacts": {"S3ModelArtifacts": "s3://a/b"},
        "TrainingJobStatus": "Failed",
        "SecondaryStatus": "Failed",
        "AlgorithmSpecification": {"TrainingInputMode": "File"},
        "ResourceConfig": {"VolumeSizeInGB": 1},
        "StoppingCondition": {},
        "CreationTime": 0,
    }


LIMIT = (
    "The account-level service limit 'ml.p3.2xlarge for training job usage' is 0 Instances, with current utilization "
    "of 0 Instances and a request delta of 1 Instances. Please contact AWS support to request an increase for this "
    "limit."
)
NO_OBJECTS = (
    'No S3 objects found under S3 URL "s3://data/train/" given in input data source. Please ensure that the bucket '
    "exists in the selected region (us-west-2), that objects exist under that S3 prefix, and that the role "
    '"arn:aws:iam::123456789012:role/training" has "s3:ListBucket" permissions on bucket "data".'
)
PASS = "User: arn:aws:iam::1:user/me is not authorized to perform: iam:PassRole on resource: arn:aws:iam::1:role/a"
ROLE = (
    "Could not assume role arn:aws:iam::1:role/training. Please ensure that the role exists and allows principal "
    "'sagemaker.amazonaws.com' to assume the role."
)
IMAGE = "Invalid training image. Please provide a valid Amazon Elastic Container Registry path of the Docker image"
CAPACITY = "Unable to provision requested ML compute capacity. Please retry using a different ML instance type."


@pytest.mark.parametrize(
    ("code", "words", "hint"),
    [
        ("ResourceLimitExceeded", LIMIT, "higher quota of SageMaker, ml.p3.2xlarge for training job usage"),
        (
            "ResourceLimitExceeded",
            LIMIT.replace("for training", "for spot training"),
            "ml.p3.2xlarge for spot training job usage",
        ),
        ("ValidationException", NO_OBJECTS, "the role may list it"),
        ("ValidationException", ROLE, "trust sagemaker.amazonaws.com"),
        ("ValidationException", IMAGE, "an image that exists"),
        ("CapacityError", CAPACITY, "try again later"),
        ("ValidationException", "Unsupported instance type ml.p3dn.24xlarge", "another --instance-type or region"),
        ("AccessDeniedException", PASS, "allowed iam:PassRole"),
    ],
)
def test_a_refusal_has_the_words_of_aws_and_what_to_do(made, clients, code, words, hint):
    with Stubber(clients["sagemaker"]) as stub:
        stub.add_response("list_training_jobs", {"TrainingJobSummaries": []})
        stub.add_client_error("create_training_job", code, words)
        with pytest.raises(AwsError) as caught:
            submitted(clients, made(JOB))
    assert caught.value.message == f"CreateTrainingJob: {code}: {words}"
    assert hint in caught.value.hint
    assert keys(clients) == []


TAKEN = ("ResourceInUse", "Training job names must be unique within an AWS account and region")


def test_a_run_that_began_during_a_long_upload(made, clients, monkeypatch):
    """Two runs would write to one state."""
    job, runs = made(JOB), [None, Run("train-20261129-102455", "InProgress", "key")]
    monkeypatch.setattr(tasks, "newest", lambda *_: runs.pop(0))
    monkeypatch.setattr(submission, "LONG_S", 0.0)
    with pytest.raises(UsageError, match="job train-20261129-102455 of the task digits/train has not ended"):
        submitted(clients, job)
    assert (runs, keys(clients)) == ([], [])
    assert not clients["sagemaker"].list_training_jobs()["TrainingJobSummaries"]


@pytest.mark.parametrize("ours", [True, False])
def test_a_job_whose_answer_was_lost_is_submitted(made, clients, ours):
    """botocore makes the call again, and SageMaker says that the name is taken: by the first call, or by a job that
    somebody else has submitted to another bucket."""
    job = made(JOB)
    there = f"s3://{BUCKET if ours else 'theirs'}/gpucluster"
    with Stubber(clients["sagemaker"]) as stub:
        stub.add_response("list_training_jobs", {"TrainingJobSummaries": []})
        stub.add_client_error("create_training_job", *TAKEN)
        stub.add_response(
            "describe_training_job", description(job.name) | {"OutputDataConfig": {"S3OutputPath": there}}
        )
        if ours:
            assert submitted(clients, job) == (job.name, False)
        else:
            with pytest.raises(AwsError) as caught:
                submitted(clients, job)
            assert "submit it again" in caught.value.hint
    assert keys(clients) == ([f"gpucluster/{job.name}/input/gpucluster.tar.gz"] if ours else [])


def test_the_files_of_a_job_with_the_same_name_stay(made, clients, tmp_path):
    """Two people may submit a job of the same name in one second."""
    first = made(JOB)
    submitted(clients, first)
    key = f"gpucluster/{first.name}/input/gpucluster.tar.gz"
    before = clients["s3"].get_object(Bucket=BUCKET, Key=key)["Body"].read()
    (tmp_path / "more.py").write_text("print()\n")
    with pytest.raises(AwsError, match="PreconditionFailed") as caught:
        submitted(clients, made(JOB), force=True)
    assert "submit it again" in caught.value.hint
    assert clients["s3"].get_object(Bucket=BUCKET, Key=key)["Body"].read() == before


@pytest.mark.parametrize(
    ("describe", "said", "left"),
    [
        ("made", "was submitted all the same", 1),
        ("Requested resource not found.", "", 0),
        ("Rate exceeded", "may have been submitted all the same", 1),
    ],
)
def test_an_interrupt_while_aws_is_asked(made, clients, monkeypatch, describe, said, left):
    job, told, create = made(JOB), [], clients["sagemaker"].create_training_job

    def interrupted(**asked):
        if describe == "made":
            create(**asked)
        else:
            stub.add_client_error("describe_training_job", "ValidationException", describe)
            stub.activate()
        raise KeyboardInterrupt

    monkeypatch.setattr(clients["sagemaker"], "create_training_job", interrupted)
    stub = Stubber(clients["sagemaker"])
    with pytest.raises(KeyboardInterrupt):
        submitted(clients, job, told)
    stub.deactivate()
    words = [f"job {job.name} {said}: `gpucluster cancel {job.name}` stops it"] if said else []
    assert (told, len(keys(clients))) == (words, left)


@pytest.mark.parametrize(
    ("region", "host"),
    [
        ("eu-west-1", "eu-west-1.console.aws.amazon.com"),
        ("cn-north-1", "cn-north-1.console.amazonaws.cn"),
        ("us-gov-west-1", "console.amazonaws-us-gov.com"),
    ],
)
def test_each_partition_has_its_console(region, host):
    assert submission.console(region, "a-1") == f"https://{host}/sagemaker/home?region={region}#/jobs/a-1"


PREPARED = Run("prepare-20261129-092400", "Completed", "key", "s3://bucket-of-mine/gpucluster/tasks/digits/prepare")
SHARDS = f"{PREPARED.state}/outputs/shards"
READS = JOB + "channels: {data: {task: prepare, output: shards}}\n"


def test_a_channel_reads_the_output_of_a_task(made):
    job = made(READS, "", {SHARDS: ["0.tar", "1.tar"]}, {"digits/prepare": PREPARED})
    source = job.request["InputDataConfig"][1]["DataSource"]["S3DataSource"]
    assert source["S3Uri"] == f"{SHARDS}/"
    newer = PREPARED._replace(job="prepare-20261129-093000")
    assert made(READS, "", {SHARDS: ["0.tar"]}, {"digits/prepare": newer}).key != job.key


def test_outputs_are_in_the_state(made):
    job = made(JOB + "outputs: [model]\n")
    assert job.request["Environment"]["GPUCLUSTER_OUTPUT_MODEL"] == "/opt/ml/checkpoints/outputs/model"


@pytest.mark.parametrize(
    ("more", "last", "said"),
    [
        ("after: prepare", None, "the task digits/prepare has no run on SageMaker"),
        ("after: prepare", PREPARED._replace(status="InProgress"), "has not ended, and SageMaker has no dependencies"),
        (
            "after: prepare",
            PREPARED._replace(status="Failed"),
            "the task digits/prepare has not succeeded: job prepare",
        ),
        ("after: 12", None, "12 is a job of Slurm's"),
        ("after: train", None, "the job is itself a run of digits/train"),
        ("outputs: {model: /fsx/model}", None, "an output on SageMaker lies with the task's state in S3"),
        ("channels: {data: {task: prepare, output: shards}}", None, "the task digits/prepare has no run on SageMaker"),
    ],
)
def test_what_a_job_comes_after_must_have_succeeded(made, more, last, said):
    with pytest.raises(JobSpecError) as caught:
        made(f"{JOB}{more}\n", "", {}, {"digits/prepare": last} if last else {})
    (problem,) = caught.value.problems
    assert said in problem.message
    assert problem.line == 6


LOCAL = "channels: {train: ./data}\n"


@pytest.fixture
def data(tmp_path):
    for name in ("a/0.tar", "a/1.tar", "labels.csv"):
        (tmp_path / "data" / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "data" / name).write_text(name)
    return tmp_path / "data"


def test_a_local_folder_is_uploaded_once(made, clients, data):
    job = made(JOB + LOCAL)
    uri = job.request["InputDataConfig"][1]["DataSource"]["S3DataSource"]["S3Uri"]
    prefix = uri.removeprefix(f"s3://{BUCKET}/")
    assert prefix.startswith("gpucluster/inputs/")
    first, again = [], []
    submitted(clients, job, first)
    assert [key for key in keys(clients) if key.startswith(prefix)] == [
        f"{prefix}{name}" for name in ("a/0.tar", "a/1.tar", "labels.csv")
    ]
    clients["s3"].delete_object(Bucket=BUCKET, Key=f"{prefix}labels.csv")  # as an interrupted upload leaves it
    submitted(clients, made(JOB + LOCAL, started="20261129-112400"), again, force=True)
    submitted(clients, made(JOB + LOCAL, started="20261129-122400"), again, force=True)
    assert [line.partition(" ")[0] for line in first] == ["uploading"]
    assert again[0].startswith("uploading") and again[1].endswith(f"already in {uri.rstrip('/')}")
    (data / "labels.csv").write_text("others")
    assert made(JOB + LOCAL).key != job.key


def test_a_file_that_changes_during_the_upload(made, clients, data):
    job = made(JOB + LOCAL)
    (data / "labels.csv").write_text("other content")
    with pytest.raises(UsageError, match="labels.csv: was changed during the upload"):
        submitted(clients, job)
    assert keys(clients) == []


def test_the_packages_of_a_job(made, clients, tmp_path):
    (tmp_path / "requirements.txt").write_text("einops==0.8.0  # as before\n-r more.txt\n")
    (tmp_path / "more.txt").write_text("./mine-1.0.whl\n")
    (tmp_path / "mine-1.0.whl").touch()
    job = made(JOB + "requirements: requirements.txt\n")
    assert job.requirements == "einops==0.8.0\n./mine-1.0.whl\n"
    assert "requirements: pip installs them on each host at each start" in job.notes[0]
    with tarfile.open(fileobj=io.BytesIO(submission.packed(job))) as tar:
        assert tar.extractfile("gpucluster/requirements.txt").read().decode() == job.requirements
    (tmp_path / "mine-1.0.whl").unlink()
    with pytest.raises(UsageError, match=r"more.txt:1: no file ./mine-1.0.whl in the workdir"):
        made(JOB + "requirements: requirements.txt\n")
