"""Waiting for a head node that does not answer."""

from __future__ import annotations

import pytest

from gpucluster.errors import AccessError, AwsError, CloudError, NotDeployedError, RemoteError
from gpucluster.following import jobs
from gpucluster.following.patience import LONGEST_PAUSE_S, Patience
from gpucluster.head import queue
from tests.in_process import InProcessRemote


def answers(*given: CloudError | str):
    left = list(given)

    def question() -> str:
        answer = left.pop(0)
        if isinstance(answer, CloudError):
            raise answer
        return answer

    return question


def test_each_reason_is_shown_once_and_each_wait_is_longer() -> None:
    messages: list[str] = []
    slept: list[float] = []
    patience = Patience("12", messages.append, slept.append)
    stopped = RemoteError("the head node i-1 is stopped", "`gpucluster up` starts it again")
    booting = AwsError("SendSSHPublicKey: EC2InstanceStateInvalidException: Instance i-1 is pending, not running")
    assert patience.ask(answers(*[stopped] * 6, booting, "done")) == "done"
    assert messages == [
        "the head node i-1 is stopped (`gpucluster up` starts it again); job 12 continues, and the head node is asked "
        "until it answers",
        booting.message,
        "the head node answers again",
    ]
    assert slept == [2, 4, 8, 16, LONGEST_PAUSE_S, LONGEST_PAUSE_S, LONGEST_PAUSE_S]
    assert patience.ask(answers(booting, "done")) == "done"
    assert slept[-1] == 2, "a later absence begins anew"


@pytest.mark.parametrize("error", [NotDeployedError("the cluster does not exist"), AccessError("expired")])
def test_it_does_not_wait_after_permanent_errors(error: CloudError) -> None:
    messages: list[str] = []
    with pytest.raises(type(error)):
        Patience("12", messages.append, lambda pause: pytest.fail("slept")).ask(answers(error))
    assert messages == []


def test_it_survives_a_head_that_is_lost_between_two_queries(monkeypatch: pytest.MonkeyPatch) -> None:
    """The job's state and its pending reason are two calls: the head node may be terminated between them."""
    running = queue.parse_jobs("12|CONFIGURING|train|1|train-1|0:04|UNLIMITED|x|N/A|digits|None\n")[0]
    found = iter([running, None])
    causes = answers(CloudError("the head node i-1 is shutting-down"))
    monkeypatch.setattr(jobs, "find", lambda remote, job_id: next(found))
    monkeypatch.setattr(jobs.causes, "of", lambda remote, job: causes())
    messages: list[str] = []
    watch = jobs.Watch(InProcessRemote(), "12", messages.append, Patience("12", messages.append, lambda seconds: None))
    assert [watch.ended(), watch.ended()] == [False, True]
    assert messages[0].startswith("the head node i-1 is shutting-down")
    assert messages[-1] == "the head node answers again"
