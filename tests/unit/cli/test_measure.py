"""`bench`'s evaluation of runs: numbers calculated by hand, and warnings about weak results."""

from __future__ import annotations

import math

import pytest

from gpucluster.errors import UsageError
from gpucluster.following.jobs import Ending
from gpucluster.measure import plot
from gpucluster.measure.doubts import doubts
from gpucluster.measure.noise import Estimate, difference_noise, ratio_half_width, student_t
from gpucluster.measure.report import as_json, chosen, report, table
from gpucluster.measure.runs import Run
from gpucluster.measure.settings import PLAIN, Setting, order, settings, variant

NAMES = ["throughput", "accuracy"]


def runs(nodes, speeds, launcher="torchrun", accuracies=None, kind=PLAIN, state="COMPLETED", seconds=60, wait=2.0):
    """One for each speed, on two ranks a node."""
    setting = Setting(launcher, kind, nodes)
    made = []
    for number, speed in enumerate(speeds):
        accuracy = accuracies[number] if accuracies else 0.9
        result = {
            "started_at": "2026-11-21T12:00:00Z", "ended_at": f"2026-11-21T12:{seconds // 60:02d}:{seconds % 60:02d}Z",
            "node_list": [f"train-{each + 1}" for each in range(nodes)], "reason": None,
            "data_wait": {"percent": wait},
            "metrics": {
                "throughput": {"count": 5, "median": speed, "last": speed},
                "accuracy": {"count": 1, "last": accuracy, "median": accuracy},
            },
        }  # fmt: skip
        made.append(Run(setting, str(100 + number), Ending(state, result), 2 * nodes))
    return made


@pytest.mark.parametrize(
    ("text", "options", "env"),
    [
        ("amp=on", ("--amp", "on"), ()),
        ("amp=", ("--amp",), ()),
        ("NCCL_ALGO=Ring", (), (("NCCL_ALGO", "Ring"),)),
        ("amp=on,XLA_FLAGS=--a=b,batch-size=64", ("--amp", "on", "--batch-size", "64"), (("XLA_FLAGS", "--a=b"),)),
    ],
)
def test_a_variant_is_options_and_variables(text, options, env):
    assert (variant(text).options, variant(text).env) == (options, env)


@pytest.mark.parametrize("text", ["amp", "", "a b=c", "=x", "amp=on,xla"])
def test_a_wrong_variant_is_refused(text):
    with pytest.raises(UsageError, match="must be NAME=VALUE"):
        variant(text)


@pytest.mark.parametrize(
    ("asked", "names"),
    [
        ([], ["throughput", "accuracy"]),  # what the program logs
        (["accuracy"], ["accuracy", "throughput"]),
        (["loss", "throughput"], ["loss", "throughput"]),
    ],
)
def test_metrics_that_the_program_logs_need_no_expression(asked, names):
    assert chosen(asked, runs(1, [100.0])) == names
    assert chosen(asked, []) == asked


def test_every_launcher_variant_and_size_round_by_round():
    wanted = settings(["torchrun", "srun"], [variant("amp=on")], [2, 1])
    assert [str(each) for each in wanted[:4]] == [
        "torchrun on 1 node", "torchrun on 2 nodes", "torchrun amp=on on 1 node", "torchrun amp=on on 2 nodes",
    ]  # fmt: skip
    assert list(order(wanted, 2)) == wanted + wanted
    assert len(wanted) == 8


def test_speed_up_and_efficiency():
    found = report([*runs(1, [100, 100]), *runs(2, [180, 180])], NAMES)
    one, two = found.rows
    assert (one.speed_up, one.efficiency) == (1.0, 1.0)
    assert (two.speed_up, two.efficiency) == (pytest.approx(1.8), pytest.approx(0.9))


def test_each_variant_is_compared_with_its_own_smallest_size():
    amp = variant("amp=on")
    made = [*runs(2, [180]), *runs(4, [270]), *runs(2, [100], kind=amp), *runs(4, [150], kind=amp)]
    assert [row.speed_up for row in report(made, NAMES).rows] == [1.0, 1.5, 1.0, 1.5]
    assert [row.efficiency for row in report(made, NAMES).rows] == [1.0, 0.75, 1.0, 0.75]


def test_a_throughput_of_one_rank_counts_for_all():
    found = report([*runs(1, [100]), *runs(2, [90])], NAMES, per_rank=True)
    assert [row.throughput.mean for row in found.rows] == [200, 360]
    assert found.rows[1].efficiency == pytest.approx(0.9)


def test_without_a_throughput_the_time_decides():
    found = report([*runs(1, [0], seconds=120), *runs(2, [0], seconds=60)], ["accuracy"])
    assert [row.throughput.mean for row in found.rows] == [30, 60]
    assert table(found)[0][5] == "throughput, runs/hour"
    assert any("from the jobs' elapsed seconds" in each for each in doubts(found))


