"""Training jobs whose hosts boot: two for each job, and all jobs of this file at once in one cloud."""

from __future__ import annotations

import io
import json
import tarfile
from collections.abc import Iterator
from typing import Any

import pytest

from localcloud.testing import patience
from localcloud.tests.booted import BootedCloud, booted

ACCOUNT, GROUP = "123456789012", "/aws/sagemaker/TrainingJobs"
IMAGE = "763104351884.dkr.ecr.us-east-1.amazonaws.com/pytorch-training:2.8.0-cpu-py312-ubuntu22.04-sagemaker"
ROLE = f"arn:aws:iam::{ACCOUNT}:role/trainer"
LIMIT_S = 60
TRUST = {"Effect": "Allow", "Principal": {"Service": "sagemaker.amazonaws.com"}, "Action": "sts:AssumeRole"}
MAY = {"Effect": "Allow", "Action": ["s3:*", "logs:*", "cloudwatch:PutMetricData"], "Resource": "*"}
OBJECTS = 5
SCRIPTS = {
    "plain": """
for try in $(seq 100); do getent hosts algo-1 algo-2 >names && break; sleep 0.1; done
echo "tries: $((try > 1))"; cat names
test "$(getent hosts $(hostname) | cut -d' ' -f1)" = "$(hostname -I | tr -d ' ')" && echo own-name-resolves
export AWS_DEFAULT_REGION=$AWS_REGION
python3 -c "import boto3; print(boto3.client('sts').get_caller_identity()['Arn'])"
python3 -c "import boto3; boto3.client('ec2').describe_vpcs()" 2>&1 | tail -1
touch /opt/ml/input/data/train/new 2>/dev/null || echo read-only
ls /opt/ml/input/data/train | tr '\\n' ' '; echo
host=$(python3 -c "import json; print(json.load(open('/opt/ml/input/config/resourceconfig.json'))['current_host'])")
echo "loss=$TRIES" >&2
echo $host >/opt/ml/input/data/shared/$host
echo $host >/opt/ml/model/$host; echo $host >/opt/ml/output/data/$host
echo $host >/opt/ml/output/tensorboard/$host
exit 0""",
    "failing": """
grep -q '"current_host": "algo-2"' /opt/ml/input/config/resourceconfig.json || exec sleep 600
printf 'loss is NaN\\nat step 7' >/opt/ml/output/failure
exit 3""",
    "crashing": "kill -SEGV $$",
    "stopped": """
trap 'echo stopping; echo half >/opt/ml/model/weights; exit 0' TERM
echo started
while :; do sleep 0.1; done""",
    "spot": """
test -e /opt/ml/checkpoints/step && { echo resumed from $(cat /opt/ml/checkpoints/step); exit 0; }
trap 'exit 143' TERM
echo 41 >/opt/ml/checkpoints/step
while :; do sleep 0.1; done""",
    "pipe": """
for epoch in 0 1 2; do
  until [ -e /opt/ml/input/data/train_$epoch ]; do sleep 0.05; done
  echo epoch $epoch: $(cat /opt/ml/input/data/train_$epoch)
done""",
}


