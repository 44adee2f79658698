"""`gpucluster top`: what fits into which terminal, and what happens while the head node is away."""

from __future__ import annotations

import io
import json
import os
import pty
import sys
import time
from collections.abc import Iterator
from contextlib import nullcontext
from dataclasses import replace

import pytest
from rich.console import Console

from gpucluster.cli import main
from gpucluster.cli.seeing import keys, picture, top
from gpucluster.cli.seeing.blocks import block, line
from gpucluster.cli.seeing.feed import Feed, History, Seen, load_percent
from gpucluster.errors import RemoteError
from gpucluster.following import overview
from gpucluster.following.overview import JobRow, NodeRow, Overview
from gpucluster.following.usage import GpuNow, NodeNow, Series
from localcloud.testing import patience

EVIL = "x\n99\x1b]0;owned\x07[bold]\u202e"


def gpu(index: int, percent: float, *throttled: str) -> GpuNow:
    return GpuNow(index, percent, 40.0, 80.0, 500.0, 61.0, throttled)


def node(number: int, percent: float = 90.0, *, gpus: int = 8, job: str = "7", at_s: float = 100.0) -> NodeRow:
    name = f"train-{number}"
    now = NodeNow(name, at_s, 25.0, 512.0, 2048.0, tuple(gpu(each, percent) for each in range(gpus)))
    return NodeRow(name, "train", "allocated" if job else "idle", "p5.48xlarge", (job,) if job else (), now, "")


def job(number: int, nodes: str = "", **fields: object) -> JobRow:
    reason = "" if nodes else "it is next in the queue"
    found = {"job_id": str(number), "name": "digits", "user": "ann", "state": "RUNNING" if nodes else "PENDING"}
    return JobRow(**{**found, "nodes": 2, "node_list": nodes, "elapsed_s": 93784.0, "reason": reason,
                     "usd_per_hour": 98.32 if nodes else None, **fields})  # type: ignore[arg-type]  # fmt: skip


OFF = NodeRow("train-9", "train", "idle (powered off until a job needs it)", "", (), None, "", running=False)
DOWN = NodeRow("train-8", "train", "down (does not respond)", "", ("7",), None, "Not responding", available=False)
SMALL = Overview(
    1764400000.0, (node(1), node(2, 5.0), OFF, DOWN), (job(7, "train-[1-2]"), job(8, name=EVIL)), 196.64, ()
)
LARGE = Overview(1764400000.0, tuple(map(node, range(1, 65))), tuple(map(job, range(5000))), 6292.48, ())


def console(width: int, height: int = 24, **more: object) -> Console:
    return Console(file=io.StringIO(), width=width, height=height, record=True, **more)  # type: ignore[arg-type]


def drawn(seen: Overview | Seen, width: int = 120, height: int | None = 40) -> str:
    found = seen if isinstance(seen, Seen) else Seen(seen, time.monotonic())
    on = console(width, height or 24)
    on.print(picture.of(found, "digits", width, height))
    return on.export_text(clear=False)


def test_nodes_jobs_and_price() -> None:
    text = drawn(SMALL)
    title, *rows = text.splitlines()
    assert (
        title == "digits  3 of 4 nodes run  16 GPUs at 48 %  $196.64 an hour  jobs: 1 running, 1 pending  07:06:40 UTC"
    )
    (first,) = (" ".join(row.split()) for row in rows if row.startswith("train-1 "))
    assert first == "train-1 7 25 % 512/2048 GiB ████████ 90 % 320/640 GiB 4.0 kW 61 °C"
    assert "train-8  7 does not respond" in text
    assert "powered off: 1 of train" in text
    (running,) = (row.split() for row in rows if row.startswith("7 "))
    assert running == ["7", "ann", "digits", "running", "2", "1-02:03:04", "98.32", "train-[1-2]"]
    assert "train-8 is down (does not respond): Not responding" in text


def test_a_users_text_cannot_move_the_cursor_or_add_a_row() -> None:
    text = drawn(SMALL, 160)
    (row,) = (each for each in text.splitlines() if each.startswith("8 "))
    assert r"x\n99\x1b]0;owned\x07[bold]\u202e" in row
    assert not any(each.startswith("99") for each in text.splitlines())


@pytest.mark.parametrize("width", [40, 80, 100, 120, 200])
@pytest.mark.parametrize("height", [12, 24, 60])
@pytest.mark.parametrize("seen", [SMALL, LARGE], ids=["small", "large"])
def test_a_picture_fits_its_terminal(seen: Overview, width: int, height: int) -> None:
    rows = drawn(seen, width, height).splitlines()
    assert len(rows) <= height
    assert max(map(len, rows)) <= width


