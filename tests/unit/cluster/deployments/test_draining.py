"""Draining nodes and resuming them, with a small stand-in for Slurm that keeps states and reasons like the real one."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import pytest

from gpucluster.cluster import draining
from gpucluster.cluster.draining import REASON, Drained, kept_out_of_service, nodes_above
from gpucluster.errors import RemoteError
from gpucluster.head import slurm
from gpucluster.head.remote import Completed

NODES = ["train-1", "train-2", "train-3", "cpu-1"]


class PlayedSlurm:
    """A `Remote` to a Slurm with these nodes' states. Powering down ends a drain, as in Slurm 24.11."""

    def __init__(self, jobs: Sequence[str] = (), asked_before_end: int = 0) -> None:
        self.states = dict.fromkeys(NODES, "idle")
        self.reasons = dict.fromkeys(NODES, "none")
        self.jobs = list(jobs)
        self.left = asked_before_end
        self.answers = True
        self.updates: list[tuple[str, str]] = []
        self.meanwhile: Callable[[], None] = lambda: None

    def run(self, argv: Sequence[str], *, input: bytes | None = None, timeout_s: float = 60) -> Completed:
        if not self.answers:
            raise RemoteError("the head node refuses a session")
        words = [word for word in argv if word != "sudo"]
        return Completed(
            0, {"scontrol": self._update, "squeue": self._squeue, "sinfo": self._sinfo}[words[0]](words), ""
        )

    def _update(self, words: Sequence[str]) -> str:
        given = dict(word.split("=", 1) for word in words[2:])
        self.updates.append((given["nodename"], given["state"]))
        for node in self._expand(given["nodename"]):
            self.states[node] = {"drain": "drained", "resume": "idle"}.get(given["state"], "powering_down")
            self.reasons[node] = given.get("reason", self.reasons[node])
        return ""

    def _expand(self, names: str) -> list[str]:
        wanted = names.replace("train-[1-3]", "train-1,train-2,train-3").replace("train-[2-3]", "train-2,train-3")
        return wanted.split(",")

    def _squeue(self, words: Sequence[str]) -> str:
        self.left -= 1
        lines = [f"{job}|RUNNING|train|1|train-1|0:10|1:00:00|x|x|job {job}|None\n" for job in self.jobs]
        over = "6|COMPLETED|train|1|train-1|0:10|1:00:00|x|x|job 6|None\n"
        listed = over + ("".join(lines) if self.left >= 0 else "")
        self.meanwhile()
        return listed

    def _sinfo(self, words: Sequence[str]) -> str:
        asked = [self._expand(word.removeprefix("--nodes=")) for word in words if word.startswith("--nodes=")]
        names = asked[0] if asked else NODES
        return "".join(f"{name}|{name[:-2]}|{self.states[name]}|x|{self.reasons[name]}\n" for name in names)

    def put(self, data: bytes, path: str, mode: int = 0o644) -> None:
        raise AssertionError

    get = follow = put  # type: ignore[assignment]

    def close(self) -> None:
        pass


