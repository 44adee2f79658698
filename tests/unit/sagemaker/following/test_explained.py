"""`gpucluster why` of training jobs. The texts that prove each cause are in tests/data/why/training.toml."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta

import pytest

from gpucluster.sagemaker.following import explain
from tests.unit.sagemaker.hosts import Job, program

NAME = "digits-20220216-171413"
BEGUN = datetime(2022, 2, 16, 17, 14, 13, tzinfo=UTC)
NOW = BEGUN.timestamp() + 700


@pytest.fixture
def why(account, has, record):
    """why(log, changes of the job): the explanation of a training job."""

    def explained(*log, steps=None, **changes):
        if steps:
            changes["SecondaryStatusTransitions"] = [
                {"Status": status, "StartTime": BEGUN + timedelta(seconds=at), "StatusMessage": message}
                for status, at, message in steps
            ]
        kind = "starting" if changes.get("SecondaryStatus") == "Starting" else "completed"
        has(record(kind, **changes, TrainingJobName=NAME))
        lines = [{"timestamp": 1000, "message": text} for text in log]

        def events(asked):
            return {"events": [] if "nextToken" in asked else lines, "nextForwardToken": "f/1"}

        account.answers |= {
            "GetLogEvents": events,
            "DescribeLogStreams": lambda asked: {"logStreams": [{"logStreamName": f"{NAME}/algo-1-1"}]},
        }
        return explain.of(account, NAME, NOW)

    return explained


FAILED = {"TrainingJobStatus": "Failed", "SecondaryStatus": "Failed"}
RUNS = {"TrainingJobStatus": "InProgress", "SecondaryStatus": "Training"}


def test_a_completed_job_has_its_times(why):
    found = why()
    assert found.state == "completed"
    assert found.lines == [
        f"job {NAME} completed",
        "so far: starts its instances, 94 s; downloads its input, 21 s; trains, 2102 s; uploads its output, 907 s",
    ]


def test_a_job_that_lacks_capacity(why):
    message = "Insufficient capacity error from EC2 while launching instances, retrying!"
    steps = [("Starting", 0, "Launching requested ML instances"), ("Starting", 100, message)]
    found = why(steps=steps, TrainingJobStatus="InProgress", SecondaryStatus="Starting")
    assert (found.state, found.causes) == ("pending", ("sagemaker-no-capacity",))
    assert found.lines[0] == f"job {NAME} starts its instances, 700 s"
    assert f"SageMaker says: {message}" in found.lines


def test_a_job_that_starts_for_long(why):
    steps = [("Starting", 0, "Launching requested ML instances")]
    found = why(steps=steps, TrainingJobStatus="InProgress", SecondaryStatus="Starting")
    assert found.causes == ("sagemaker-starts-long",)


def test_an_interrupted_job(why):
    steps = [("Starting", 0, ""), ("Training", 94, ""), ("Interrupted", 650, "")]
    found = why(steps=steps, TrainingJobStatus="InProgress", SecondaryStatus="Interrupted")
    assert (found.state, found.causes) == ("pending", ("sagemaker-interrupted",))
    assert "its spot instances were interrupted 1 time" in found.lines


@pytest.mark.parametrize(
    ("reason", "causes"),
    [
        ("ClientError: Data download failed:Insufficient disk space", ("sagemaker-data-disk",)),
        # The rank's own error says more than that it was a rank's.
        (
            "AlgorithmError: rank 1 on algo-2 exited with code 1: torch.cuda.OutOfMemoryError: CUDA out of memory.",
            ("gpu-memory",),
        ),
        (
            'AlgorithmError: ExecuteUserScriptError:\nExitCode 1\nErrorMessage "RuntimeError: CUDA out of memory."'
            '\nCommand "/opt/conda/bin/python3.8 train.py"',
            ("gpu-memory",),
        ),
        (
            'AlgorithmError: ExecuteUserScriptError:\nExitCode 1\nErrorMessage "KeyError: 7"\nCommand "python a.py"',
            ("sagemaker-user-script",),
        ),
        # /dev/shm cannot be enlarged there: not the cluster's advice.
        (
            "AlgorithmError: rank 0 on algo-1 exited with code 1: RuntimeError: DataLoader worker (pid 63) is killed "
            "by signal: Bus error.",
            ("sagemaker-shm",),
        ),
        ("AlgorithmError: rank 0 on algo-1 exited with code 1: KeyError: 'lr'", ()),
    ],
)
def test_a_failed_job(why, reason, causes):
    found = why(**FAILED, FailureReason=reason)
    assert (found.state, found.causes) == ("dead", causes)
    assert found.lines[0] == f"job {NAME} failed: {reason.splitlines()[0]}"


def test_the_lines_of_the_rank_that_failed(why):
    log = ["[0 algo-1] other", "[1 algo-2] Traceback", "[1 algo-2] KeyError: 'lr'", "[launcher] the end"]
    found = why(*log, **FAILED, FailureReason="AlgorithmError: rank 1 on algo-2 exited with code 1: KeyError: 'lr'")
    assert found.lines[-3:] == ["the last lines of rank 1:", "  [1 algo-2] Traceback", "  [1 algo-2] KeyError: 'lr'"]


def test_what_our_own_program_in_the_container_writes(why, tmp_path):
    """The log and the reason of a real run of two hosts, whose names are algo-N on AWS."""

    def named(text):
        return text.replace("127.0.0.", "algo-")

    job = Job(tmp_path, hosts=2)
    fails = "import os, time\nif os.environ['RANK'] == '1': {}['lr']\ntime.sleep(1)\n"
    ended = job.run("--launcher", "srun", "--ranks-per-node", "1", *program(tmp_path, fails))
    log = [named(line) for _, out in ended for line in out.splitlines()]
    found = why(*log, **FAILED, FailureReason=f"AlgorithmError: {named(job.failure('127.0.0.2'))}")
    assert found.lines[0] == f"job {NAME} failed: AlgorithmError: rank 1 on algo-2 exited with code 1: KeyError: 'lr'"
    assert "the last lines of rank 1:" in found.lines
    assert found.lines[-1] == "  [1 algo-2] exited with code 1: KeyError: 'lr'"


STALLED = "[0 algo-1] Stalled ranks:", "[0 algo-1] 1: [horovod_allreduce.0]"
WAITS = "[0 algo-1] waiting for remainder of ranks for more than 60 seconds"


@pytest.mark.parametrize(("mode", "cause"), [("Pipe", "sagemaker-stalled-pipe"), ("FastFile", "horovod-stalled")])
def test_stalled_ranks(why, mode, cause):
    source = {"S3DataSource": {"S3DataType": "S3Prefix", "S3Uri": "s3://bucket-of-mine/train/"}}
    inputs = [{"ChannelName": "train", "DataSource": source, "InputMode": mode}]
    found = why(WAITS, *STALLED, **RUNS, InputDataConfig=inputs)
    assert (found.state, found.causes) == ("hung", (cause,))


def test_a_time_limit(why):
    found = why(TrainingJobStatus="Stopped", SecondaryStatus="MaxRuntimeExceeded")
    assert (found.state, found.causes) == ("dead", ("sagemaker-time-limit",))
    assert found.lines[0] == f"job {NAME} reached its time limit of 36000 s"


def test_the_verb(call, why):
    why(**FAILED, FailureReason="CapacityError: Unable to provision requested ML compute capacity.")
    code, out, _ = call("why", NAME, "--json")
    assert code == 0
    assert json.loads(out)["causes"] == ["sagemaker-capacity"]
    _, out, _ = call("why", NAME)
    assert "what to do: submit it again later, or with another `--instance-type` or region" in out