def test_a_long_name_is_cut_before_it_is_measured() -> None:
    """Two thousand jobs with names of a thousand emoji took half a minute."""
    long = replace(SMALL.jobs[0], name="\U0001f468\u200d" * 1000, reason="x" * 5000)
    assert max(len(text.plain) for text in picture._job(long, with_price=True)) < 3000


def test_64_nodes_of_8_gpus_fit_a_terminal_of_80_columns() -> None:
    text = drawn(LARGE, 80, 24)
    assert sum(text.count(each) for each in "▁▂▃▄▅▆▇█") == 512
    assert text.splitlines()[2].startswith("train- 1 ████████   2 ████████")
    assert "more jobs" in text


def test_without_a_terminal_nothing_is_left_out() -> None:
    text = drawn(LARGE, 120, None)
    assert all(f"train-{number} " in text for number in range(1, 65))
    assert "more" not in text


def test_only_a_gpu_that_a_job_leaves_idle_is_red() -> None:
    def colours(*nodes: NodeRow) -> set[str]:
        on = console(120)
        on.print(picture.of(Seen(Overview(0.0, nodes, (), None, ()), time.monotonic()), "digits", 120, 40))
        return {str(span.style) for each in nodes for span in picture._gpus(each).spans}

    assert colours(node(1, 5.0)) == {"red"}
    assert colours(node(1, 5.0, job="")) == {"bright_black"}
    assert colours(node(1, 95.0)) == {"green"}


def test_lowered_clocks_are_one_note() -> None:
    now = NodeNow("train-1", 1.0, 25.0, 1.0, 2.0, tuple(gpu(each, 99.0, "too hot") for each in range(8)))
    hot = NodeRow("train-1", "train", "allocated", "p5.48xlarge", ("7",), now, "")
    text = drawn(Overview(0.0, (hot,), (), None, ()))
    assert "clocks are lowered (too hot): train-1 GPU 0, train-1 GPU 1, train-1 GPU 2 and 5 more" in text


def test_a_cluster_without_samples_says_so_and_shows_the_rest() -> None:
    bare = NodeRow("train-1", "train", "allocated", "p5.48xlarge", ("7",), None, "")
    text = drawn(Overview(0.0, (bare,), (job(7, "train-1"),), None, ("this cluster has no samples",)))
    assert "this cluster has no samples" in text
    assert "GPUs at" not in text and "$98" not in text.splitlines()[0]
    assert any(row.split() == ["train-1", "7"] for row in text.splitlines())


def test_blocks() -> None:
    assert [block(share) for share in (-1.0, 0.0, 0.5, 0.99, 1.0, 7.0)] == ["▁", "▁", "▅", "█", "█", "█"]
    assert block(float("nan")) == "▁"
    assert line([0, 50, 100], 5) == "  ▁▅█"
    assert line([0, 50, 100], 2) == "▅█"


def test_a_sample_is_kept_once() -> None:
    history = History()
    for at_s, percent in ((1.0, 10.0), (1.0, 10.0), (2.0, 30.0)):
        history.take((node(1, percent, at_s=at_s),))
    assert history.of("train-1") == [10.0, 30.0]
    assert load_percent(node(1, gpus=0).usage) == 25.0  # type: ignore[arg-type]


def test_the_history_begins_with_the_head_nodes_samples(monkeypatch: pytest.MonkeyPatch) -> None:
    points = ((90.0, 20.0), (100.0, 40.0))
    found = [
        Series("train-1", 0, "gpu_util_percent", "%", points),
        Series("train-1", 1, "gpu_util_percent", "%", ((90.0, 60.0),)),
        Series("train-1", None, "cpu_percent", "%", ((90.0, 1.0),)),
        Series("train-2", None, "cpu_percent", "%", ((90.0, 7.0),)),
    ]
    monkeypatch.setattr("gpucluster.cli.seeing.feed.series", lambda *asked: found)
    history = History()
    history.begin(None, Overview(100.0, (node(1), node(2)), (), None, ()))  # type: ignore[arg-type]
    assert (history.of("train-1"), history.of("train-2")) == ([40.0, 40.0], [7.0])


def test_a_long_interval_is_not_late() -> None:
    assert not Feed(lambda: SMALL, SMALL, History(), 60.0).seen.is_stale
    assert Seen(SMALL, time.monotonic() - 100, late_s=120.0).is_stale is False
    assert "no answer since 100 s" in drawn(Seen(SMALL, time.monotonic() - 100))


