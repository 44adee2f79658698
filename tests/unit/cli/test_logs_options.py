"""The options of `logs`, as the user writes them."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import click
import pytest

from gpucluster.cli import main
from gpucluster.cli.frame.moment import moment


@pytest.mark.parametrize(
    ("text", "seconds"), [("10m", -600), ("90s", -90), ("1.5h", -5400), ("2 d", -172_800), ("0s", -0.001)]
)
def test_a_time_ago_is_negative(text: str, seconds: float) -> None:
    assert moment(text) == seconds


def test_a_time_of_the_clock_is_utc_and_has_been() -> None:
    now = datetime.now(UTC)
    soon = now + timedelta(minutes=5)
    assert moment("2026-11-29T08:00") == moment("2026-11-29T09:00+01:00") == 1_795_939_200
    assert moment(f"{now:%H:%M:%S}") == pytest.approx(now.timestamp(), abs=1.1)
    assert moment(f"{soon:%H:%M:%S}") == pytest.approx(soon.timestamp() - 86_400, abs=1.1)


@pytest.mark.parametrize("odd", ["", "10", "yesterday", "25:00", "-5m", "10m ago", "2026-13-01", "99999-01-01"])
def test_what_is_no_time_is_refused(odd: str) -> None:
    with pytest.raises(click.BadParameter, match="is no time"):
        moment(odd)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--rank", "-1"], "must be a rank such as 0"),
        (["--rank", "x"], "must be a rank such as 0"),
        (["--tail", "-1"], "--tail: must be at least 0, got -1"),
        (["--run", "0"], "--run: must be at least 1, got 0"),
        (["--since", "soon"], "'soon' is no time"),
    ],
)
def test_wrong_values_are_refused_before_the_cluster_is_called(
    words: list[str], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["logs", "12", *words]) == 2
    assert said in capsys.readouterr().err


@pytest.mark.parametrize("words", [["--tail", "5"], ["--follow"], ["--grep", "x"], ["--all"]])
def test_boot_logs_have_no_lines_of_ranks(words: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["logs", "12", "--boot", *words]) == 2
    assert "--boot takes no other option than --node" in capsys.readouterr().err
