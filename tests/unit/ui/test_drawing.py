"""Places in pictures, and words of values."""

from __future__ import annotations

import pytest

from gpucluster.ui import drawing, wording


def test_parallel_coordinates_put_numbers_in_order() -> None:
    found = drawing.parallel({"lr": ["0.001", "0.01", "0.1"], "kind": ["b", "a", "a"], "loss": ["3", "1", ""]}, "xyz")
    lr, kind, loss = found.axes
    heights = {tick.text: tick.at for tick in lr.ticks}
    assert heights["0.001"] - heights["0.01"] == pytest.approx(heights["0.01"] - heights["0.1"]), "logarithmic"
    assert [tick.text for tick in kind.ticks] == ["a", "b"]
    assert [len(line.points) for line in found.lines] == [3, 3, 2], "a line ends where a value lacks"
    assert (found.lines[0].colour, found.lines[1].colour) == (drawing.COLOURS - 1, 0), "by the last axis"


@pytest.mark.parametrize("values", [["nan", "1"], ["inf", "2"], ["1e999", "x"], ["5", "5"], ["", ""], ["-3", "0"]])
def test_odd_values_have_a_place(values: list[str]) -> None:
    found = drawing.parallel({"lr": values, "loss": values[::-1]}, ["a", "b"])
    for line in found.lines:
        for (x, y), _ in line.points:
            assert 0 <= x <= found.width and 0 <= y <= found.height


def test_a_plot_of_one_size() -> None:
    found = drawing.plot("Speed-up", "ranks", "×", {"torchrun": [(8, 1.0)]}, [(8, 1.0)])
    assert found.lines[0].path.startswith("M") and "nan" not in found.lines[0].path


@pytest.mark.parametrize(
    ("top", "wanted"), [(16.5, [0, 5, 10, 15]), (108, [0, 25, 50, 75, 100]), (0.02, [0, 0.005, 0.01, 0.015, 0.02])]
)
def test_steps_are_round(top: float, wanted: list[float]) -> None:
    assert drawing.steps(top) == wanted


def test_bars_stay_within_the_timeline() -> None:
    found = drawing.bars([(100, 100), (100, 190), (190, 200)])
    assert found[0].width > 0 and found[-1].left + found[-1].width == pytest.approx(100)
    assert all(0 <= bar.left <= bar.left + bar.width <= 100.001 for bar in found)
    assert drawing.bars([]) == [] and drawing.bars([(5, 5)])[0].width > 0


@pytest.mark.parametrize(
    ("seconds", "wanted"),
    [
        (None, "–"),
        (0, "0 s"),
        (4.25, "4.2 s"),
        (59.7, "1 min 00 s"),
        (61, "1 min 01 s"),
        (7500, "2 h 05 min"),
        (200_000, "2 d 7 h"),
    ],
)
def test_durations(seconds: float | None, wanted: str) -> None:
    assert wording.duration(seconds) == wanted


def test_a_line_of_a_log() -> None:
    assert wording.line("\x1b[32mgreen\x1b[0m \x1b]0;title\x07end\n") == "green end"
    assert wording.line("a 10 %\ra 100 %") == "a 100 %"
    assert wording.line("a\x08\x00\u202eb") == "a��\u202eb"
    long = wording.line("x" * 5_000_000)
    assert len(long) < 2100 and long.endswith("… (a line of 5,000,000 characters)")