@pytest.fixture
def messages(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    monkeypatch.setattr(draining, "POLL_S", 0.001)
    return []


def drained(played: PlayedSlurm, messages: list[str], nodes: Sequence[str] = ("train-[1-3]",)) -> Drained:
    return Drained(lambda: played, nodes, messages.append)


def ending(*names: str, asked: int = 2) -> Callable[[], set[str]]:
    """Instances that exist at the first few queries."""
    looks = [set(names)] * asked
    return lambda: looks.pop() if looks else set()


@pytest.mark.parametrize(
    ("drains", "nodes"),
    [
        ({"train": 0}, ["train-[1-3]"]),
        ({"train": 1, "cpu": 0}, ["train-[2-3]", "cpu-1"]),
        ({"train": 2}, ["train-3"]),
    ],
)
def test_the_nodes_of_a_drain(drains: dict[str, int], nodes: list[str]) -> None:
    assert nodes_above(drains, {"train": 3, "cpu": 1}) == nodes


def test_jobs_end_first_then_the_nodes_and_all_are_taken_back(messages: list[str]) -> None:
    played = PlayedSlurm(["7", "8"], asked_before_end=3)
    with kept_out_of_service(drained(played, messages), ending("train-1", "train-2")):
        assert played.states == {**dict.fromkeys(NODES, "drained"), "cpu-1": "idle"}
        assert played.left < 0, "no job runs any more"
    assert set(played.states.values()) == {"idle"}
    assert [state for _, state in played.updates] == ["drain", "power_down_force", "drain", "drain", "resume"]
    assert [line for line in messages if "waiting" in line] == [
        "waiting for 2 jobs: 7 (job 7, 0:10 of 1:00:00), 8 (job 8, 0:10 of 1:00:00)"
    ]
    assert messages[-1] == "back in service: train-1 train-2 train-3"


def test_a_node_whose_power_down_has_ended_waits_drained_for_the_others(messages: list[str]) -> None:
    """Slurm ends the drain of a node that it powers down, and the head node lets Slurm use it again soon."""
    played = PlayedSlurm()
    looks = iter([{"train-1", "train-2"}, {"train-1", "train-2"}, {"train-2"}, {"train-2"}, set[str]()])
    seen: list[str] = []

    def instances() -> set[str]:
        seen.append(played.states["train-1"])
        if len(seen) == 3:
            played.states["train-1"] = "idle~"
        return next(looks)

    drained(played, messages).power_down(instances)
    assert seen == ["idle", "powering_down", "drained", "drained", "drained"]


def test_nodes_without_instances_are_not_powered_down(messages: list[str]) -> None:
    played = PlayedSlurm()
    with kept_out_of_service(drained(played, messages), ending(asked=0)):
        pass
    assert [state for _, state in played.updates] == ["drain", "resume"]


@pytest.mark.parametrize("state", ["powering_down%", "idle~", "allocated#"])
def test_a_node_that_slurm_powers_down_meanwhile_is_drained_again(messages: list[str], state: str) -> None:
    """Slurm ends its drain, so that a pending job may get it (power_save.c: _do_power_work)."""
    played = PlayedSlurm(["7"], asked_before_end=3)

    def idle_long_enough() -> None:
        if played.left == 1:
            played.states["train-3"] = state
            played.states["train-2"], played.reasons["train-2"] = "drained", "health: GPU 3 is lost"

    played.meanwhile = idle_long_enough
    with kept_out_of_service(drained(played, messages), None):
        assert played.states == {**dict.fromkeys(NODES, "drained"), "cpu-1": "idle"}
    assert played.updates == [("train-[1-3]", "drain"), ("train-3", "drain"), ("train-1,train-3", "resume")]
    assert played.states["train-2"] == "drained", "its own reason still holds"


def test_a_node_that_is_down_is_left_alone_while_jobs_run(messages: list[str]) -> None:
    """The head node tries it again at the time in its reason."""
    played = PlayedSlurm(["7"], asked_before_end=2)
    played.meanwhile = lambda: played.states.update({"train-3": "down%"})
    drained(played, messages).wait_for_jobs()
    assert ("train-3", "drain") not in played.updates


def test_an_interruption_while_jobs_run_takes_the_nodes_back(
    messages: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    played = PlayedSlurm(["7"], asked_before_end=100)
    monkeypatch.setattr(draining.time, "sleep", lambda seconds: (_ for _ in ()).throw(KeyboardInterrupt))
    with pytest.raises(KeyboardInterrupt), kept_out_of_service(drained(played, messages), ending("train-1")):
        raise AssertionError("the change was made")
    assert set(played.states.values()) == {"idle"}
    assert "power_down_force" not in [state for _, state in played.updates]


def test_a_change_that_fails_is_what_is_reported(messages: list[str]) -> None:
    played = PlayedSlurm()
    with pytest.raises(ValueError, match="deploy failed"), kept_out_of_service(drained(played, messages), None):
        played.answers = False
        raise ValueError("deploy failed")
    assert messages[-1] == "train-[1-3] may still be drained: the head node refuses a session"


def test_nodes_drained_by_others_stay_drained(messages: list[str]) -> None:
    played = PlayedSlurm()
    played.run(slurm.node_state_argv("train-2", "drain", "bad GPU"))
    played.reasons["cpu-1"] = REASON  # an old reason: the node is in service
    drained(played, messages).end()
    assert played.states["train-2"] == "drained" and messages == []


def test_a_drained_node_that_did_not_answer_is_taken_back(messages: list[str]) -> None:
    """Slurm has appended its own reason."""
    played = PlayedSlurm()
    played.states["train-2"], played.reasons["train-2"] = "down*", f"{REASON} : Not responding"
    drained(played, messages).end()
    assert played.states["train-2"] == "idle"