class Jobs:
    def __init__(self, cloud: BootedCloud) -> None:
        self.cloud = cloud
        self.s3, self.sagemaker, self.logs = (cloud.client(name) for name in ("s3", "sagemaker", "logs"))
        iam = cloud.client("iam")
        document = {"Version": "2012-10-17"}
        iam.create_role(RoleName="trainer", AssumeRolePolicyDocument=json.dumps(document | {"Statement": [TRUST]}))
        iam.put_role_policy(
            RoleName="trainer", PolicyName="p", PolicyDocument=json.dumps(document | {"Statement": [MAY]})
        )
        self.s3.create_bucket(Bucket="jobs")
        for number in range(OBJECTS):
            self.s3.put_object(Bucket="jobs", Key=f"in/{number}", Body=f"{number} ".encode())
        for name, script in SCRIPTS.items():
            self.s3.put_object(Bucket="jobs", Key=f"{name}/code/run.sh", Body=script.encode())

    def start(self, name: str, **more: Any) -> None:
        def channel(called: str, prefix: str, **options: Any) -> dict[str, Any]:
            source = {"S3DataType": "S3Prefix", "S3Uri": f"s3://jobs/{prefix}/"}
            return {"ChannelName": called, "DataSource": {"S3DataSource": source | options.pop("source", {})}} | options

        entry = ["/bin/sh", "/opt/ml/input/data/code/run.sh"]
        channels = [channel("code", f"{name}/code"), channel("train", "in", **more.pop("train", {}))]
        channels += more.pop("also", ())
        request = {
            "TrainingJobName": name,
            "RoleArn": ROLE,
            "AlgorithmSpecification": {
                "TrainingImage": IMAGE, "TrainingInputMode": "File", "ContainerEntrypoint": entry,
                "MetricDefinitions": [{"Name": "loss", "Regex": "loss=([0-9.]+)"}],
            },
            "InputDataConfig": channels,
            "OutputDataConfig": {"S3OutputPath": "s3://jobs/out/"},
            "ResourceConfig": {"InstanceType": "ml.g5.12xlarge", "InstanceCount": 2, "VolumeSizeInGB": 10},
            "StoppingCondition": {"MaxRuntimeInSeconds": 600},
        }  # fmt: skip
        self.sagemaker.create_training_job(**request | more)

    def file_system(self) -> dict[str, Any]:
        """What a request needs to mount one."""
        efs, ec2 = self.cloud.client("efs"), self.cloud.client("ec2")
        self.system = efs.create_file_system(CreationToken="shared")["FileSystemId"]
        subnet = ec2.describe_subnets()["Subnets"][0]
        efs.create_mount_target(FileSystemId=self.system, SubnetId=subnet["SubnetId"])
        source = {"FileSystemId": self.system, "FileSystemType": "EFS", "DirectoryPath": "/",
                  "FileSystemAccessMode": "rw"}  # fmt: skip
        groups = ec2.describe_security_groups(Filters=[{"Name": "vpc-id", "Values": [subnet["VpcId"]]}])
        vpc = {"Subnets": [subnet["SubnetId"]], "SecurityGroupIds": [groups["SecurityGroups"][0]["GroupId"]]}
        return {
            "also": [{"ChannelName": "shared", "DataSource": {"FileSystemDataSource": source}}], "VpcConfig": vpc,
        }  # fmt: skip

    def described(self, name: str) -> dict[str, Any]:
        found: dict[str, Any] = self.sagemaker.describe_training_job(TrainingJobName=name)
        return found

    def ended(self, name: str) -> dict[str, Any]:
        def finished() -> dict[str, Any] | None:
            found = self.described(name)
            return found if found["TrainingJobStatus"] in ("Completed", "Failed", "Stopped") else None

        return patience.wait_for(f"the end of {name}", finished, LIMIT_S)

    def said(self, name: str) -> dict[str, list[str]]:
        """Host -> its lines, of the last attempt."""
        streams = self.logs.describe_log_streams(logGroupName=GROUP, logStreamNamePrefix=f"{name}/")["logStreams"]
        found: dict[str, list[str]] = {}
        for stream in streams:
            host = stream["logStreamName"].partition("/")[2].rpartition("-")[0]
            events = self.logs.get_log_events(
                logGroupName=GROUP, logStreamName=stream["logStreamName"], startFromHead=True
            )["events"]
            found[host] = [event["message"] for event in events]
        return found

    def keys(self, prefix: str) -> list[str]:
        return [found["Key"] for found in self.s3.list_objects_v2(Bucket="jobs", Prefix=prefix).get("Contents", ())]

    def archive(self, key: str) -> dict[str, str]:
        content = self.s3.get_object(Bucket="jobs", Key=key)["Body"].read()
        with tarfile.open(fileobj=io.BytesIO(content)) as archive:
            return {name: archive.extractfile(name).read().decode() for name in archive.getnames()}  # type: ignore[union-attr]


@pytest.fixture(scope="module")
def jobs() -> Iterator[Jobs]:
    with booted("training", 30000) as cloud:
        jobs = Jobs(cloud)
        sharded = {"source": {"S3DataDistributionType": "ShardedByS3Key"}, "InputMode": "FastFile"}
        tensorboard = {"TensorBoardOutputConfig": {"S3OutputPath": "s3://jobs/boards"}}
        shared = jobs.file_system()
        jobs.start("plain", train=sharded, Environment={"TRIES": "0.25"}, **tensorboard, **shared)
        jobs.start("failing")
        jobs.start("crashing")
        jobs.start("stopped", OutputDataConfig={"S3OutputPath": "s3://jobs/out", "CompressionType": "NONE"})
        jobs.start("pipe", train={"InputMode": "Pipe", "ShuffleConfig": {"Seed": 7}})
        jobs.start(
            "spot", EnableManagedSpotTraining=True, CheckpointConfig={"S3Uri": "s3://jobs/states/spot"},
            StoppingCondition={"MaxRuntimeInSeconds": 600, "MaxWaitTimeInSeconds": 1200},
        )  # fmt: skip
        yield jobs
        assert cloud.client("ec2").describe_instances()["Reservations"] == []


