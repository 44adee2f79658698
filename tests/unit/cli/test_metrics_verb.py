"""`gpucluster metrics`: curves in the terminal and in files, of lines that a job's programs wrote."""

from __future__ import annotations

import csv
import io
import json
import math
import re
from collections.abc import Iterator
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from gpucluster import account, cli
from gpucluster.cli.frame import connection
from gpucluster.cli.seeing import curves, metrics, top
from gpucluster.cli.seeing.curves import Curve
from gpucluster.errors import RemoteError
from gpucluster.following import jobs, usage
from gpucluster.following import metrics as following
from gpucluster.following.usage import Series
from tests.in_process import InProcessRemote

Captured = pytest.CaptureFixture[str]
EVIL = "x\x1b]0;owned\x07\n<b>"
NODES = ("train-1", "train-2")
SAMPLES = [
    Series(node, gpu, "gpu_util_percent", "%", tuple((1000.0 + 10 * at, 40.0 + 20 * gpu) for at in range(4)))
    for node in NODES
    for gpu in range(2)
]


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """That of job 7, the newest, which Slurm has forgotten."""
    monkeypatch.setattr(account, "home", lambda: str(tmp_path))
    monkeypatch.setattr(jobs, "find", lambda remote, job_id: None)
    monkeypatch.setattr(jobs.ownership, "refuse_anothers", lambda remote, job_id: None)
    for module in (connection, metrics):
        monkeypatch.setattr(module, "head", lambda *asked, **more: nullcontext(InProcessRemote()))
    monkeypatch.setattr(following, "_nodes_and_time", lambda remote, job_id: (list(NODES), 1000.0, 1030.0))
    monkeypatch.setenv("COLUMNS", "60")
    made = tmp_path / "jobs" / "by-id" / "7"
    made.mkdir(parents=True)
    (made / "result.json").write_text(json.dumps({"exit_code": 0}))
    lines = [
        {"time_s": 1000.0 + step, "run": 0, "rank": 0, "step": step, "values": {"loss": 2.0 - step / 20, "$x_": step}}
        for step in range(30)
    ]
    lines.append({"time_s": 1030.0, "run": 0, "rank": 0, "step": 30, "values": {"loss": None, EVIL: 1, "=1+1": 2}})
    (made / "metrics.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    return made


@pytest.fixture
def sampled(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    def series(remote: Any, nodes: Any, start_s: float, end_s: float, names: Any = (), step_s: Any = None) -> Any:
        assert (nodes, start_s, end_s) == (list(NODES), 1000.0, 1030.0)
        return [each for each in SAMPLES if not names or each.name in names]

    monkeypatch.setattr(usage, "series", series)
    monkeypatch.setattr(usage, "gpus_of", lambda *asked: {})
    yield


def said(capsys: Captured, *words: str) -> str:
    assert cli.main(["metrics", *words]) == 0, capsys.readouterr().err
    return capsys.readouterr().out


def refused(capsys: Captured, *words: str) -> str:
    assert cli.main(["metrics", *words]) == 2
    return capsys.readouterr().err


def test_curves_of_the_newest_job_and_of_its_nodes(folder: Path, sampled: None, capsys: Captured) -> None:
    lines = said(capsys).splitlines()
    titles = [line for line in lines if "  last " in line]
    assert titles[0] == "loss  min 0.55  max 2  last not finite at step 30  1 of 31 not finite"
    assert titles[-1] == "gpu_util_percent  mean of 4 GPUs  min 50 %  max 50 %  last 50 %"
    assert lines[-1].split() == ["00:16:40", "00:17:10", "UTC"]
    assert max(map(len, lines)) <= 80 and "\x1b" not in "".join(lines)
    drawn = [line for line in lines if re.search("[\u2801-\u28ff]", line)]
    assert drawn and all(len(line) <= 60 for line in drawn)


def test_a_name_selects_a_metric_or_each_gpus_samples(folder: Path, sampled: None, capsys: Captured) -> None:
    assert [line.split("  ")[0] for line in said(capsys, "loss").splitlines() if "  last " in line] == ["loss"]
    titles = [line for line in said(capsys, "7", "gpu_util_percent").splitlines() if "  last " in line]
    assert [line.split("  ")[1] for line in titles] == [f"{node} GPU {gpu}" for node in NODES for gpu in range(2)]


@pytest.mark.parametrize("kind", [usage.Unavailable, RemoteError])
def test_without_samples_a_sentence_says_why(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: Captured, kind: type[RemoteError]
) -> None:
    def series(*asked: Any) -> Any:
        raise kind("this cluster has no Prometheus")

    monkeypatch.setattr(usage, "series", series)
    assert said(capsys).splitlines()[-1] == "this cluster has no Prometheus"
    assert json.loads(said(capsys, "--json"))["lacks"] == ["this cluster has no Prometheus"]


def test_json_and_csv_have_every_value(folder: Path, sampled: None, capsys: Captured) -> None:
    found = json.loads(said(capsys, "--json"))
    assert found["metrics"]["loss"][0] == {"time_s": 1000.0, "step": 0, "value": 2.0}
    assert found["metrics"]["loss"][-1]["value"] is None
    assert len(found["samples"]) == 4
    rows = list(csv.DictReader(io.StringIO(said(capsys, "--csv", "-"))))
    assert rows[1] == {"time_s": "1001.0", "name": "loss", "step": "1", "node": "", "gpu": "", "value": "1.95"}
    assert rows[-1] == {
        "time_s": "1030.0", "name": "gpu_util_percent", "step": "", "node": "train-2", "gpu": "1", "value": "60.0"
    }  # fmt: skip
    assert "'=1+1" in {row["name"] for row in rows}


def test_files_of_odd_names_and_of_a_loss_without_bounds(
    folder: Path, sampled: None, tmp_path: Path, capsys: Captured
) -> None:
    values = {"half \ud800": 1, "loss": 1e308, "down": -1e308}
    with (folder / "metrics.jsonl").open("a") as file:
        file.write(json.dumps({"time_s": 1031.0, "run": 0, "rank": 0, "step": 31, "values": values}) + "\n")
    png, table = str(tmp_path / "curves.png"), tmp_path / "curves.csv"
    assert said(capsys, "--png", png, "--csv", str(table)) == ""
    assert Path(png).read_bytes().startswith(b"\x89PNG") and "half \\ud800" in table.read_text()


def test_files(folder: Path, sampled: None, tmp_path: Path, capsys: Captured) -> None:
    png, svg, table = (str(tmp_path / f"curves.{each}") for each in ("png", "svg", "csv"))
    assert said(capsys, "--png", png, "--svg", svg, "--csv", table, "loss", "$x_", "gpu_util_percent") == ""
    assert Path(png).read_bytes().startswith(b"\x89PNG")
    assert "</svg>" in Path(svg).read_text()
    assert Path(table).read_text().count("\n") == 1 + 31 + 30 + 16


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("los",), "error: job 7 has no metric 'los'"),
        (("8",), "error: there is no job 8"),
        (("7x",), "must be a job ID such as 12, got '7x'"),
        (("--follow", "--json"), "--follow draws in the terminal only"),
        (("--json", "--csv", "-"), "both print to stdout"),
        (("--png", "/no/such/x.png"), "--png /no/such/x.png: no such directory"),
        (("--follow",), "--follow needs a terminal"),
    ],
)
def test_bad_input_is_refused(folder: Path, sampled: None, capsys: Captured, words: tuple[str, ...], said: str) -> None:
    assert said in refused(capsys, *words)


