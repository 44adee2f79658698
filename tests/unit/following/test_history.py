"""What is read of thousands of jobs' folders: without the values of their metrics, which are most of it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from gpucluster.following import history, node_hours

REASON = 'said "values": [1, 2], "data_wait" ] and more'
RESULT = {
    "exit_code": 1,
    "reason": REASON,
    "metrics": {name: {"median": 0.5, "values": [0.25, None, -1e-9]} for name in ("a", "b")},
    "elements": [[1, 2]],
    "data_wait": {"percent": 12.5, "values": ["words"]},
}


@pytest.mark.parametrize("indent", [None, 2])
def test_numbers_of_metrics_alone_are_left_out(indent: int | None) -> None:
    found = json.loads(history.without_values(json.dumps(RESULT, indent=indent)))
    empty = {name: each | {"values": []} for name, each in RESULT["metrics"].items()}  # type: ignore[attr-defined]
    assert found == RESULT | {"metrics": empty}


def test_values_are_not_even_parsed(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = tmp_path / "by-id/7"
    folder.mkdir(parents=True)
    text = json.dumps(RESULT, indent=2).replace("0.25,", "no JSON at all,")
    (folder / "result.json").write_text(text)
    history.main(tmp_path, 10, [])
    (found,) = map(json.loads, capsys.readouterr().out.splitlines())
    assert found["result"] == {key: value for key, value in RESULT.items() if key not in ("metrics", "elements")}
    (folder / "result.json").write_text('{"metrics": {"a": {"values": [')
    history.main(tmp_path, 10, [])
    assert json.loads(capsys.readouterr().out)["result"] is None, "half of a file"


def test_only_results_that_say_so_are_read_for_their_waits(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    read: list[str] = []

    def counted(text: str, parse: Any = node_hours._json) -> Any:
        read.append(text)
        return parse(text)

    monkeypatch.setattr(node_hours, "_json", counted)
    for job_id, result in (("7", RESULT), ("8", {"exit_code": 0, "metrics": {"loss": {}}})):
        (tmp_path / "by-id" / job_id).mkdir(parents=True)
        (tmp_path / "by-id" / job_id / "result.json").write_text(json.dumps(result))
    assert node_hours.waits(tmp_path, {"7", "8", "9"}) == {"7": 12.5}
    assert len(read) == 1
