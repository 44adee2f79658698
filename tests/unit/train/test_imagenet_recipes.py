"""The ImageNet recipes: the numbers of 2018, and job files that fit the clusters that they name."""

from __future__ import annotations

import ast
import importlib.util
import json
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from ruamel.yaml import YAML

from gpucluster.config import loads
from gpucluster.job import SbatchRequest, load
from gpucluster.layout import expand
from gpucluster_train.assignment import Shard
from gpucluster_train.prepare import index_of
from gpucluster_train.sources import Listing
from gpucluster_train.world import check_room

ROOT = Path(__file__).resolve().parents[3]
RECIPES = ROOT / "examples" / "imagenet"


@pytest.fixture(scope="module")
def recipes() -> ModuleType:
    spec = importlib.util.spec_from_file_location("recipes", RECIPES / "recipes.py")
    assert spec and spec.loader
    module = sys.modules["recipes"] = importlib.util.module_from_spec(spec)  # dataclasses look themselves up there
    spec.loader.exec_module(module)
    return module


def test_resnet50_is_that_of_2018(recipes: ModuleType) -> None:
    recipe = recipes.RESNET50
    batches = recipe.batches(64, None)  # 8 p3.16xlarge
    assert (batches.world, batches.learning_rate) == (16384, pytest.approx(6.4))
    steps = batches.steps(1281167)
    schedule = recipe.schedule(batches.learning_rate, steps)
    assert (steps, schedule.steps, schedule.warmup_steps) == (78, 90 * 78, 10 * 78)
    assert [schedule(step) for step in (0, 780, 7020)] == pytest.approx([0.001, 6.4, 0.00001])
    assert (recipe.momentum, recipe.weight_decay, recipe.power) == (0.9, 0.0001, 2)


def test_efficientnet_has_the_papers_learning_rate(recipes: ModuleType) -> None:
    assert recipes.EFFICIENTNET_B0.batches(32, None).world == 4096
    assert recipes.EFFICIENTNET_B0.batches(32, None).learning_rate == pytest.approx(0.256)


def test_b4_has_nvidias_learning_rate(recipes: ModuleType) -> None:
    """configs.yml of DeepLearningExamples: 0.16 for 4096."""
    found = recipes.EFFICIENTNET_B4.batches(64, None)  # 8 p4d
    assert (found.world, found.learning_rate) == (4096, pytest.approx(0.16))


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (["--data", "/fsx"], {"epochs": 90, "rule": "linear", "image_size": 224, "classes": 1000}),
        (["--synthetic", "full"], {"epochs": 90, "image_size": 224}),
        (["--synthetic", "tiny"], {"epochs": 4, "image_size": 32, "momentum": 0.9}),
        (["--synthetic", "tiny", "--epochs", "2", "--rule", "square-root"], {"epochs": 2, "rule": "square-root"}),
        (
            ["--data", "/fsx", "--warmup-epochs", "0.5", "--weight-decay", "0"],
            {"warmup_epochs": 0.5, "weight_decay": 0},
        ),
    ],
)
def test_options_of_the_command_line_win(recipes: ModuleType, words: list[str], expected: dict[str, Any]) -> None:
    recipe = recipes.options(("resnet50",), ["resnet50", *words]).recipe
    assert {name: getattr(recipe, name) for name in expected} == expected