def test_a_job_without_values_says_so(folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: Captured) -> None:
    (folder / "metrics.jsonl").unlink()
    monkeypatch.setattr(usage, "series", lambda *asked: [])
    assert said(capsys) == "job 7 has no values yet\n"


def test_an_array_has_metrics_for_each_element(folder: Path, capsys: Captured) -> None:
    (folder / "runs").mkdir()
    (folder / "runs" / "7").write_text("0\n")
    assert "error: job 7 has metrics for each element" in refused(capsys, "7")


def test_follow_draws_until_the_job_ends(
    folder: Path, sampled: None, monkeypatch: pytest.MonkeyPatch, capsys: Captured
) -> None:
    """The head node is away meanwhile; what was drawn stays in the terminal."""
    asked: list[str] = []
    answers: list[Any] = [None, RemoteError("the head node restarts"), None, jobs.Ending("COMPLETED", {})]

    def ending(remote: Any, job_id: str) -> Any:
        asked.append(job_id)
        if isinstance(answer := answers[len(asked) - 1], Exception):
            raise answer
        return answer

    screen = io.StringIO()
    monkeypatch.setattr(jobs, "ending", ending)
    monkeypatch.setattr(metrics, "EVERY_S", 0.01)
    monkeypatch.setattr(top, "terminal", lambda: Console(file=screen, force_terminal=True, width=60, height=30))
    assert said(capsys, "--follow", "loss").startswith("loss  min 0.55  max 2")
    assert asked == ["7"] * 4
    assert screen.getvalue().count("loss  min 0.55") == 4 and "no answer: the head node restarts" in screen.getvalue()


@pytest.mark.parametrize("width", [1, 20, 200])
def test_no_peak_is_lost(width: int) -> None:
    points = [(float(at), 100.0 if at == 501 else 0.0) for at in range(1000)]
    rows = curves.lines([Curve("loss", "", "", points)], width)[1 : 1 + curves.ROWS]
    assert all(re.search("[\u2801-\u28ff]", row) for row in rows)


@pytest.mark.parametrize("values", [(math.nan,), (1e308, -1e308), (5.0,), (1e-320, 0.0), (math.inf, 1.0, -math.inf)])
def test_every_number_can_be_drawn(values: tuple[float, ...]) -> None:
    for at in (0.0, 1e12):
        assert curves.lines([Curve("x", "", "", [(at + place, value) for place, value in enumerate(values)])], 40)


def test_nothing_has_no_lines() -> None:
    assert curves.lines([], 80) == curves.lines([Curve("x", "", "", [])], 80) == []
