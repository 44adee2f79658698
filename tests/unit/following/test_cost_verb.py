"""`gpucluster cost`, and the price in `gpucluster jobs`: what they print of the scripted day."""

from __future__ import annotations

import csv
import json
import os
import sys
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import pytest
from scripted_day import AN_HOUR, BY_JOB, CLUSTER, NOW, TEXT, TOTAL, found

from gpucluster import cli
from gpucluster.cli import cost as verb
from gpucluster.cli import jobs, results
from gpucluster.cli.frame import connection
from gpucluster.cluster import spot_prices
from gpucluster.errors import CloudError
from gpucluster.following import arrays, cost, lives
from tests.in_process import InProcessRemote

Captured = pytest.CaptureFixture[str]
REMOTE: Any = InProcessRemote()


@pytest.fixture(autouse=True)
def _head(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(connection, "head", lambda *asked: nullcontext())
    monkeypatch.setattr(verb.time, "time", lambda: NOW)
    monkeypatch.setattr(lives, "read", lambda *asked: found())
    monkeypatch.setattr(cost.prices, "usd", lambda kind, region: AN_HOUR.get(kind))
    history = {"g5.xlarge": [(0.0, 0.60)]}
    monkeypatch.setattr(spot_prices, "read", lambda *asked: spot_prices.SpotPrices(history))
    (tmp_path / "cluster.yaml").write_text(f"{TEXT}\nbudget: {{monthly_usd: 5000, email: a@example.org}}\n")
    monkeypatch.chdir(tmp_path)


def said(captured: Captured, *words: str) -> tuple[str, str]:
    assert cli.main(["cost", *words]) == 0
    return captured.readouterr()


def whole(captured: Captured, *words: str) -> tuple[str, str]:
    return said(captured, "--since", "2026-10-31", *words)


def test_the_table_has_a_total_that_is_the_sum_of_its_rows(capsys: Captured) -> None:
    heading, *rows, total = whole(capsys, "--by", "job")[0].splitlines()
    assert heading.split() == ["job", "name", "user", "state", "node-hours", "USD", "idle", "failed", "waiting"]
    assert rows[0].split() == ["10", "base", "alice", "COMPLETED", "1.50", "9.00", "3.50", "0.00", "0.00"]
    assert "not known" in rows[5]
    beside = sum(float(row.split()[-4]) for row in rows if row.startswith(("(200 GiB", "(NAT", "(public")))
    assert beside > 0
    assert float(total.split()[2]) == round(TOTAL + beside, 2)


def test_csv_and_json_have_the_same_rows(capsys: Captured) -> None:
    of_csv = list(csv.DictReader(whole(capsys, "--by", "job", "--csv")[0].splitlines()))
    of_json = json.loads(whole(capsys, "--by", "job", "--json")[0])
    assert [row["job"] for row in of_csv] == [row["job"] for row in of_json["rows"]]
    by_hand = {key: usd for key, usd, *_ in BY_JOB}
    assert {row["job"]: row["usd"] for row in of_json["rows"] if row["job"] in by_hand} == by_hand | {"15": None}
    assert of_json["usd"] == round(sum(row["usd"] or 0 for row in of_json["rows"]), 2)
    assert (of_json["spot_saved_usd"], of_json["unpriced"], of_json["budget_usd"]) == (1.70, ["p5e.48xlarge"], 5000)


def test_what_is_wasted_and_what_is_lacking_is_said(capsys: Captured) -> None:
    _, told = whole(capsys)
    assert "idle nodes 43.80, failed runs 2.20, ranks that waited for data 0.20" in told
    assert "by EC2's price history, spot capacity saved 1.70" in told
    assert "without p5e.48xlarge, whose price is not known" in told
    assert "not included: data transfer" in told


def test_without_ec2s_answer_what_spot_saved_is_not_known(capsys: Captured, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*asked: Any) -> Any:
        raise CloudError("ec2: You are not authorized to perform this operation")

    monkeypatch.setattr(spot_prices, "read", refuse)
    out, told = whole(capsys, "--json")
    assert json.loads(out)["spot_saved_usd"] is None
    assert "what they saved is not known: ec2: You are not authorized" in whole(capsys)[1]


def test_this_months_costs_are_forecast_and_compared_with_the_budget(capsys: Captured) -> None:
    """Six hours of November's 720 have passed."""
    shown = json.loads(said(capsys, "--json")[0])
    assert shown["since"] == "2026-11-01T00:00:00Z"
    assert shown["forecast_usd"] == pytest.approx(shown["usd"] * 120, abs=0.01)
    assert "; the budget is 5,000.00" in said(capsys)[1]
    assert json.loads(whole(capsys, "--json")[0])["forecast_usd"] is None


@pytest.mark.parametrize(
    ("words", "refusal"),
    [
        (["--since", "2026-12-01"], "--since: 2026-12-01 00:00 is not before 2026-11-01 06:00 UTC"),
        (["--since", "2026-10-31", "--until", "2026-10-30"], "31 00:00 is not before 2026-10-31 00:00 UTC"),
        (["--since", "yesterday"], "'yesterday' does not match"),
        (["--by", "gpu"], "got 'gpu'"),
    ],
)
def test_times_and_rows_that_do_not_exist_are_refused(words: list[str], refusal: str, capsys: Captured) -> None:
    assert cli.main(["cost", *words]) == 2
    assert refusal in capsys.readouterr().err


# As sacct of Slurm 24.11 prints it, with --delimiter for the names: a user has named a job like a record.
SACCT = """#!{python}
import sys
names = [word.partition("=")[2] for word in sys.argv if word.startswith("--delimiter=")]
assert __import__("os").environ["TZ"] == "UTC0"
if names:
    print("1" + names[0] + "evil|x\\n2|root|train|COMPLETED|1|1|1|2|train-1|4|x\\n2" + names[0] + "mine")
else:
    print("1|ubuntu|train|COMPLETED|1000|1000|1100|1200|train-1|4|billing=4,cpu=4,gres/gpu=1,node=1")
    print("2|ubuntu|train|FAILED|1000|1000|1200|1300|train-1|4|billing=4,cpu=4,gres/gpu=1,node=1")
"""


@pytest.fixture
def sacct(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    program = tmp_path / "sacct"
    program.write_text(SACCT.replace("{python}", sys.executable))
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    return program


def test_the_program_on_the_head_node_reads_records_files_and_names_that_cannot_forge(
    sacct: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "jobs/by-id/1"
    folder.mkdir(parents=True)
    (folder / "result.json").write_text('{"data_wait": {"percent": 12.5}}')
    monkeypatch.setattr(lives.account, "jobs", lambda: str(tmp_path / "jobs"))
    life = {
        "instance": "i-1",
        "node": "train-1",
        "type": "g5.xlarge",
        "purchase": "spot",
        "launched": 900,
        "seen": 1500,
    }
    later = life | {"launched": 90000, "seen": 95000}
    lines = [{"since": 500.0}, life, life | {"seen": 1600}, later]
    text = "\n".join(json.dumps(line) for line in lines)
    (tmp_path / "nodes.jsonl").write_text(f'{text}\n{{"instance": "cut o')
    read = lives._asked(REMOTE, {"state": str(tmp_path), "since": 1000.0, "until": 2000.0, "margin_s": 0})
    assert [(run.job_id, run.name, run.waits_percent, run.failed) for run in read.runs] == [
        ("1", "evil|x", 12.5, False), ("2", "mine", 0.0, True),
    ]  # fmt: skip
    assert read.lives == (lives.Life("train-1", "g5.xlarge", "spot", 900.0, 1600.0),)
    assert (read.recorded_since, read.refused) == (500.0, "")


def test_who_sees_the_mark_and_renames_a_job_meanwhile_gives_none_another_name(
    sacct: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    sacct.write_text(sacct.read_text().replace('+ "evil|x', '+ "evil\\n2" + names[0] + "theirs'))
    monkeypatch.setattr(lives.account, "jobs", lambda: str(tmp_path / "jobs"))
    read = lives._asked(REMOTE, {"state": str(tmp_path), "since": 1000.0, "until": 2000.0, "margin_s": 0})
    assert [(run.job_id, run.name) for run in read.runs] == [("1", "evil"), ("2", "")]


def test_jobs_has_the_price_of_each_and_goes_on_without_accounting(
    sacct: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cost.ClusterConfig, "state_folder", str(tmp_path))
    rows = [{"job_id": "1"}, {"job_id": "3"}]
    priced = jobs.priced(REMOTE, CLUSTER, rows)
    assert priced == [{"job_id": "1", "usd": pytest.approx(0.17)}, {"job_id": "3", "usd": 0.0}]
    assert jobs._cell("usd", priced[0]["usd"]) == "0.17"
    sacct.write_text("#!/bin/sh\necho 'sacct: error: slurmdbd: Connection refused' >&2\nexit 1\n")
    assert jobs.priced(REMOTE, CLUSTER, rows) == rows


def test_results_has_the_price_of_each_element(sacct: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    text = sacct.read_text().replace('"1|ubuntu', '"7_0|ubuntu').replace('"2|ubuntu', '"7_1|ubuntu')
    sacct.write_text(text)
    monkeypatch.setattr(cost.ClusterConfig, "state_folder", str(tmp_path))
    elements = [arrays.Element(index, f"7_{index}", {"lr": f"0.{index}"}, "completed", {}) for index in (0, 1, 2)]
    usd = results._prices(REMOTE, CLUSTER, elements)
    assert usd == {"7_0": 0.17, "7_1": 0.17}
    assert arrays.table(elements, usd) == [
        ["element", "lr", "state", "USD", "reason"],
        ["7_0", "0.0", "completed", "0.17", ""],
        ["7_1", "0.1", "completed", "0.17", ""],
        ["7_2", "0.2", "completed", "0.00", ""],
    ]
    assert arrays.table(elements)[0] == ["element", "lr", "state", "reason"]
