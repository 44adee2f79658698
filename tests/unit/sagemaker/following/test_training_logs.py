"""Lines of a training job's log, from CloudWatch's streams."""

from __future__ import annotations

import pytest
from played import Refusal

from gpucluster.errors import UsageError
from gpucluster.following.logs import Selection
from gpucluster.sagemaker.following import logs

NAME = "digits-20230405-152957"


class Streams:
    """CloudWatch's streams of two hosts: pages of two lines; at the end the same token comes back."""

    def __init__(self, account):
        self.lines = {"algo-1-1680708597": [], "algo-2-1680708598": []}
        self.refused = 0
        account.answers |= {"DescribeLogStreams": self._streams, "GetLogEvents": self._events}

    def say(self, host, at, text):
        stream = next(each for each in self.lines if each.startswith(f"algo-{host}-"))
        self.lines[stream].append({"timestamp": at, "message": text})

    def _streams(self, asked):
        assert asked == {"logGroupName": "/aws/sagemaker/TrainingJobs", "logStreamNamePrefix": f"{NAME}/"}
        return {"logStreams": [{"logStreamName": f"{NAME}/{each}"} for each in self.lines]}

    def _events(self, asked):
        stream = asked["logStreamName"].removeprefix(f"{NAME}/")
        if self.refused and stream.startswith("algo-2"):
            self.refused -= 1
            raise Refusal("ThrottlingException", "Rate exceeded")
        times = asked.get("startTime", 0), asked.get("endTime", 10**13)
        whole = [each for each in self.lines[stream] if times[0] <= each["timestamp"] < times[1]]
        begin = int(asked.get("nextToken", "f/0").removeprefix("f/"))
        page = whole[begin : begin + 2]
        return {"events": page, "nextForwardToken": f"f/{begin + len(page)}", "nextBackwardToken": "b/0"}


@pytest.fixture
def streams(account, has, record):
    has(record("starting"))
    found = Streams(account)
    found.say(1, 1000, "[sagemaker] algo-1, host 1 of 2: 1 rank, torchrun")
    found.say(2, 1500, "[sagemaker] algo-2, host 2 of 2: 1 rank, torchrun")
    found.say(2, 3000, "[1 algo-2] loss 0.5")
    found.say(1, 2000, "[0 algo-1] loss 0.4")
    found.say(1, 4000, "Traceback (most recent call last):")
    return found


ALL = [
    "[sagemaker algo-1] algo-1, host 1 of 2: 1 rank, torchrun",
    "[sagemaker algo-2] algo-2, host 2 of 2: 1 rank, torchrun",
    "[0 algo-1] loss 0.4",
    "[1 algo-2] loss 0.5",
    "[algo-1] Traceback (most recent call last):",
]


@pytest.mark.parametrize(
    ("selection", "chosen"),
    [
        ({}, ALL),
        ({"rank": "1"}, ALL[3:4]),
        ({"node": "algo-2"}, [ALL[1], ALL[3]]),
        ({"node": "algo-1"}, [ALL[0], ALL[2], ALL[4]]),
        ({"grep": "loss|Trace"}, ALL[2:]),
        ({"tail": 2}, ALL[3:]),
        ({"tail": 1, "grep": "loss"}, ALL[3:4]),
        ({"since": 1.5, "until": 3}, ALL[1:3]),
    ],
)
def test_lines_of_all_hosts_by_time(account, streams, selection, chosen):
    assert [*logs.lines(account, NAME, Selection(**selection))] == chosen


@pytest.mark.parametrize("selection", [{"run": 1}, {"grep": "("}])
def test_what_the_log_has_not(account, streams, selection):
    with pytest.raises(UsageError):
        logs.lines(account, NAME, Selection(**selection))


def test_a_job_without_lines(account, has, record):
    def refuse(asked):
        raise Refusal("ResourceNotFoundException", "The specified log group does not exist.")

    has(record("starting"))
    account.answers["DescribeLogStreams"] = refuse
    assert [*logs.lines(account, NAME)] == []


def test_it_is_followed_to_its_end(account, streams, has, record):
    """Each line once, also of a round in which AWS refuses a call; and those that come after the job's end."""
    told, pauses = [], []

    def pause(seconds):
        pauses.append(seconds)
        if len(pauses) == 1:
            streams.say(1, 5000, "[0 algo-1] loss 0.3")
            streams.refused = 1
            has(record("starting", SecondaryStatus="Training"))
        elif len(pauses) == 3:  # the second is that of the refusal
            streams.say(2, 6000, "[1 algo-2] done")
            has(record("starting", TrainingJobStatus="Completed", SecondaryStatus="Completed"))
        elif len(pauses) == 4:
            streams.say(1, 5500, "[0 algo-1] done")

    found = [*logs.follow(account, NAME, told.append, pause=pause)]
    assert found == [*ALL, "[0 algo-1] loss 0.3", "[1 algo-2] done", "[0 algo-1] done"]
    assert told[0] == f"job {NAME} starts its instances"
    assert told[1] == f"job {NAME} trains"
    assert "Rate exceeded" in told[2]
    assert told[3:] == ["AWS answers again"]
    assert all(10 <= each <= 13 for each in [pauses[0], *pauses[2:]])


def test_the_last_lines_are_followed(account, streams, has, record):
    has(record("completed", TrainingJobName=NAME))
    found = [*logs.follow(account, NAME, print, Selection(tail=1), pause=lambda seconds: None)]
    assert found == ALL[4:]
