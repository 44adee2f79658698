"""How the hosts of a job find each other: names that resolve late, and the meeting at the first host."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

import pytest

from gpucluster_job.sagemaker import names
from gpucluster_job.sagemaker.meeting import FirstHost, OtherHost
from gpucluster_job.settings import GaveUp
from tests.unit.sagemaker.hosts import free_port


def go_on() -> None:
    pass


def test_names_that_resolve_late(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(names, "PAUSE_S", 0.01)
    asked: list[str] = []

    def lookup(host: str) -> str:
        asked.append(host)
        if host == "algo-2" and asked.count(host) < 3:
            raise OSError("Name or service not known")
        return "10.0.0.1"

    names.wait_for(["algo-1", "algo-2"], go_on, lookup=lookup)
    assert (asked.count("algo-1"), asked.count("algo-2")) == (1, 3)


def test_a_name_that_never_resolves(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(names, "PAUSE_S", 0.01)

    def lookup(host: str) -> str:
        raise OSError

    with pytest.raises(GaveUp, match="the names algo-2 algo-3 lead to no address after 0.1 s"):
        names.wait_for(["algo-2", "algo-3"], go_on, longest_s=0.1, lookup=lookup)


def test_a_stopped_job_waits_for_no_name() -> None:
    class Ended(Exception):
        pass

    def check() -> None:
        raise Ended

    def lookup(host: str) -> str:
        raise OSError

    with pytest.raises(Ended):
        names.wait_for(["algo-2"], check, lookup=lookup)


def in_background(work: Callable[[], object]) -> threading.Thread:
    thread = threading.Thread(target=work, daemon=True)
    thread.start()
    return thread


@pytest.mark.parametrize("code", [0, 3])
def test_hosts_begin_together_and_learn_the_end(code: int) -> None:
    port, said = free_port(), list[str]()

    def other(name: str, late_s: float) -> None:
        time.sleep(late_s)
        host = OtherHost("127.0.0.1", port, name, go_on)
        said.append(f"{name} has {host.key}")
        host.ready()
        said.append(f"{name} begins")
        said.append(f"{name} ends with {host.end_of_job()}")
        host.close()

    others = [in_background(lambda name=name, late=late: other(name, late)) for name, late in (("b", 0.0), ("c", 0.5))]  # type: ignore[misc]
    first = FirstHost(port, ["b", "c"], go_on)
    first.gather("ssh-ed25519 AAAA")
    first.end(code, reason="no\nlabel" if code else "")
    for thread in others:
        thread.join(timeout=10)
    assert sorted(said[:2]) == ["b has ssh-ed25519 AAAA", "c has ssh-ed25519 AAAA"]
    end = "(3, 'no label')" if code else "(0, '')"
    assert sorted(said[2:]) == ["b begins", f"b ends with {end}", "c begins", f"c ends with {end}"]


def test_a_host_that_does_not_come() -> None:
    first = FirstHost(free_port(), ["algo-2"], go_on, longest_s=0.2)
    with pytest.raises(GaveUp, match="algo-2 did not come within 0.2 s: their logs say how far they are"):
        first.gather()
    first.end(1)


def test_a_stranger_is_sent_away() -> None:
    port = free_port()
    first = FirstHost(port, ["algo-2"], go_on, longest_s=3.0)
    answers: list[str] = []

    def stranger() -> None:
        with pytest.raises(GaveUp) as refused:
            OtherHost("127.0.0.1", port, "algo-9", go_on)
        answers.append(str(refused.value))

    thread = in_background(stranger)
    with pytest.raises(GaveUp, match="algo-2 did not come"):
        first.gather("key")
    thread.join(timeout=10)
    assert answers == ["127.0.0.1 has ended before the ranks started: its own log says why"]
    first.end(1)


def test_the_first_host_is_lost() -> None:
    port = free_port()
    first = FirstHost(port, ["algo-2"], go_on)
    lost: list[str] = []

    def other() -> None:
        host = OtherHost("127.0.0.1", port, "algo-2", go_on)
        host.ready()
        try:
            host.end_of_job()
        except GaveUp as error:
            lost.append(str(error))
        host.close()

    thread = in_background(other)
    first.gather()
    for line in first._lines.values():
        line.close()
    thread.join(timeout=10)
    first.end(1)
    assert lost == ["the connection to 127.0.0.1 was lost while the job ran"]


def test_no_way_to_the_first_host() -> None:
    with pytest.raises(GaveUp, match="no connection after 0.1 s: .*refused.*: check the rules of its security groups"):
        OtherHost("127.0.0.1", free_port(), "algo-2", go_on, longest_s=0.1)
