"""An account with training jobs, as played.py answers for it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from played import Played, Refusal, described


@pytest.fixture
def account() -> Played:
    return Played()


@pytest.fixture
def record() -> Callable[..., dict[str, Any]]:
    return described


@pytest.fixture
def has(account: Played) -> Callable[..., None]:
    """has(answer, …): the account has these training jobs."""

    def set_jobs(*found: dict[str, Any]) -> None:
        by_name = {each["TrainingJobName"]: each for each in found}

        def describe(asked: dict[str, Any]) -> dict[str, Any]:
            if asked["TrainingJobName"] not in by_name:
                raise Refusal("ValidationException", "Requested resource not found.")
            return by_name[asked["TrainingJobName"]]

        def listed(asked: dict[str, Any]) -> dict[str, Any]:
            members = ("TrainingJobName", "TrainingJobArn", "CreationTime", "TrainingJobStatus")
            newest = sorted(found, key=lambda each: each["CreationTime"], reverse=True)
            return {"TrainingJobSummaries": [{key: each[key] for key in members} for each in newest]}

        account.answers |= {"DescribeTrainingJob": describe, "ListTrainingJobs": listed}

    return set_jobs
