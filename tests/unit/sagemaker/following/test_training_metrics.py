"""Curves of a training job: its values from the log, its load from CloudWatch."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta

import pytest
from played import Refusal

NAME = "digits-20220216-171413"
LINES = ["[0 algo-1] step 1 loss=0.5", "[1 algo-2] accuracy=0.9", "[0 algo-1] step 2 loss=nan", "[0 algo-1] loss=0.25x"]


@pytest.fixture
def job(account, has, record):
    definitions = [
        {"Name": "loss", "Regex": "step (?:[0-9]+) loss=(\\S+)"},
        {"Name": "accuracy", "Regex": "^accuracy=([0-9.]+)"},
        {"Name": "java", "Regex": "(*)"},
    ]
    has(record("completed", AlgorithmSpecification={"TrainingInputMode": "File", "MetricDefinitions": definitions}))

    def events(asked):
        lines = (
            [] if "nextToken" in asked else [{"timestamp": 1000 * at, "message": text} for at, text in enumerate(LINES)]
        )
        return {"events": lines, "nextForwardToken": "f/1"}

    def load(asked):
        at = datetime(2022, 2, 16, 17, 20, tzinfo=UTC)
        values = {"gpu_util_percent": 80.0, "cpu_percent": 400.0, "memory_gib": 50.0, "gpu_memory_gib": 25.0}
        rows = [(each["Id"], each["Id"].rpartition("_")[0]) for each in asked["MetricDataQueries"]]
        return {"MetricDataResults": [{"Id": key, "Timestamps": [at], "Values": [values[name]]} for key, name in rows]}

    account.answers |= {"GetLogEvents": events, "GetMetricData": load}
    account.answers["DescribeLogStreams"] = lambda asked: {
        "logStreams": [{"logStreamName": f"{NAME}/algo-1-1645031627"}]
    }


def test_values_and_load(call, job, account):
    code, out, err = call("metrics", NAME, "--json")
    assert (code, err) == (0, "")
    found = json.loads(out)
    values = {name: [each["value"] for each in points] for name, points in found["metrics"].items()}
    assert values == {"loss": [0.5, None], "accuracy": [0.9]}
    load = {(each["node"], each["name"]): each["points"][0][1] for each in found["samples"]}
    assert load == {
        (host, name): value
        for host in ("algo-1", "algo-2")
        for name, value in {"gpu_util_percent": 80, "gpu_memory_gib": 4, "cpu_percent": 50, "memory_gib": 30.5}.items()
    }
    (asked,) = [params for name, params in account.calls if name == "GetMetricData"]
    stat = asked["MetricDataQueries"][0]["MetricStat"]
    assert stat["Metric"]["Dimensions"] == [{"Name": "Host", "Value": f"{NAME}/algo-1"}]
    assert stat["Period"] == 3600, "CloudWatch keeps no minutes of a job of 2022"


@pytest.mark.parametrize(("days", "period"), [(1, 60), (16, 300), (64, 3600)])
def test_cloudwatch_is_asked_for_periods_that_it_keeps(call, job, account, has, record, days, period):
    begun = datetime.now(UTC) - timedelta(days=days)
    times = {"TrainingStartTime": begun, "TrainingEndTime": begun + timedelta(hours=1)}
    has(record("completed", **times))
    assert call("metrics", NAME, "--json")[0] == 0
    (asked,) = [params for name, params in account.calls if name == "GetMetricData"]
    assert {each["MetricStat"]["Period"] for each in asked["MetricDataQueries"]} == {period}


def test_one_metric(call, job):
    _, out, _ = call("metrics", NAME, "accuracy", "--json")
    assert [*json.loads(out)["metrics"]] == ["accuracy"]


def test_a_metric_that_it_has_not(call, job):
    code, _, err = call("metrics", NAME, "speed")
    assert code == 2
    assert "has no values of 'speed'" in err
    assert "it has loss, accuracy, gpu_util_percent" in err


def test_values_without_the_permission_for_the_load(call, job, account):
    def refuse(asked):
        raise Refusal("AccessDeniedException", "not authorized to perform: cloudwatch:GetMetricData")

    account.answers["GetMetricData"] = refuse
    code, out, _ = call("metrics", NAME, "--json")
    assert code == 0
    assert "not authorized" in json.loads(out)["lacks"][0]


def test_curves_are_not_followed(call, job):
    assert call("metrics", NAME, "-f")[0] == 2


@pytest.fixture
def shown(monkeypatch):
    """The addresses that TensorBoard gets."""
    found = []

    class Ends:
        def __init__(self, program, address, on, reload_s):
            found.append(address)

        def __enter__(self):
            return self

        def __exit__(self, *_):
            return None

        def wait(self):
            return 0

    monkeypatch.setattr("gpucluster.cli.seeing.viewer.shown", Ends)
    monkeypatch.setattr("gpucluster.cli.seeing.viewer.python", lambda tell: None)
    return found


def test_tensorboard_reads_the_job_s_folder(call, has, record, shown):
    has(record("completed", TensorBoardOutputConfig={"S3OutputPath": "s3://bucket-of-mine/gpucluster/x/tensorboard"}))
    assert call("tensorboard", NAME)[0] == 0
    assert shown == ["s3://bucket-of-mine/gpucluster/x/tensorboard"]


@pytest.mark.parametrize(
    ("words", "said"),
    [((NAME,), "SageMaker copies no event files"), ((NAME, "12"), "takes one training job of SageMaker")],
)
def test_tensorboard_without_them(call, has, record, shown, words, said):
    has(record("completed"))
    code, _, err = call("tensorboard", *words)
    assert code == 2
    assert said in err