def test_intervals_by_hand():
    """9, 10, 11: deviation 1, t(2) = 4.303, 4.303 / sqrt(3) = 2.484."""
    assert Estimate((9, 10, 11)).half_width == pytest.approx(2.484, abs=1e-3)
    assert Estimate((9,)).half_width is None
    one, other = Estimate((9.0, 10.0, 11.0)), Estimate((19.0, 20.0, 21.0))
    # Welch: two equal variances of 1/3, so 4 degrees: 2.776 * sqrt(2/3)
    assert difference_noise(one, other) == pytest.approx(2.776 * math.sqrt(2 / 3), abs=1e-3)
    assert difference_noise(one, Estimate((5.0,))) is None
    assert difference_noise(Estimate((5.0, 5.0)), Estimate((5.0, 5.0))) == 0.0
    assert ratio_half_width(other, one) == pytest.approx(2 * math.hypot(2.484 / 20, 2.484 / 10), abs=1e-3)
    assert [student_t(each) for each in (0.5, 1, 4.9, 30)] == [12.706, 12.706, 2.776, 2.042]
    assert 1.96 < student_t(1000) < student_t(31) < 2.042


def test_a_sound_result_has_no_warnings():
    made = [
        *runs(1, [100, 101, 99]), *runs(2, [180, 181, 179]),
        *runs(1, [80, 81, 79], "srun"), *runs(2, [150, 151, 149], "srun"),
    ]  # fmt: skip
    assert doubts(report(made, NAMES, machines=2)) == []


@pytest.mark.parametrize(
    ("made", "machines", "said"),
    [
        (
            [*runs(1, [100]), *runs(2, [180])],
            2,
            "a setting has one run: the noise is unknown, so no difference is proved",
        ),
        ([*runs(1, [100, 101]), *runs(2, [180, 181])], 2, "a setting has 2 runs: its intervals are wide"),
        (
            [*runs(1, [100, 110, 90]), *runs(1, [101, 111, 91], "srun")],
            1,
            "torchrun on 1 node and srun on 1 node are equally fast within the noise: +1.0 % with a noise of ± 22.7 %",
        ),
        (
            [*runs(1, [100, 150, 50]), *runs(2, [120, 170, 70])],
            2,
            "torchrun on 1 node and torchrun on 2 nodes are equally fast within the noise",
        ),
        ([*runs(1, [100, 101, 99]), *runs(2, [180, 181, 179])], 1, "all 2 nodes share one machine"),
        ([*runs(1, [100, 101, 99])], 1, "there is only one size: no speed-up"),
        ([*runs(1, [100, 101, 99]), *runs(2, [280, 281, 279])], 2, "torchrun on 2 nodes: better than linear"),
        (
            [*runs(1, [100, 101, 99]), *runs(2, [180, 181, 179], accuracies=[0.5, 0.51, 0.49])],
            2,
            "accuracy differs: 0.9 with torchrun on 1 node, 0.5 with torchrun on 2 nodes; the runs did not do the same",
        ),
        (
            [*runs(1, [100, 101, 99]), *runs(2, [180, 181], state="FAILED")],
            2,
            "torchrun on 2 nodes: 2 of 2 runs failed and are ignored; job 100 failed",
        ),
        (
            [*runs(1, [100, 101, 99]), *runs(2, [199, 198, 200], wait=38.4)],
            2,
            "torchrun on 2 nodes: its ranks waited 38 % of the time for data: the efficiency is that of the loader",
        ),
        (
            [*runs(1, [100, 101, 99]), *runs(2, [180, 181, 179], wait=None)],
            2,
            "data wait is not measured, so an efficiency may be that of the loader; gpucluster_train.feed.Feed",
        ),
        ([*runs(1, [None, None, None])], 1, "torchrun on 1 node: no line of the log matches throughput"),
        ([*runs(1, [1, 2, 3], accuracies=[None] * 3)], 1, "no line of the log matches accuracy"),
    ],
)
def test_a_weak_result_has_warnings(made, machines, said):
    assert [each for each in doubts(report(made, NAMES, machines)) if each.startswith(said) or said in each]


def test_a_data_wait_that_the_program_prints_counts_as_the_one_that_is_counted():
    made = [*runs(1, [100, 101, 99]), *runs(2, [180, 181, 179])]
    for run in made:
        del run.ending.result["data_wait"]
        run.ending.result["metrics"]["data_wait"] = {"count": 9, "median": 40.0, "last": 38.0}
    found = report(made, [*NAMES, "data_wait"])
    assert found.metrics == ["accuracy"] and [row.data_wait_percent for row in found.rows] == [40.0, 40.0]


def test_one_size_has_no_efficiency_to_doubt():
    assert not any("data wait" in each for each in doubts(report(runs(1, [100, 101, 99], wait=None), NAMES)))