def statuses(described: dict[str, Any]) -> list[str]:
    return [each["Status"] for each in described["SecondaryStatusTransitions"]]


def test_two_hosts_meet_read_their_shards_and_leave_their_files(jobs: Jobs) -> None:
    ended, said = jobs.ended("plain"), jobs.said("plain")
    assert ended["TrainingJobStatus"] == "Completed", ended
    assert statuses(ended) == ["Starting", "Downloading", "Training", "Uploading", "Completed"]
    assert set(said) == {"algo-1", "algo-2"}
    for lines in said.values():
        assert {
            "tries: 1", "read-only", "10.0.0.10       algo-1", "10.0.0.11       algo-2", "own-name-resolves",
            f"arn:aws:sts::{ACCOUNT}:assumed-role/trainer/SageMaker", "loss=0.25",
        } <= set(lines), lines  # fmt: skip
        assert any("UnauthorizedOperation" in line for line in lines), lines
    assert [next(x for x in said[host] if x[:1] in "01" and " " in x[:2]) for host in said] == ["0 2 4 ", "1 3 "]
    metric = ended["FinalMetricDataList"][0]
    assert (metric["MetricName"], metric["Value"]) == ("loss", 0.25)
    both = {"algo-1": "algo-1\n", "algo-2": "algo-2\n"}
    assert jobs.archive("out/plain/output/model.tar.gz") == both
    files = jobs.cloud.state_dir / "filesystems" / jobs.system / "files"
    assert {path.name: path.read_text() for path in files.iterdir()} == both
    assert jobs.archive("out/plain/output/output.tar.gz") == both
    assert jobs.keys("boards/") == [f"boards/plain/tensorboard-output/{host}" for host in both]
    assert ended["ModelArtifacts"]["S3ModelArtifacts"] == "s3://jobs/out/plain/output/model.tar.gz"


@pytest.mark.parametrize(
    ("name", "reason"),
    [("failing", "AlgorithmError: loss is NaN\nat step 7"), ("crashing", "AlgorithmError: Exit Code: 139")],
)
def test_a_failing_host_ends_the_job_with_its_reason(jobs: Jobs, name: str, reason: str) -> None:
    ended = jobs.ended(name)
    assert (ended["TrainingJobStatus"], ended["FailureReason"]) == ("Failed", reason)
    assert jobs.keys(f"out/{name}/") == []


def test_a_stopped_job_hears_sigterm_and_keeps_its_model(jobs: Jobs) -> None:
    patience.wait_for("both hosts", lambda: sum("started" in x for x in jobs.said("stopped").values()) == 2, LIMIT_S)
    jobs.sagemaker.stop_training_job(TrainingJobName="stopped")
    assert jobs.described("stopped")["TrainingJobStatus"] in ("Stopping", "Stopped")
    ended = jobs.ended("stopped")
    assert statuses(ended) == ["Starting", "Downloading", "Training", "Stopping", "Uploading", "Stopped"]
    assert jobs.keys("out/stopped/") == ["out/stopped/output/model/weights"]
    assert ended["ModelArtifacts"]["S3ModelArtifacts"] == "s3://jobs/out/stopped/output/model/"
    assert "stopping" in jobs.said("stopped")["algo-1"]


def test_an_interrupted_spot_job_resumes_from_its_checkpoints(jobs: Jobs) -> None:
    patience.wait_for("the checkpoint in S3", lambda: jobs.keys("states/spot/") == ["states/spot/step"], LIMIT_S)
    fault = jobs.cloud.command("fault", "add", "interruption", "--instance-id", "spot", "--delay-s", "0.1")
    assert fault.returncode == 0, fault.stderr
    ended = jobs.ended("spot")
    once = ["Starting", "Downloading", "Training"]
    assert statuses(ended) == [*once, "Interrupted", *once, "Uploading", "Completed"], ended
    assert all("resumed from 41" in lines for lines in jobs.said("spot").values())
    assert ended["BillableTimeInSeconds"] <= ended["TrainingTimeInSeconds"]


def test_a_pipe_has_all_objects_in_another_order_at_every_epoch(jobs: Jobs) -> None:
    ended, said = jobs.ended("pipe"), jobs.said("pipe")
    assert ended["TrainingJobStatus"] == "Completed", ended
    assert said["algo-1"] == said["algo-2"]
    orders = [line.partition(": ")[2].split() for line in said["algo-1"]]
    assert [sorted(order) for order in orders] == [[str(number) for number in range(OBJECTS)]] * 3
    assert len({tuple(order) for order in orders}) == 3
