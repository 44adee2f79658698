"""ResumePrograms share one process, so that jobs without capacity take the memory of one."""

from __future__ import annotations

import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from types import SimpleNamespace

import pytest
from gpucluster_node.power import in_flight, offers
from gpucluster_node.power.offers import Request

from localcloud.tests import patience

ONE, TWO = Request(["train-1"], [{"job_id": 7}]), Request(["train-2"], [{"job_id": 8}])


@pytest.fixture
def path() -> Iterator[Path]:
    """A socket's path has at most 107 characters."""
    with tempfile.TemporaryDirectory() as folder:
        yield Path(folder) / "offers/bundle-1"


@pytest.fixture
def passed_s(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """Seconds that the test lets pass."""
    passed = [0.0]
    monkeypatch.setattr(offers, "time", SimpleNamespace(monotonic=lambda: time.monotonic() + passed[0]))
    return passed


def stops_accepting(path: Path, passed_s: list[float]) -> None:
    """The program looks at the clock when it gets an offer."""
    passed_s[0] += 1000
    with socket.socket(socket.AF_UNIX) as killed:
        killed.connect(str(path))
    while path.exists():
        time.sleep(0.01)


class Program:
    """A ResumeProgram whose launches end when the test says so."""

    def __init__(self, path: Path, first: Request = ONE) -> None:
        self.accepted: list[Request] = []
        self.launched: list[Request] = []
        self._may_end: dict[str, threading.Event] = {}
        self._pool = ThreadPoolExecutor()
        self.run: Future[None] = self._pool.submit(offers.serve, first, self.accept, path)

    def accept(self, request: Request) -> Callable[[], None]:
        self.accepted.append(request)
        may_end = self._may_end.setdefault(request.nodes[0], threading.Event())

        def launch() -> None:
            assert may_end.wait(30)
            self.launched.append(request)

        return launch

    def end(self, node: str) -> None:
        """Also before the program has accepted it: its thread may begin late."""
        self._may_end.setdefault(node, threading.Event()).set()


def offered(request: Request, path: Path) -> bool:
    """As soon as a program listens."""
    deadline = patience.seconds() + 30
    while patience.seconds() < deadline:
        if offers.accepted(request, path):
            return True
        time.sleep(0.01)
    return False


def test_a_running_program_launches_what_others_offer_and_ends_with_the_last_launch(path: Path) -> None:
    program = Program(path)
    assert offered(TWO, path)
    assert program.accepted == [ONE, TWO]
    program.end("train-1")
    time.sleep(0.1)
    assert not program.run.done()
    assert offered(Request(["train-3"], []), path), "it accepts until all launches have ended"
    program.end("train-2")
    program.end("train-3")
    assert program.run.result(30) is None
    assert sorted(each.nodes[0] for each in program.launched) == ["train-1", "train-2", "train-3"]
    assert not offers.accepted(TWO, path)


def test_the_nodes_are_recorded_when_the_offering_program_ends(path: Path, tmp_path: Path) -> None:
    """Otherwise reconcile would see nodes that nobody launches."""
    may_end = threading.Event()

    def accept(request: Request) -> Callable[[], None]:
        record = in_flight.Record(request.nodes, tmp_path, request.jobs)

        def launch() -> None:
            assert may_end.wait(30)
            record.close()

        return launch

    with ThreadPoolExecutor() as pool:
        run = pool.submit(offers.serve, ONE, accept, path)
        assert offered(TWO, path)
        assert in_flight.nodes(tmp_path) == {"train-1", "train-2"}
        may_end.set()
        run.result(30)
    assert in_flight.nodes(tmp_path) == frozenset()


def test_without_another_program_nobody_accepts(path: Path) -> None:
    assert not offers.accepted(ONE, path)


def test_the_socket_of_a_killed_program_is_replaced(path: Path) -> None:
    path.parent.mkdir()
    with socket.socket(socket.AF_UNIX) as killed:
        killed.bind(str(path))
    assert not offers.accepted(ONE, path)
    program = Program(path)
    assert offered(TWO, path)
    program.end("train-1")
    program.end("train-2")
    program.run.result(30)


def test_after_a_while_a_program_accepts_no_more_and_another_one_does(path: Path, passed_s: list[float]) -> None:
    first = Program(path)
    assert offered(TWO, path)
    stops_accepting(path, passed_s)
    assert not offers.accepted(Request(["train-3"], []), path)
    second = Program(path, Request(["train-3"], []))
    assert offered(Request(["train-4"], []), path)
    assert [each.nodes for each in second.accepted] == [["train-3"], ["train-4"]]
    assert not first.run.done()
    for program, nodes in ((first, ("train-1", "train-2")), (second, ("train-3", "train-4"))):
        for node in nodes:
            program.end(node)
        program.run.result(30)


def test_a_program_that_begins_beside_another_one_launches_its_own_nodes(path: Path) -> None:
    first = Program(path)
    assert offered(TWO, path)
    second = Program(path, Request(["train-3"], []))
    assert offered(Request(["train-4"], []), path)
    second.end("train-3")
    second.run.result(30)
    assert [each.nodes for each in first.accepted] == [["train-1"], ["train-2"], ["train-4"]]
    for node in ("train-1", "train-2", "train-4"):
        first.end(node)
    first.run.result(30)


def test_an_offer_that_cannot_be_recorded_stays_with_its_program(path: Path) -> None:
    may_end = threading.Event()

    def accept(request: Request) -> Callable[[], None]:
        if request == TWO:
            raise OSError("no space left on device")
        return lambda: None if may_end.wait(30) else pytest.fail("not ended")

    with ThreadPoolExecutor() as pool:
        run = pool.submit(offers.serve, ONE, accept, path)
        while not path.exists():
            time.sleep(0.01)
        assert not offers.accepted(TWO, path)
        assert not run.done()
        may_end.set()
        run.result(30)


def test_a_program_that_is_killed_during_its_offer_disturbs_nobody(path: Path) -> None:
    program = Program(path)
    assert offered(TWO, path)
    for words in (b"", b'[["train-3"], [{"job'):
        with socket.socket(socket.AF_UNIX) as killed:
            killed.connect(str(path))
            killed.sendall(words)
    assert offered(Request(["train-4"], []), path)
    assert [each.nodes for each in program.accepted] == [["train-1"], ["train-2"], ["train-4"]]
    for node in ("train-1", "train-2", "train-4"):
        program.end(node)
    program.run.result(30)


def test_an_offer_whose_program_has_not_waited_is_not_launched(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """That program has launched the nodes itself, and no longer records them."""
    monkeypatch.setattr(offers, "ANSWER_S", 0.2)
    may_accept, program = threading.Event(), Program(path)

    def accept(request: Request) -> Callable[[], None]:
        assert may_accept.wait(30)
        return program.accept(request)

    assert offered(TWO, path)
    with ThreadPoolExecutor() as pool:
        busy = path.with_name("busy")
        run = pool.submit(offers.serve, Request(["train-3"], []), accept, busy)
        while not busy.exists():
            time.sleep(0.01)
        assert not offers.accepted(Request(["train-4"], []), busy)
        may_accept.set()
        assert offered(Request(["train-5"], []), busy)
        assert [each.nodes[0] for each in program.accepted] == ["train-1", "train-2", "train-3", "train-5"]
        for number in (1, 2, 3, 5):
            program.end(f"train-{number}")
        run.result(30)
        program.run.result(30)


def test_a_program_ends_after_hundreds_of_launches_though_it_no_longer_accepts(
    path: Path, passed_s: list[float]
) -> None:
    """A socket holds fewer than 300 unread messages."""
    may_end, launched = threading.Event(), list[str]()

    def accept(request: Request) -> Callable[[], None]:
        def launch() -> None:
            assert may_end.wait(60)
            launched.append(request.nodes[0])

        return launch

    with ThreadPoolExecutor() as pool:
        run = pool.submit(offers.serve, ONE, accept, path)
        assert all(offered(Request([f"more-{number}"], []), path) for number in range(320))
        stops_accepting(path, passed_s)
        may_end.set()
        run.result(30)
    assert len(launched) == 321


def test_a_failed_launch_is_raised_when_all_have_ended(path: Path) -> None:
    may_end = threading.Event()

    def accept(request: Request) -> Callable[[], None]:
        def launch() -> None:
            if request == ONE:
                raise RuntimeError("no fleet.json")
            assert may_end.wait(30)

        return launch

    def slowly(request: Request) -> Callable[[], None]:
        launch = accept(request)
        return launch if request == TWO else lambda: (time.sleep(0.3), launch())[1]

    with ThreadPoolExecutor() as pool:
        run = pool.submit(offers.serve, ONE, slowly, path)
        assert offered(TWO, path)
        time.sleep(0.5)
        assert not run.done()
        may_end.set()
        with pytest.raises(RuntimeError, match=r"no fleet\.json"):
            run.result(30)


def test_where_no_socket_can_be_made_a_program_launches_its_own_nodes(path: Path) -> None:
    program = Program(path.with_name("x" * 200))
    program.accept(ONE)
    program.end("train-1")
    program.run.result(30)
    assert program.launched == [ONE]


def test_a_program_offers_its_nodes_before_it_loads_awss_libraries() -> None:
    code = "import sys; import gpucluster_node.power.resume_program; print('botocore' in sys.modules)"
    folder = Path(offers.__file__).parents[2]
    done = subprocess.run([sys.executable, "-c", code], cwd=folder, capture_output=True, text=True, check=True)
    assert done.stdout == "False\n"
