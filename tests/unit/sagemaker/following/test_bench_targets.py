"""`gpucluster bench --targets sagemaker`: training jobs are played, each with its values in the log."""

from __future__ import annotations

import json

import pytest

from gpucluster.measure import settings
from gpucluster.measure.report import report, table
from gpucluster.measure.runs import Run

METRIC = ("--metrics", r"throughput=images/s: (\S+)")
COMMAND = ("--", "python", "train.py", "--seed", "{seed}")


@pytest.fixture
def bench(call, account, has, record, monkeypatch, tmp_path):
    """bench(*words); `bench.asked`: the requests. A job's speed is 100 on each host."""
    asked, made = [], {}

    def create(request):
        name = f"{request['TrainingJobName'].rpartition('-')[0]}-{len(asked):06}"
        asked.append(request)
        failed = {"TrainingJobStatus": "Failed", "SecondaryStatus": "Failed", "FailureReason": "AlgorithmError: boom"}
        changes = failed if "--break" in request["AlgorithmSpecification"]["ContainerArguments"] else {}
        algorithm = {key: request["AlgorithmSpecification"][key] for key in ("TrainingInputMode", "MetricDefinitions")}
        made[request["TrainingJobName"]] = record(
            "completed",
            TrainingJobName=request["TrainingJobName"],
            ResourceConfig=request["ResourceConfig"],
            AlgorithmSpecification=algorithm,
            **changes,
        )
        has(*made.values())
        return {"TrainingJobArn": f"arn:aws:sagemaker:us-east-1:123456789012:training-job/{name}"}

    def events(request):
        hosts = made[request["logStreamName"].partition("/")[0]]["ResourceConfig"]["InstanceCount"]
        lines = [{"timestamp": at, "message": f"[0 algo-1] images/s: {100 * hosts + at}"} for at in (1, 2, 3)]
        return {"events": [] if "nextToken" in request else lines, "nextForwardToken": "f/1"}

    has()
    account.answers |= {"PutObject": lambda request: {}, "CreateTrainingJob": create, "GetLogEvents": events}
    account.answers["DescribeLogStreams"] = lambda request: {
        "logStreams": [{"logStreamName": f"{request['logStreamNamePrefix']}algo-1-1645031627"}]
    }
    monkeypatch.setattr("gpucluster.sagemaker.found.Found.connect", lambda found: account)
    monkeypatch.setattr("gpucluster.cli.training.benching.Account", lambda target, make: account)
    monkeypatch.setattr("gpucluster.sagemaker.following.logs.POLL_S", 0)
    monkeypatch.setattr("gpucluster.sagemaker.following.logs.JITTER_S", 0)
    (tmp_path / "train.py").write_text("print()\n")

    def run(*words):
        return call("bench", *words, *METRIC, *COMMAND)

    run.asked = asked
    return run


def test_each_setting_is_a_training_job(bench):
    words = (
        "--targets",
        "sagemaker",
        "--nodes",
        "1,2",
        "--launchers",
        "torchrun,srun",
        "--repeats",
        "1",
        "--seed",
        "7",
    )
    code, out, err = bench(*words)
    assert code == 0, err
    assert [each["ResourceConfig"]["InstanceCount"] for each in bench.asked] == [1, 2, 1, 2]
    arguments = [each["AlgorithmSpecification"]["ContainerArguments"] for each in bench.asked]
    assert [each[1] for each in arguments] == ["torchrun", "torchrun", "srun", "srun"]
    assert all(each[-2:] == ["--seed", "7"] for each in arguments)
    assert not any("CheckpointConfig" in each for each in bench.asked)  # no run of a task: none is skipped
    found = json.loads(out.splitlines()[-1])["settings"]
    assert [(each["target"], each["nodes"], each["throughput"]["mean"]) for each in found] == [
        ("sagemaker", nodes, 100 * nodes + 2) for nodes in (1, 2, 1, 2)
    ]
    assert out.splitlines()[0].split()[:3] == ["target", "launcher", "variant"]
    assert "1/4 sagemaker torchrun on 1 node: job " in err


def test_a_run_that_fails(bench):
    code, out, err = bench("--targets", "sagemaker", "--nodes", "1", "--repeats", "1", "--variant", "break=")
    assert code == 4
    assert "boom" in err


def test_the_runs_are_listed_before(bench, cluster):
    code, out, err = bench("--targets", "slurm,sagemaker", "--nodes", "1", "--repeats", "2", "--dry-run")
    assert code == 0, err
    assert out.splitlines() == ["slurm torchrun on 1 node", "sagemaker torchrun on 1 node"] * 2
    assert bench.asked == []


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--targets", "aws"), "must be of slurm, sagemaker, got 'aws'"),
        (("--targets", "sagemaker", "--feed"), "--targets: it measures the feed on the cluster"),
        (("--targets", "sagemaker", "--launchers", "smddp"), "SMDDP does not support ml.p3.2xlarge"),
    ],
)
def test_what_cannot_be_compared(bench, words, said):
    code, _, err = bench(*words)
    assert code == 2
    assert said in err


def test_both_targets_in_one_table(record):
    from gpucluster.following.jobs import Ending
    from gpucluster.sagemaker.following.ending import result
    from gpucluster.sagemaker.following.training import Training

    there = Ending("COMPLETED", result(Training(record("completed")), {}))
    made = settings.settings(["torchrun"], [], [2], targets=settings.TARGETS)
    heading, *rows = table(report([Run(each, "1", there, 2) for each in made], []))
    assert [row[0] for row in rows] == ["slurm", "sagemaker"]
    assert rows[1][heading.index("throughput, runs/hour")] == f"{3600 / 2102.055:.4g}"
