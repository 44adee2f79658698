"""Jobs that are cancelled while EC2 does not serve their launch: the real resume, with EC2 and Slurm in memory."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from botocore.exceptions import ClientError, ReadTimeoutError
from gpucluster_node import fleet, rates, refusals, retry, slurm
from gpucluster_node.power import failing, groups, joining, journal, last_launches, launch, resume, shortage

NODES = ("train-1", "train-2", "train-3", "train-4")


def refused(code: str, status: int) -> ClientError:
    answer: Any = {"Error": {"Code": code, "Message": "x"}, "ResponseMetadata": {"HTTPStatusCode": status}}
    return ClientError(answer, "RunInstances")


THROTTLED, FAULT = refused("RequestLimitExceeded", 503), refused("InternalError", 500)
UNAVAILABLE, EXPIRED = refused("Unavailable", 503), refused("RequestExpired", 400)
LOST = ReadTimeoutError(endpoint_url="https://ec2")


class World:
    """EC2, which gives an error for each of the first calls and then launches. Slurm, and users who cancel jobs."""

    def __init__(self, errors: Sequence[Exception], cancelled: Mapping[int, Sequence[str]]) -> None:
        """cancelled: number of a pause -> the nodes whose jobs are cancelled during it."""
        self.errors, self.cancelled = list(errors), cancelled
        self.requests: list[dict[str, Any]] = []
        self.updates: list[str] = []
        self.counted: list[str] = []
        self.slept: list[float] = []
        self.asked = self.pauses = 0
        self.answers = True
        self._idle: set[str] = set()

    def sleep(self, seconds: float) -> None:
        self.pauses += 1
        self.slept.append(seconds)
        self._idle |= set(self.cancelled.get(self.pauses, ()))

    def scontrol(self, argv: Sequence[str]) -> str:
        if argv[1] == "update":
            self.updates.append(" ".join(argv[2:]))
            return ""
        self.asked += 1
        if not self.answers:
            raise slurm.SlurmError("Unable to contact slurm controller")
        states = {name: "IDLE" if name in self._idle else "ALLOCATED" for name in argv[3].split(",")}
        return "".join(f"NodeName={name} State={state}+CLOUD+POWERING_UP\n" for name, state in states.items())

    def run_instances(self, **request: Any) -> dict[str, Any]:
        self.requests.append(request)
        if self.errors:
            raise self.errors.pop(0)
        return {"Instances": [_instance(index) for index in range(request["MaxCount"])]}

    def create_tags(self, **_: Any) -> None: ...
    def change_resource_record_sets(self, **_: Any) -> None: ...

    def get_parameter(self, Name: str) -> dict[str, Any]:
        types = [{"instance_type": each, "launch_template_id": f"lt-{each}", "version": 1} for each in "ab"]
        return {"Parameter": {"Value": json.dumps({"instance_types": types, "hosted_zone_id": "Z1"})}}

    @property
    def counts(self) -> list[int]:
        """How many instances each call requested."""
        return [request["MaxCount"] for request in self.requests]

    @property
    def tokens(self) -> int:
        return len({request["ClientToken"] for request in self.requests})


def _instance(index: int) -> dict[str, Any]:
    return {
        "InstanceId": f"i-{index:08x}",
        "State": {"Name": "pending"},
        "PrivateIpAddress": f"10.0.0.{index + 1}",
        "LaunchTime": datetime(2026, 11, 25, tzinfo=UTC),
        "AmiLaunchIndex": index,
    }


@pytest.fixture
def play(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Callable[..., None]:
    def played(world: World, job_id: int | None = None, always_on: int = 0) -> None:
        for module in (joining, resume):
            monkeypatch.setattr(module, "client", lambda service, attempts=0: world)
        monkeypatch.setattr(slurm, "call", world.scontrol)
        monkeypatch.setattr(refusals, "record", lambda partition, code: world.counted.append(code))
        cluster = fleet.Fleet("c", "c.internal", "/c/", (fleet.Partition("train", always_on, 4, "on-demand"),))
        book = journal.Journal(tmp_path)
        record = book.open(NODES)
        launcher = launch.Launcher(cluster, "1", lambda: world, lambda: sum(world.slept), world.sleep, record.waits)
        resume.Resume(cluster, launcher, record).run([groups.Group("train", NODES, job_id)])
        assert book.nodes() == frozenset()
        record.close()

    monkeypatch.setattr(shortage, "_next", {})
    monkeypatch.setattr(last_launches, "FOLDER", tmp_path / "launched")
    monkeypatch.setattr(failing, "pauses", lambda now: {})
    monkeypatch.setattr(launch, "CALLS", rates.TokenBucket(100, 100))
    return played


def down(*nodes: str, is_sure: bool = True) -> str:
    """is_sure: EC2 has said that it launched none, and Slurm need not wait for SuspendTimeout."""
    why = retry.UNWANTED if is_sure else "no job waits for it any longer"
    return f"nodename={','.join(nodes)} state=down reason={why}; next try at once"


def addresses(*nodes: str) -> str:
    given = ",".join(f"10.0.0.{number}" for number in range(1, len(nodes) + 1))
    return f"nodename={','.join(nodes)} nodeaddr={given}"


@pytest.mark.parametrize("job_id", [7, None], ids=["one job", "single-node jobs"])
@pytest.mark.parametrize(
    "error",
    [THROTTLED, EXPIRED, UNAVAILABLE, FAULT, LOST],
    ids=["throttled", "expired", "unavailable", "fault", "lost answer"],
)
def test_a_launch_that_nobody_waits_for_is_abandoned(
    play: Callable[..., None], error: Exception, job_id: int | None
) -> None:
    """Neither with this type nor with the next one. It is no refusal of EC2. Slurm is asked once after each pause, and
    once more when the launch is abandoned."""
    world = World([error] * 4, {2: NODES})
    play(world, job_id)
    assert (world.counts, world.tokens, world.asked) == ([4, 4], 1, 3)
    assert (world.updates, world.counted) == ([down(*NODES, is_sure=error in (THROTTLED, EXPIRED))], [])


@pytest.mark.parametrize("error", [THROTTLED, EXPIRED], ids=["throttled", "expired"])
def test_a_rejected_launch_goes_on_without_the_nodes_of_cancelled_jobs(
    play: Callable[..., None], error: Exception
) -> None:
    world = World([error] * 3, {1: ["train-2"], 3: ["train-4"]})
    play(world)
    assert (world.counts, world.tokens) == ([4, 3, 3, 2], 3)
    assert world.updates == [down("train-2"), down("train-4"), addresses("train-1", "train-3")]


def test_pauses_become_longer_although_jobs_are_cancelled(play: Callable[..., None]) -> None:
    """Also those before calls for fewer nodes."""
    world = World([THROTTLED] * 6, {1: ["train-2"], 2: ["train-3"], 4: ["train-4"]})
    play(world)
    assert world.counts == [4, 3, 2, 2, 1, 1, 1]
    for failures, seconds in enumerate(world.slept, 1):
        assert min(2**failures, 30) / 2 <= seconds <= min(2**failures, 30)


def test_a_launch_is_throttled_no_longer_although_jobs_are_cancelled(play: Callable[..., None]) -> None:
    world = World([THROTTLED] * 200, {10: ["train-2"], 20: ["train-3"]})
    play(world)
    assert set(world.counts) == {4, 3, 2}
    assert launch.PATIENCE_S <= sum(world.slept) <= launch.PATIENCE_S + rates.LONGEST_PAUSE_S
    assert world.updates[-1] == (
        "nodename=train-1,train-4 state=down reason=RequestLimitExceeded: x (a); next try in 120 s"
    )


def test_patience_begins_again_after_a_call_that_ec2_has_served(play: Callable[..., None]) -> None:
    """EC2 lacks capacity for ten minutes and more, and then throttles."""
    lacking = refused("InsufficientInstanceCapacity", 500)
    world = World([lacking] * 2 * 42 + [THROTTLED], {})
    play(world)
    assert sum(world.slept) > launch.PATIENCE_S
    assert world.updates == [addresses(*NODES)]


@pytest.mark.parametrize("error", [UNAVAILABLE, FAULT, LOST], ids=["unavailable", "fault", "lost answer"])
def test_a_request_that_ec2_may_have_accepted_stays_the_same(play: Callable[..., None], error: Exception) -> None:
    """A new call would launch a second time, and EC2 refuses the same token with another number. Nobody sets the nodes
    DOWN meanwhile, because another program could then launch them too."""
    world = World([THROTTLED, error, THROTTLED], {2: ["train-2"]})
    play(world)
    assert (world.counts, world.tokens) == ([4, 4, 4, 4], 1)
    assert world.updates == [addresses(*NODES)]


def test_a_launch_goes_on_while_slurm_does_not_answer(play: Callable[..., None]) -> None:
    world = World([THROTTLED] * 3, {1: NODES})
    world.answers = False
    play(world)
    assert (world.counts, world.tokens, world.updates) == ([4] * 4, 1, [addresses(*NODES)])


def test_nodes_that_are_always_on_need_no_job(play: Callable[..., None]) -> None:
    world = World([THROTTLED] * 2, {1: NODES})
    play(world, always_on=4)
    assert (world.counts, world.tokens, world.updates) == ([4] * 3, 1, [addresses(*NODES)])
