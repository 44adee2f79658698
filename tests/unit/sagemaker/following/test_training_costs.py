"""`gpucluster cost` of training jobs: the recorded ones of 2021 and 2022."""

from __future__ import annotations

import csv
import json

import pytest

WHEN = ("--since", "2021-01-01", "--until", "2022-12-31")
OF_TWO = 3030.223 / 3600 * 2 * 3.825
OF_SPOT = 14683 / 3600 * 0.9216
SAVED = (37026 - 14683) / 3600 * 0.9216


@pytest.fixture
def jobs(has, record):
    failed = {"TrainingJobStatus": "Failed", "SecondaryStatus": "Failed", "FailureReason": "AlgorithmError: x"}
    unpriced = {"InstanceType": "ml.p5en.48xlarge", "InstanceCount": 1, "VolumeSizeInGB": 1}
    other = {"TrainingJobName": "other-20220216-171413", "ResourceConfig": unpriced}
    has(record("completed", **failed), record("spot"), record("completed", **other))


@pytest.mark.parametrize(
    ("by", "keys"),
    [
        ("job", ["digits-20210224-215853", "digits-20220216-171413", "other-20220216-171413"]),
        ("day", ["2021-02-24", "2022-02-16"]),
        ("month", ["2021-02", "2022-02"]),
        ("task", ["digits", "other"]),
        ("partition", ["ml.m5.4xlarge", "ml.p3.2xlarge", "ml.p5en.48xlarge"]),
        ("user", ["not recorded"]),
    ],
)
def test_rows(call, jobs, by, keys):
    code, out, _ = call("cost", "--by", by, "--json", *WHEN)
    assert code == 0
    found = json.loads(out)["sagemaker"]
    assert [row[by] for row in found["rows"]] == keys
    assert found["usd"] == round(OF_TWO + OF_SPOT, 2)
    assert found["failed_usd"] == round(OF_TWO, 2)
    assert found["spot_saved_usd"] == round(SAVED, 2)
    assert found["unpriced"] == ["ml.p5en.48xlarge"]


def test_the_table(call, jobs):
    code, out, err = call("cost", "--by", "job", *WHEN)
    assert code == 0
    heading, *rows, total = out.splitlines()
    assert heading.split() == ["job", "name", "user", "state", "instance-hours", "USD", "failed", "spot", "saved"]
    assert rows[0].split()[-4:] == ["4.08", f"{OF_SPOT:.2f}", "0.00", f"{SAVED:.2f}"]
    assert "not known" in rows[2]
    assert total.split()[2:] == [f"{OF_TWO + OF_SPOT:.2f}", f"{OF_TWO:.2f}", f"{SAVED:.2f}"]
    assert "times SageMaker's factor of 2026-09" in err
    assert "without ml.p5en.48xlarge" in err


def test_csv_without_a_cluster(call, jobs):
    _, out, _ = call("cost", "--by", "job", "--csv", *WHEN)
    assert [row["job"] for row in csv.DictReader(out.splitlines())][0] == "digits-20210224-215853"


def test_only_jobs_of_the_time_are_asked_for(call, jobs, account):
    call("cost", *WHEN)
    (asked,) = [params for name, params in account.calls if name == "ListTrainingJobs"]
    assert (asked["CreationTimeAfter"], asked["CreationTimeBefore"]) == (1609459200.0, 1672531200.0)


def test_a_cluster_that_is_away(call, jobs, cluster):
    code, out, err = call("cost", *WHEN)
    assert code == 0
    assert "warning: what the cluster has cost is not shown: the cluster c in us-east-1 does not exist" in err
    assert "2022-02-16" in out