def test_a_failed_run_does_not_count():
    found = report([*runs(1, [100, 100]), *runs(1, [1], state="FAILED")], NAMES)
    assert found.rows[0].throughput.values == (100, 100)
    assert table(found)[1][:5] == ["torchrun", "-", "1", "2", "2 of 3"]


def test_the_table_and_the_json_say_the_same():
    found = report([*runs(1, [100, 102, 98]), *runs(2, [180, 181, 179])], NAMES, machines=2)
    assert table(found) == [
        [
            "launcher",
            "variant",
            "nodes",
            "ranks",
            "runs",
            "throughput",
            "speed-up",
            "efficiency",
            "data wait",
            "accuracy",
        ],
        ["torchrun", "-", "1", "2", "3", "100 ± 5", "1.00x", "100 %", "2 %", "0.9 ± 0"],
        ["torchrun", "-", "2", "4", "3", "180 ± 2.5", "1.80x ± 0.09", "90 %", "2 %", "0.9 ± 0"],
    ]
    result = as_json(found, ["a doubt"])
    assert result["doubts"] == ["a doubt"]
    assert result["settings"][1]["throughput"]["values"] == [180, 181, 179]
    assert result["settings"][1]["efficiency"] == pytest.approx(0.9)
    assert result["settings"][1]["data_wait_percent"] == 2.0
    assert result["settings"][1]["metrics"]["accuracy"]["mean"] == pytest.approx(0.9)
    assert [run["job_id"] for run in result["settings"][0]["runs"]] == ["100", "101", "102"]


@pytest.mark.parametrize(("suffix", "begins"), [(".png", b"\x89PNG"), (".svg", b"<?xml")])
def test_the_picture(tmp_path, suffix, begins):
    made = [*runs(1, [100, 102, 98]), *runs(2, [180, 181, 179]), *runs(2, [None], "srun")]
    path = tmp_path / f"bench{suffix}"
    plot.check(path)
    plot.plot(report(made, NAMES), path)
    assert path.read_bytes().startswith(begins)


@pytest.mark.parametrize("name", ["bench.xls", "bench", "no/such/bench.png"])
def test_a_picture_that_could_not_be_drawn_is_refused_before_anything_runs(tmp_path, name):
    with pytest.raises(UsageError, match="--plot"):
        plot.check(tmp_path / name)


def test_a_picture_shows_whole_ranks_whole_points_and_equal_curves():
    made = [*runs(1, [100, 100]), *runs(2, [200, 199]), *runs(1, [100, 100], "srun"), *runs(2, [200, 199], "srun")]
    figure = plot.draw(report([*made, *runs(1, [100, 100], "mpirun")], NAMES))
    figure.canvas.draw()
    for axes in figure.axes:
        low, high = axes.get_xlim()
        ticks = [tick for tick in axes.get_xticks() if low <= tick <= high]
        assert ticks and all(tick == int(tick) for tick in ticks)
        bottom, top = axes.get_ylim()
        points = [y for line in axes.lines if line.get_marker() == "o" for y in line.get_ydata()]
        assert all(y < top - 0.03 * (top - bottom) for y in points), "half a point is outside"
        sizes = [(line.get_markersize(), line.get_linewidth()) for line in axes.lines if line.get_marker() == "o"]
        assert len(set(sizes)) == len(sizes) == 3, "the later curve would hide the earlier one"
    (alone,) = [axes for axes in plot.draw(report(runs(2, [5]), NAMES)).axes if "throughput" in axes.get_title()]
    assert [tick for tick in alone.get_xticks() if tick != int(tick)] == []


def test_a_doubt_is_said_once():
    kinds = [PLAIN, variant("amp=on"), variant("lr=2")]
    accuracies = [[0.9] * 3, [0.5] * 3, [0.7] * 3]
    made = [
        run
        for kind, each in zip(kinds, accuracies, strict=True)
        for nodes in (1, 2)
        for run in runs(nodes, [100 * nodes, 101 * nodes, 99 * nodes], accuracies=each, kind=kind)
    ]
    said = doubts(report(made, NAMES, machines=2))
    assert [each for each in said if "accuracy" in each] == [
        "accuracy differs, most from 0.9 with torchrun on 1 node to 0.5 with torchrun amp=on on 1 node; "
        "the runs did not do the same work"
    ]
    assert [each for each in said if "equally fast" in each] == [
        f"torchrun on {nodes}, torchrun amp=on on {nodes} and torchrun lr=2 on {nodes} are equally fast within the "
        "noise: at most 0.0 % apart with a noise of ± 2.3 %"
        for nodes in ("1 node", "2 nodes")
    ]
    unread = [run for nodes in (1, 2, 4) for run in runs(nodes, [None] * 3)]
    said = doubts(report(unread, NAMES, machines=4))
    assert [each for each in said if "matches" in each] == ["no line of any log matches throughput"]