@pytest.mark.parametrize("words", [[], ["--data", "/fsx", "--synthetic", "tiny"]])
def test_images_come_from_one_module(recipes: ModuleType, words: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        recipes.options(("resnet50",), ["resnet50", *words])
    assert "say where the images are" in capsys.readouterr().err


def test_images_come_from_the_jobs_channels(
    recipes: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    channels_of(tmp_path, monkeypatch, train=(), val=())
    found = recipes.options(("resnet50",), ["resnet50"])
    assert (found.data, found.synthetic, found.recipe.classes) == ("", "", 1000)
    assert recipes.options(("resnet50",), ["resnet50", "--synthetic", "tiny"]).synthetic == "tiny"


def channels_of(folder: Path, monkeypatch: pytest.MonkeyPatch, **classes: tuple[str, ...]) -> None:
    """A job's channels, as they are listed before the ranks start."""
    for name, own in classes.items():
        listed = Listing("/fsx", (Shard("a.tar", 1, 1),), {}, classes=own)
        asked = {"source": "/fsx", "shard": "none", "mode": "mount", "unpack": "none"}
        (folder / "channels" / name).mkdir(parents=True)
        (folder / "channels" / name / "index.json").write_text(json.dumps(index_of(asked, listed, "0", ["n"])))
    monkeypatch.setenv("GPUCLUSTER_JOB_DIR", str(folder))


@pytest.mark.parametrize(("words", "classes"), [([], 3), (["--classes", "3"], 3), (["--classes", "1000"], 1000)])
def test_the_network_has_the_classes_of_the_channels(
    recipes: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, words: list[str], classes: int
) -> None:
    channels_of(tmp_path, monkeypatch, train=("a", "b", "c"), val=("a", "b", "c"))
    assert recipes.options(("resnet50",), ["resnet50", *words]).recipe.classes == classes


@pytest.mark.parametrize(
    ("words", "val", "said"),
    [
        (["--classes", "2"], ("a", "b", "c"), "argument --classes: 2 are too few: the channel train has 3"),
        ([], ("a", "b"), "c: only one of the channels train and val has this class: pack both from one folder"),
    ],
)
def test_classes_that_do_not_fit(
    recipes: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str],
    words: list[str], val: tuple[str, ...], said: str,
) -> None:  # fmt: skip
    channels_of(tmp_path, monkeypatch, train=("a", "b", "c"), val=val)
    with pytest.raises(SystemExit):
        recipes.options(("resnet50",), ["resnet50", *words])
    assert said in capsys.readouterr().err


def test_workers(recipes: ModuleType, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    for name in ("LOCAL_WORLD_SIZE", "SLURM_CPUS_ON_NODE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr("os.sched_getaffinity", lambda process: set(range(12)))
    words = ["resnet50", "--data", "/fsx"]
    assert recipes.options(("resnet50",), words).workers == 10
    assert recipes.options(("resnet50",), [*words, "--workers", "3"]).workers == 3
    for flaw in ("many", "100000", "-1"):
        with pytest.raises(SystemExit):
            recipes.options(("resnet50",), [*words, "--workers", flaw])
        said = f"the number of workers is {flaw!r}; allowed: auto, or a whole number from 0 to 192, 16 for each CPU"
        assert said in capsys.readouterr().err


def test_workers_that_do_not_fit_into_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LOCAL_WORLD_SIZE", "8")
    monkeypatch.setattr("os.sysconf", {"SC_PAGE_SIZE": 4096, "SC_PHYS_PAGES": 16 << 18}.__getitem__)
    check_room(13)
    said = "14 workers for each of the node's 8 ranks take at least 16.4 GiB of memory, and it has 16.0 GiB: "
    with pytest.raises(ValueError, match=f"^{said}use at most 13$"):
        check_room(14)


@pytest.mark.parametrize(
    "words", ["--image-size 0", "--classes 0", "--epochs -1", "--global-batch 0", "--validate-every -1"]
)
def test_numbers_that_are_too_small(recipes: ModuleType, words: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        recipes.options(("resnet50",), ["resnet50", "--synthetic", "tiny", *words.split()])
    flag, value = words.split()
    assert (
        f"argument {flag}: must be at least {int(flag != '--validate-every')}, got {value}" in capsys.readouterr().err
    )


LACKS = {
    "train_mxnet": ["--mixup 0.2", "--label-smoothing 0.1", "--ema-decay 0.9", "--augment autoaugment", "--compile",
                    "--compress", "--decode gpu", "--precision bf16"],
    "train_keras": ["--augment autoaugment", "--compile", "--decode gpu"],
}  # fmt: skip


@pytest.mark.parametrize(("program", "words"), [(name, each) for name, found in LACKS.items() for each in found])
def test_a_program_refuses_what_it_does_not_have(
    recipes: ModuleType, program: str, words: str, capsys: pytest.CaptureFixture[str]
) -> None:
    tree = ast.parse((RECIPES / f"{program}.py").read_text())
    (lacks,) = (ast.literal_eval(each.value) for each in tree.body if isinstance(each, ast.Assign) and
                isinstance(each.targets[0], ast.Name) and each.targets[0].id == "LACKS")  # fmt: skip
    recipes.options(["resnet50"], ["resnet50", "--synthetic", "tiny", "--precision", "fp16"], lacks=lacks)
    with pytest.raises(SystemExit):
        recipes.options(["resnet50"], ["resnet50", "--synthetic", "tiny", *words.split()], lacks=lacks)
    assert f"argument {words.split()[0]}" in capsys.readouterr().err


def test_a_warm_up_as_long_as_the_training(recipes: ModuleType, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        recipes.options(["resnet50"], ["resnet50", "--synthetic", "tiny", "--epochs", "1"])
    assert "--warmup-epochs: must be from 0 to less than --epochs, which is 1; got 1" in capsys.readouterr().err


def test_a_global_batch_is_kept(recipes: ModuleType) -> None:
    found = {ranks: recipes.RESNET50.batches(ranks, 1024) for ranks in (8, 32)}
    assert {ranks: batches.per_rank for ranks, batches in found.items()} == {8: 128, 32: 32}
    assert [batches.learning_rate for batches in found.values()] == pytest.approx([0.4, 0.4])


def test_a_loss_that_is_no_number_ends_the_training(recipes: ModuleType) -> None:
    recipes.check_loss(0.5, 1)
    with pytest.raises(SystemExit, match="the loss is nan after epoch 3"):
        recipes.check_loss(float("nan"), 3)


@pytest.mark.parametrize(
    ("job", "cluster", "ranks"),
    [
        ("resnet50-ddp", "p4d-fsx-smddp", 64),
        ("resnet50-horovod", "p4d-fsx-smddp", 64),
        ("resnet50-mxnet", "p3-beegfs-mxnet", 8),  # one for each node
        ("efficientnet-horovod", "p4d-fsx-smddp", 64),
        ("efficientnet-smddp", "p4d-fsx-smddp", 64),
        ("resnet50-keras", "p4d-fsx-smddp", 64),
        ("efficientnet-b0-keras", "p4d-fsx-smddp", 64),
        ("efficientnet-b4-keras", "p4d-fsx-smddp", 64),
    ],
)
def test_job_files_fit_their_clusters(job: str, cluster: str, ranks: int) -> None:
    layout = expand(loads((ROOT / "examples" / f"{cluster}.yaml").read_text()))
    spec = load(layout, RECIPES / f"{job}.yaml")
    assert (spec.nodes, spec.world_size) == (8, ranks)
    assert SbatchRequest.from_spec(spec, layout, "/home/ubuntu/jobs/x").materialize()


def test_every_job_file_is_checked() -> None:
    assert {path.stem for path in RECIPES.glob("*.yaml")} == {
        "resnet50-ddp", "resnet50-horovod", "resnet50-mxnet", "efficientnet-horovod", "efficientnet-smddp",
        "resnet50-keras", "efficientnet-b0-keras", "efficientnet-b4-keras",
    }  # fmt: skip


@pytest.mark.parametrize(("one", "other"), [("efficientnet-horovod", "efficientnet-smddp")])
def test_only_the_launcher_changes(one: str, other: str) -> None:
    jobs = [YAML(typ="safe").load((RECIPES / f"{name}.yaml").read_text()) for name in (one, other)]
    changed = {key for key in jobs[0] | jobs[1] if jobs[0].get(key) != jobs[1].get(key)}
    assert changed == {"name", "launcher"}
