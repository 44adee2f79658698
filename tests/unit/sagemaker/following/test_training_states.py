"""Training jobs in words and in lists, from what AWS has answered."""

from __future__ import annotations

import csv
from datetime import UTC, datetime, timedelta

import pytest
from played import DATA, Refusal

from gpucluster.errors import AwsError, UsageError
from gpucluster.hardware.instances import INSTANCE_TYPES
from gpucluster.sagemaker import prices
from gpucluster.sagemaker.following import jobs, money
from gpucluster.sagemaker.following.training import Training, clock

NOW = datetime(2023, 4, 5, 15, 31, 8, tzinfo=UTC).timestamp()


def at(second: int) -> datetime:
    return datetime(2023, 4, 5, 15, 30, 0, tzinfo=UTC) + timedelta(seconds=second)


def step(status: str, begun: int, message: str = "") -> dict[str, object]:
    return {"Status": status, "StartTime": at(begun), "StatusMessage": message}


@pytest.mark.parametrize(
    ("status", "secondary", "steps", "state", "words"),
    [
        ("InProgress", "Starting", [step("Starting", 0)], "PENDING", "starts its instances, 68 s"),
        # A new message within a status does not begin it again.
        ("InProgress", "Starting", [step("Starting", 0, "a"), step("Starting", 40, "b")], "PENDING",
         "starts its instances, 68 s"),
        ("InProgress", "Pending", [step("Starting", 0), step("Pending", 8)], "PENDING", "waits for capacity, 60 s"),
        ("InProgress", "Downloading", [step("Starting", 0), step("Downloading", -3)], "RUNNING",
         "downloads its input, 71 s"),
        ("InProgress", "Interrupted", [step("Training", 0), step("Interrupted", 60)], "PENDING",
         "waits for spot instances after an interruption, 8 s"),
        ("Stopping", "Stopping", [step("Stopping", 60)], "COMPLETING", "stops: its ranks have 120 s, 8 s"),
        ("Stopped", "Stopped", [step("Stopped", 60)], "CANCELLED", ""),
        ("Stopped", "MaxRuntimeExceeded", [], "TIMEOUT", "reached its time limit of 86400 s"),
        ("InProgress", "NewAtAws", [step("NewAtAws", 60)], "RUNNING", "NewAtAws, 8 s"),
    ],
)  # fmt: skip
def test_its_state(record, status, secondary, steps, state, words):
    job = Training(
        record("starting", TrainingJobStatus=status, SecondaryStatus=secondary, SecondaryStatusTransitions=steps)
    )
    assert (job.state, job.doing(NOW)) == (state, words)


def test_a_row_of_the_list(record):
    row = jobs.row(Training(record("completed")), "us-east-1")
    assert {key: row[key] for key in ("name", "state", "nodes", "elapsed", "usd", "reason")} == {
        "name": "digits",
        "state": "COMPLETED",
        "nodes": 2,
        "elapsed": "50:30",
        "usd": round(3030.223 / 3600 * 2 * 3.825, 2),
        "reason": "",
    }


def test_spot_saves_what_is_not_billed(record):
    cost = money.of(Training(record("spot")), "us-east-1", NOW)
    assert cost.hours == 14683 / 3600
    assert cost.usd == pytest.approx(14683 / 3600 * 0.9216)
    assert cost.saved_usd == pytest.approx((37026 - 14683) / 3600 * 0.9216)


def test_waiting_for_instances_is_free(record):
    assert money.of(Training(record("starting")), "us-east-1", NOW) == money.Cost(0.0, 0.0)


def test_one_list_for_all_jobs_and_no_others(account, has, record):
    other = record("completed", TrainingJobName="pytorch-training-2022-02-16-17-14-13-461")
    has(record("completed"), record("spot"), record("starting"), other)
    found = jobs.listed(account, 1)
    assert [each.name for each in found] == ["digits-20220216-171413", "digits-20230405-152957"]
    assert [name for name, _ in account.calls].count("ListTrainingJobs") == 1


def test_an_account_with_thousands_of_other_jobs(account, has, record):
    """ListTrainingJobs is not asked for all of them, and our jobs that run are found all the same."""
    has(record("starting"))
    ours, asked = account.answers["ListTrainingJobs"], []

    def listed(params):
        asked.append(params)
        if "StatusEquals" in params:
            return ours(params) if params["StatusEquals"] == "InProgress" else {"TrainingJobSummaries": []}
        names = [f"tuning-{len(asked)}-{index}-abcd" for index in range(100)]
        page = [{**summary, "TrainingJobName": name} for name in names for summary in ours({})["TrainingJobSummaries"]]
        return {"TrainingJobSummaries": page, "NextToken": f"{len(asked)}"}

    account.answers["ListTrainingJobs"] = listed
    assert [each.name for each in jobs.listed(account, 1)] == ["digits-20230405-152957"]
    assert len(asked) == 12
    with pytest.raises(UsageError, match="no training job was submitted"):
        jobs.newest(account)
    assert len(asked) == 22


def test_an_unknown_name(account, has):
    has()
    with pytest.raises(UsageError, match="SageMaker has no training job digits-1 in us-east-1"):
        jobs.describe(account, "digits-1")


def test_another_refusal_stays(account):
    def denied(asked):
        raise Refusal("AccessDeniedException", "not authorized to perform: sagemaker:DescribeTrainingJob")

    account.answers["DescribeTrainingJob"] = denied
    with pytest.raises(AwsError, match="not authorized"):
        jobs.describe(account, "digits-1")


def test_stopping(account, has, record):
    has(record("starting"), record("completed"))
    account.answers["StopTrainingJob"] = lambda asked: {}
    assert jobs.stop(account, "digits-20230405-152957")
    assert account.calls[-1] == ("StopTrainingJob", {"TrainingJobName": "digits-20230405-152957"})
    assert not jobs.stop(account, "digits-20220216-171413")


def test_a_job_that_ends_while_it_is_stopped(account, has, record):
    def refuse(asked):
        message = "The request was rejected because the training job is in status Completed."
        raise Refusal("ValidationException", message)

    has(record("starting"))
    account.answers["StopTrainingJob"] = refuse
    assert not jobs.stop(account, "digits-20230405-152957")


@pytest.mark.parametrize(("seconds", "text"), [(None, ""), (59, "0:59"), (3600, "1:00:00"), (93784, "1-02:03:04")])
def test_times_as_squeue_prints_them(seconds, text):
    assert clock(seconds) == text


ROWS = [*csv.DictReader((DATA / "prices.csv").read_text().splitlines())]


@pytest.mark.parametrize("row", ROWS, ids=[row["instance_type"] for row in ROWS])
def test_prices_are_those_of_aws(row):
    price = prices.of(row["instance_type"], "us-east-1")
    assert price is not None
    assert price.usd == pytest.approx(float(row["usd"]), rel=0.0025)


def test_a_family_without_a_seen_price_has_none():
    seen = {row["instance_type"].removeprefix("ml.").partition(".")[0] for row in ROWS}
    priced = {name.partition(".")[0] for name in INSTANCE_TYPES if prices.factor(name)}
    assert priced <= seen
    assert prices.of("ml.p5.4xlarge", "us-east-1") is None