def test_an_answer_that_is_none_does_not_end_the_questions() -> None:
    answers = iter([LARGE])

    def ask() -> Overview:
        found = next(answers, None)
        if found is None:
            raise ValueError("not what sinfo prints")
        return found

    fed = Feed(ask, SMALL, History(), 0.1)
    fed.start()
    try:
        patience.wait_for("an error", lambda: fed.seen.problem, 10)
        assert fed.seen.problem == "unexpected ValueError: not what sinfo prints"
        answers = iter([SMALL] * 1000)
        patience.wait_for("an answer", lambda: not fed.seen.problem, 10)
    finally:
        fed.stop()


def test_a_head_node_that_is_away_leaves_the_last_picture() -> None:
    away = True

    def ask() -> Overview:
        if away:
            raise RemoteError("no SSH connection to the head node")
        return LARGE

    fed = Feed(ask, SMALL, History(), 0.2)
    fed.start()
    try:
        patience.wait_for("an error", lambda: fed.seen.problem, 10)
        assert fed.seen.overview == SMALL
        text = drawn(Seen(SMALL, time.monotonic() - 24, fed.seen.problem))
        assert "no answer since 24 s, this is the last picture: no SSH connection to the head node" in text
        assert "train-1" in text
        away = False
        patience.wait_for("an answer", lambda: fed.seen.overview == LARGE, 10)
        assert fed.seen.problem == ""
    finally:
        fed.stop()


class Keys:
    """Types one key for each tick, then interrupts."""

    def __init__(self, *typed: str) -> None:
        self.typed = list(typed)

    def __call__(self, seconds: float) -> str:
        if not self.typed:
            raise KeyboardInterrupt
        return self.typed.pop(0)


@pytest.fixture
def watched(monkeypatch: pytest.MonkeyPatch) -> Iterator[Console]:
    on = console(80, force_terminal=True)
    fed = Feed(lambda: SMALL, SMALL, History(), 60.0)
    monkeypatch.setattr(top, "terminal", lambda: on)
    yield on
    fed.stop()


@pytest.mark.parametrize("typed", [("", "x", "q"), ("Q",), ()], ids=["q", "Q", "Ctrl-C"])
def test_q_and_an_interrupt_end_it(watched: Console, typed: tuple[str, ...], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(keys, "pressed", lambda: nullcontext(Keys(*typed)))
    top._watch(watched, Feed(lambda: SMALL, SMALL, History(), 60.0), "digits")
    text = watched.file.getvalue()  # type: ignore[attr-defined]
    assert "train-1" in text
    assert text.rstrip().endswith("\x1b[?25h") or "\x1b[?1049l" in text  # the terminal is as it was


def test_keys_are_read_at_once_and_the_terminal_is_restored(monkeypatch: pytest.MonkeyPatch) -> None:
    import termios

    ours, theirs = pty.openpty()
    before = termios.tcgetattr(theirs)
    with os.fdopen(theirs) as stdin:
        monkeypatch.setattr(sys, "stdin", stdin)
        with keys.pressed() as pressed:
            assert pressed(0.0) == ""
            os.write(ours, b"q")
            assert pressed(10.0) == "q"
        assert termios.tcgetattr(stdin) == before
    os.close(ours)


@pytest.fixture
def cluster(monkeypatch: pytest.MonkeyPatch, tmp_path) -> None:  # type: ignore[no-untyped-def]
    (tmp_path / "cluster.yaml").write_text(
        "name: digits\nregion: us-east-1\npartitions: [{name: train, instance_types: [p5.48xlarge], max_nodes: 4}]\n"
    )
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(top, "head", lambda *asked: nullcontext(None))
    monkeypatch.setattr(overview, "of", lambda remote, config: SMALL)
    monkeypatch.setattr("gpucluster.cli.seeing.feed.series", lambda *asked: [])


def test_without_a_terminal_it_prints_once(cluster: None, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["top"]) == 0
    out = capsys.readouterr().out
    assert out.startswith("digits  3 of 4 nodes run") and "\x1b" not in out
    assert out.count("train-1 ") == 1


def test_json(cluster: None, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["top", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["usd_per_hour"] == 196.64
    assert found["nodes"][0]["usage"]["gpus"][0]["util_percent"] == 90.0
    assert found["jobs"][1]["name"] == EVIL


@pytest.mark.parametrize("given", ["0", "-1", "0.5", "nan", "x"])
def test_an_interval_that_is_none(given: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["top", "--interval", given]) == 2
    assert "--interval" in capsys.readouterr().err


def test_there_is_no_cluster(
    cluster: None, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def away(remote: object, config: object) -> Overview:
        raise RemoteError("no SSH connection to the head node: timed out", "`gpucluster status` shows why")

    monkeypatch.setattr(overview, "of", away)
    assert main(["top"]) == 3
    assert "no SSH connection" in capsys.readouterr().err
