"""A sweep as training jobs: `submit --on sagemaker --sweep`, `results`, `cancel`."""

from __future__ import annotations

import csv
import json
from datetime import UTC, datetime

import pytest
from played import Refusal

NAME = "lr-20260101-000000"
QUOTA = (
    "The account-level service limit 'ml.p3.2xlarge for training job usage' is 2 Instances, with current utilization "
    "of 2 Instances and a request delta of 1 Instances."
)


class Quota:
    """SageMaker with room for some jobs at a time. A job that runs ends at the next ListTrainingJobs but one."""

    def __init__(self, account, has, record, room):
        self.account, self.has, self.record, self.room = account, has, record, room
        self.jobs, self.asked, self.most = {}, [], 0
        has()
        account.answers |= {"CreateTrainingJob": self.create, "PutObject": lambda asked: {}}
        account.answers["DeleteObject"] = lambda asked: {}
        account.answers["ListTags"] = lambda asked: {"Tags": []}

    def running(self):
        return [each for each in self.jobs.values() if each["TrainingJobStatus"] == "InProgress"]

    def create(self, asked):
        if len(self.running()) >= self.room:
            raise Refusal("ResourceLimitExceeded", QUOTA)
        self.asked.append(asked)
        metric = {"MetricName": "loss", "Value": 0.5, "Timestamp": datetime(2026, 1, 1, tzinfo=UTC)}
        self.jobs[asked["TrainingJobName"]] = self.record(
            "starting",
            TrainingJobName=asked["TrainingJobName"],
            Environment=asked["Environment"],
            FinalMetricDataList=[metric],
        )
        self.most = max(self.most, len(self.running()))
        self.has(*self.jobs.values())
        return {"TrainingJobArn": "arn:aws:sagemaker:us-east-1:123456789012:training-job/x"}

    def end_one(self, seconds):
        for each in self.running()[:1]:
            each |= {"TrainingJobStatus": "Completed", "SecondaryStatus": "Completed"}
        self.has(*self.jobs.values())


@pytest.fixture
def sweep(call, account, has, record, monkeypatch, tmp_path):
    """sweep(room, *words): exit code, the last line, stderr, and the played SageMaker."""
    monkeypatch.setattr("gpucluster.sagemaker.found.Found.connect", lambda found: account)
    (tmp_path / "train.py").write_text("print()\n")

    def run(room, *words):
        played = Quota(account, has, record, room)
        monkeypatch.setattr("gpucluster.cli.frame.training_sweep.time.sleep", played.end_one)
        given = ("--name", "lr", "--launcher", "torchrun", "--framework", "torch", "--sweep", "lr=0.1,0.01,1e-3")
        code, out, err = call("submit", "--on", "sagemaker", *given, *words, "--", "python", "train.py")
        return code, out, err, played

    return run


def test_each_element_is_a_training_job(sweep):
    code, out, err, played = sweep(9)
    assert code == 0, err
    assert "each of 3 jobs: " in err
    line = json.loads(out.splitlines()[-1])
    stamp = line["job_id"].removeprefix("lr-")
    assert line["jobs"] == [f"lr-{index}-{stamp}" for index in range(3)]
    assert not any("HyperParameters" in each for each in played.asked)  # AWS's toolkit would make options of them
    arguments = [each["AlgorithmSpecification"]["ContainerArguments"] for each in played.asked]
    assert [each[-1] for each in arguments] == ["--lr=0.1", "--lr=0.01", "--lr=1e-3"]
    assert [each["Environment"]["GPUCLUSTER_SWEEP_LR"] for each in played.asked] == ["0.1", "0.01", "1e-3"]
    states = [each["CheckpointConfig"]["S3Uri"].split("/")[-2] for each in played.asked]
    assert states == ["lr-0", "lr-1", "lr-2"]


@pytest.mark.parametrize(("room", "words", "most"), [(9, ("--max-parallel", "1"), 1), (2, (), 2)])
def test_as_many_at_a_time_as_there_is_room_for(sweep, room, words, most):
    code, out, err, played = sweep(room, *words)
    assert code == 0, err
    assert (len(played.asked), played.most) == (3, most)
    assert ("ml.p3.2xlarge for training job usage" in err) is (room == 2)


def test_a_quota_without_room(sweep):
    code, _, err, played = sweep(0)
    assert (code, played.asked) == (3, [])
    assert "ml.p3.2xlarge for training job usage" in err


def test_the_table_at_the_end(sweep):
    code, out, err, played = sweep(9, "--follow")
    assert code == 0, err
    heading, *rows = out.splitlines()[:-1]
    assert heading.split() == ["element", "lr", "state", "loss", "USD", "reason"]
    assert [row.split()[1:4] for row in rows] == [[lr, "completed", "0.5"] for lr in ("0.1", "0.01", "1e-3")]


def test_the_requests_alone(sweep):
    _, out, _, played = sweep(9, "--dry-run")
    assert [each["Environment"]["GPUCLUSTER_SWEEP_LR"] for each in json.loads(out)] == ["0.1", "0.01", "1e-3"]
    assert played.asked == []


@pytest.mark.parametrize(
    ("words", "said"),
    [(("--array", "0-3"), "a sweep is already an array"), (("--sweep", "epochs="), "sweep")],
)
def test_what_is_refused(sweep, words, said):
    code, _, err, played = sweep(9, *words)
    assert (code, played.asked) == (2, [])
    assert said in err


@pytest.fixture
def swept(has, record):
    failed = {"TrainingJobStatus": "Failed", "SecondaryStatus": "Failed", "FailureReason": "AlgorithmError: boom"}
    has(
        record("starting", TrainingJobName="lr-0-20260101-000000", Environment={"GPUCLUSTER_SWEEP": '{"lr": "0.1"}'}),
        record(
            "completed",
            TrainingJobName="lr-1-20260101-000000",
            Environment={"GPUCLUSTER_SWEEP": '{"lr": "0.2"}'},
            **failed,
        ),
        record("completed", TrainingJobName="other-1-20260101-000000"),
    )


def test_results(call, swept):
    code, out, err = call("results", NAME, "--csv")
    assert code == 0, err
    rows = [*csv.DictReader(out.splitlines())]
    assert [(row["lr"], row["state"], row["reason"]) for row in rows] == [
        ("0.1", "pending", ""),
        ("0.2", "failed", "AlgorithmError: boom"),
    ]


def test_results_of_no_sweep(call, swept):
    code, _, err = call("results", "no-20260101-000000")
    assert code == 2
    assert "SageMaker has no sweep no-20260101-000000" in err


def test_all_jobs_of_a_sweep_are_stopped(call, swept, account):
    account.answers["StopTrainingJob"] = lambda asked: {}
    code, out, err = call("cancel", NAME)
    assert json.loads(out) == {"cancelled": ["lr-0-20260101-000000"]}
    assert "job lr-1-20260101-000000 has already ended" in err
