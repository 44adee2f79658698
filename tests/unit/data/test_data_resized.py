"""`gpucluster data shard --resize`: with Pillow, on pictures of every kind that it meets."""

from __future__ import annotations

import importlib.util
import io
import json
import tarfile
from pathlib import Path
from typing import Any

import pytest
from test_data_shard import Captured, answer, shard

from gpucluster.data.resizing import Resize, resized

Image: Any = pytest.importorskip("PIL.Image")


def picture(size: tuple[int, int], kind: str = "JPEG", mode: str = "RGB", **how: Any) -> bytes:
    gradient = Image.linear_gradient("L").resize(size).convert(mode)
    packed = io.BytesIO()
    gradient.save(packed, kind, **how)
    return packed.getvalue()


@pytest.fixture
def images(tmp_path: Path) -> Path:
    for split in ("train", "val"):
        for number, size in enumerate([(500, 375), (375, 500), (200, 300), (288, 288), (900, 289)]):
            path = tmp_path / "src" / split / f"c{number % 2}" / f"{number}.JPEG"
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(picture(size))
    return tmp_path / "src"


def pictures(folder: Path) -> dict[str, bytes]:
    """By the names of their sources."""
    names = [json.loads(line)[0] for line in (folder / "samples.jsonl").read_text().splitlines()]
    found = {}
    for path in sorted(folder.glob("*.tar")):
        with tarfile.open(path) as tar:
            for member in tar:
                if member.name.endswith(".jpg"):
                    found[names[int(member.name[:9])]] = tar.extractfile(member).read()  # type: ignore[union-attr]
    return found


def test_training_pictures_shrink_and_those_for_validation_do_not(
    images: Path, tmp_path: Path, capsys: Captured
) -> None:
    assert shard(images, tmp_path / "out", "--shards", 2, "--resize", "288") == 0
    told = capsys.readouterr().err
    assert (
        "train: 5 samples in 2 shards" in told and "; resized to a shorter side of 288 pixels, JPEG quality 90" in told
    )
    small = pictures(tmp_path / "out" / "train")
    sizes = {name.rpartition("/")[2]: Image.open(io.BytesIO(content)).size for name, content in small.items()}
    assert sizes == {
        "0.JPEG": (384, 288), "1.JPEG": (288, 384), "2.JPEG": (200, 300), "3.JPEG": (288, 288), "4.JPEG": (897, 288),
    }  # fmt: skip
    for name in ("train/c0/2.JPEG", "train/c1/3.JPEG"):
        assert small[name] == (images / name).read_bytes()
    assert pictures(tmp_path / "out" / "val") == {
        str(path.relative_to(images)): path.read_bytes() for path in (images / "val").rglob("*.JPEG")
    }
    manifests = [json.loads((tmp_path / "out" / split / "manifest.json").read_text()) for split in ("train", "val")]
    assert [each.get("resize") for each in manifests] == ["288:90", None]


def test_another_size_makes_other_shards(images: Path, tmp_path: Path, capsys: Captured) -> None:
    words = (images / "train", tmp_path / "out", "--shards", 2)
    assert shard(*words, "--resize", "288") == 0
    answer(capsys)
    assert shard(*words, "--resize", "288:90") == 0
    assert "is already complete" in capsys.readouterr().err
    for other in (["--resize", "288:80"], ["--resize", "256"], []):
        assert shard(*words, *other) == 2
        assert "has another data set: 5 samples in 2 shards" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("name", "content", "size", "mode"),
    [
        ("a.JPEG", picture((640, 480), mode="CMYK"), (400, 300), "RGB"),
        ("a.jpg", picture((640, 480), mode="L"), (400, 300), "L"),
        ("a.png", picture((640, 480), "PNG", "RGBA"), (400, 300), "RGB"),
        ("a.png", picture((100, 50), "PNG"), (100, 50), "RGB"),
        ("a.gif", picture((640, 480), "GIF", "L"), (400, 300), "L"),
        ("a.JPEG", picture((640, 480), "PNG"), (400, 300), "RGB"),
        ("a.jpg", picture((4000, 300)), (4000, 300), "RGB"),
        ("a.jpg", picture((301, 4000)), (300, 3987), "RGB"),
    ],
    ids=range(8),
)
def test_every_picture_becomes_a_jpeg(name: str, content: bytes, size: tuple[int, int], mode: str) -> None:
    found, made = resized(name, content, Resize(300))
    with Image.open(io.BytesIO(made)) as image:
        assert (image.format, image.size, image.mode) == ("JPEG", size, mode)
    assert found.lower().endswith((".jpg", ".jpeg"))


def test_no_picture_is_turned() -> None:
    turned = Image.Exif()
    turned[0x0112] = 6
    _, made = resized("a.jpg", picture((640, 480), exif=turned), Resize(300))
    assert Image.open(io.BytesIO(made)).size == (400, 300)


def test_pictures_that_cannot_be_decoded_are_named(images: Path, tmp_path: Path, capsys: Captured) -> None:
    (images / "train/c1/1.JPEG").write_bytes(b"\xff\xd8\xff\xda\0\x02\xff\xd9")
    assert shard(images / "train", tmp_path / "out", "--shards", 2, "--resize", "288", "--workers", 1) == 2
    said = capsys.readouterr().err
    assert "1 file cannot be packed:\n  c1/1.JPEG: cannot be resized: " in said and "Traceback" not in said


@pytest.mark.parametrize("given", ["288:", "0", "31", "288:96", "288:0", "big", "5000", "-288", "288x288"])
def test_impossible_sizes_are_refused(given: str, images: Path, tmp_path: Path, capsys: Captured) -> None:
    assert shard(images, tmp_path / "out", "--shards", 2, f"--resize={given}") == 2
    said = capsys.readouterr().err
    assert f"32 to 4096 pixels and a JPEG quality of 1 to 95, got '{given}'" in said
    assert not (tmp_path / "out").exists()


def test_without_pillow_nothing_is_packed(
    images: Path, tmp_path: Path, capsys: Captured, monkeypatch: pytest.MonkeyPatch
) -> None:
    find = importlib.util.find_spec
    monkeypatch.setattr(importlib.util, "find_spec", lambda name, *more: None if name == "PIL" else find(name, *more))
    assert shard(images, tmp_path / "out", "--shards", 2, "--resize", "288") == 2
    assert "--resize: needs Pillow, which this machine's Python does not have" in capsys.readouterr().err
    assert not (tmp_path / "out").exists()
