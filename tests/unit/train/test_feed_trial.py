"""The three runs of `gpucluster bench --feed`, by a clock that the test moves."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace

import pytest

from gpucluster_train import feed_trial
from gpucluster_train.feed import Feed
from gpucluster_train.feed_record import Record
from gpucluster_train.feed_trial import MEASURED, WARM_UP, Trial, forget, samples

LOADING_S, TRAINING_S, BATCH = 3.0, 2.0, 8


class Training:
    """A loader of 50 batches, and the training on them."""

    def __init__(self, batches: int = 50) -> None:
        self.now, self.steps, self.loaded, self._batches = 0.0, 0, 0, batches

    def __iter__(self) -> Iterator[SimpleNamespace]:
        for _ in range(self._batches):
            self.now += LOADING_S
            self.loaded += 1
            yield SimpleNamespace(shape=(BATCH, 3))

    def run(self, monkeypatch: pytest.MonkeyPatch, mode: str) -> None:
        measured = Trial(mode, lambda: self.now)
        monkeypatch.setattr("gpucluster_train.feed.trial", lambda: measured)
        feed = Feed(self)
        for _ in range(90):
            for _ in feed:
                self.now += TRAINING_S
                self.steps += 1


@pytest.mark.parametrize(
    ("mode", "seconds", "steps", "loaded"),
    [
        ("resident", TRAINING_S, WARM_UP + MEASURED, 1),
        ("loader", LOADING_S, 0, None),
        ("real", LOADING_S + TRAINING_S, WARM_UP + MEASURED, WARM_UP + MEASURED + 1),
    ],
)
def test_each_mode_measures_its_part_over_several_epochs_and_ends_the_program(
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    mode: str,
    seconds: float,
    steps: int,
    loaded: int | None,
) -> None:
    training = Training()
    with pytest.raises(SystemExit) as ended:
        training.run(monkeypatch, mode)
    assert ended.value.code == 0
    assert f"feed: {mode}: {BATCH / seconds:.1f} samples/s;" in capsys.readouterr().out
    assert training.steps == steps and loaded in (None, training.loaded)


def test_a_loader_without_batches_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(SystemExit, match="the loader gave 0 batches, 20 are for warm-up; Feed takes the loader itself"):
        Training(0).run(monkeypatch, "loader")


@pytest.mark.parametrize("batches", [WARM_UP + 5, 500])
def test_a_loader_that_cannot_begin_again_is_measured_once(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], batches: int
) -> None:
    training = Training(batches)
    measured = Trial("loader", lambda: training.now)
    monkeypatch.setattr("gpucluster_train.feed.trial", lambda: measured)
    monkeypatch.setattr(feed_trial, "let_go", lambda: True)
    with pytest.raises(SystemExit) as ended:
        list(Feed(iter(training)))
    assert ended.value.code == 0 and "samples/s cold" not in capsys.readouterr().out
    assert training.loaded == min(batches, WARM_UP + MEASURED + 1)


def test_a_function_begins_each_pass(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    training = Training(500)
    measured = Trial("loader", lambda: training.now)
    monkeypatch.setattr("gpucluster_train.feed.trial", lambda: measured)
    monkeypatch.setattr(feed_trial, "let_go", lambda: True)
    with pytest.raises(SystemExit):
        list(Feed(lambda: iter(training)))
    assert "samples/s cold, " in capsys.readouterr().out
    assert training.loaded == 2 * (WARM_UP + MEASURED + 1)


def test_the_loader_is_measured_with_cold_files_where_a_channel_names_them(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    own = Record(str(tmp_path), "2", "train-1")
    monkeypatch.setattr(feed_trial, "record", lambda: own)
    monkeypatch.setattr(feed_trial, "let_go", lambda: True)
    with pytest.raises(SystemExit):
        Training().run(monkeypatch, "loader")
    speed = pytest.approx(BATCH / LOADING_S)
    found = json.loads((tmp_path / "2.json").read_text())
    assert found["cold_per_s"] == speed and found["per_s"] == speed and found["rank"] == 2


def test_this_machine_forgets_a_file(tmp_path: Path) -> None:
    (tmp_path / "shard").mkdir()
    (tmp_path / "shard" / "0.tar").write_bytes(b"x" * 100_000)
    assert forget(tmp_path / "shard") and forget(tmp_path / "shard" / "0.tar")
    assert not forget(tmp_path / "missing.tar")


def test_the_samples_of_a_batch_are_counted_in_its_first_tensor() -> None:
    tensor = SimpleNamespace(shape=(32, 3, 224, 224))
    labels = SimpleNamespace(shape=(32,))
    for batch in (tensor, (tensor, labels), [{"data": tensor, "label": labels}], {"pixel_values": tensor}):
        assert samples(batch) == 32
    assert samples(SimpleNamespace(data=[tensor], label=[labels])) == 32  # mxnet.io.DataBatch
    assert samples("text") is None and samples([]) is None and samples(SimpleNamespace(shape=())) is None


def test_a_mode_that_does_not_exist_is_refused() -> None:
    argv = [sys.executable, "-c", "from gpucluster_train.feed import Feed; list(Feed([1]))"]
    done = subprocess.run(argv, env={"GPUCLUSTER_FEED": "fast"}, capture_output=True, text=True, check=False)
    assert done.stderr == "error: GPUCLUSTER_FEED must be resident, loader or real, got 'fast'\n"


def test_a_full_disk_costs_the_figures_and_not_the_training(tmp_path: Path) -> None:
    record = Record(str(tmp_path / "missing"), "0", "train-1")
    record.add(1.0, 2.0)
    record.write()
