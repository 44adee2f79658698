"""Sources of samples: image folders and file lists."""

from __future__ import annotations

from pathlib import Path

import pytest

from gpucluster.data import source
from gpucluster.errors import UsageError


def lay(folder: Path, *names: str) -> str:
    for name in names:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(b"x")
    return str(folder)


def test_splits_number_classes_alike(tmp_path: Path) -> None:
    url = lay(
        tmp_path, "train/cat/1.JPEG", "train/ant/deep/2.jpg", "val/cat/3.png", "LOC.csv", "train/ant/.cache/9.jpg"
    )
    found = source.read(url)
    assert found.classes == ("ant", "cat")
    assert {split: sorted(samples) for split, samples in found.splits.items()} == {
        "train": [("train/ant/deep/2.jpg", 0), ("train/cat/1.JPEG", 1)],
        "val": [("val/cat/3.png", 1)],
    }
    assert found.ignored == ("LOC.csv", "train/ant/.cache/9.jpg")


def test_classes_without_splits_are_one_data_set(tmp_path: Path) -> None:
    found = source.read(lay(tmp_path, "truck/1.jpg", "other/2.jpg"))
    assert sorted(found.splits[""]) == [("other/2.jpg", 0), ("truck/1.jpg", 1)]


def test_a_folder_beside_splits_makes_no_classes_of_them(tmp_path: Path) -> None:
    url = lay(tmp_path, "train/a/1.jpg", "val/a/2.jpg", "docs/logo.png", "notes/readme.md")
    with pytest.raises(
        UsageError, match=r"has splits \(train, val\), but also images in other folders: docs$"
    ) as caught:
        source.read(url)
    assert f"or name only one split: {url}/train; if all of them are classes" in str(caught.value.hint)
    assert set(source.read(url, ["docs/logo.png"]).splits) == {"train", "val"}


def test_excluded_files_are_left_out(tmp_path: Path) -> None:
    found = source.read(lay(tmp_path, "a/1.jpg", "b/2.jpg"), ["a/1.jpg"])
    assert found.splits == {"": [("b/2.jpg", 0)]}


def test_a_circular_link_is_followed_once(tmp_path: Path) -> None:
    url = lay(tmp_path / "data", "a/1.jpg")
    (tmp_path / "data" / "a" / "up").symlink_to(tmp_path / "data")
    lay(tmp_path / "elsewhere", "2.jpg")
    (tmp_path / "data" / "b").symlink_to(tmp_path / "elsewhere")
    assert sorted(source.read(url).splits[""]) == [("a/1.jpg", 0), ("b/2.jpg", 1)]


def test_a_folder_that_is_linked_elsewhere_too_is_in_both_places(tmp_path: Path) -> None:
    url = lay(tmp_path, "train/a/1.jpg", "train/a/deep/2.jpg", "train/b/3.jpg", "val/b/4.jpg")
    (tmp_path / "val" / "a").symlink_to("../train/a")
    (tmp_path / "train" / "b" / "again").symlink_to("../a")
    (tmp_path / "train" / "a" / "across").symlink_to("../b")
    found = {split: [name for name, _ in samples] for split, samples in source.read(url).splits.items()}
    a, b = ["1.jpg", "across/3.jpg", "deep/2.jpg"], ["3.jpg", "again/1.jpg", "again/deep/2.jpg"]
    assert sorted(found["train"]) == [f"train/a/{name}" for name in a] + [f"train/b/{name}" for name in b]
    assert sorted(found["val"]) == [
        "val/a/1.jpg", "val/a/across/3.jpg", "val/a/deep/2.jpg", "val/b/4.jpg",
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("name", "text", "samples", "classes"),
    [
        ("all.txt", "a.bin\n\n# note\nb/c.jpg\n", [("a.bin", None), ("b/c.jpg", None)], ()),
        ("all.tsv", "a.bin\t3\nb.bin\t-1\n", [("a.bin", 3), ("b.bin", -1)], ()),
        ("all.csv", 'a.bin,cat\n"b,c.bin",ant\n', [("a.bin", 1), ("b,c.bin", 0)], ("ant", "cat")),
        ("all.lst", "17\t3.000000\ta.jpg\n18\t0\tb.jpg\n", [("a.jpg", 3), ("b.jpg", 0)], ()),
    ],
)
def test_file_lists(
    tmp_path: Path, name: str, text: str, samples: list[tuple[str, int | None]], classes: tuple[str, ...]
) -> None:
    (tmp_path / name).write_text(text)
    found = source.read(str(tmp_path / name))
    assert (found.splits, found.classes, found.location.url) == ({"": samples}, classes, str(tmp_path))


@pytest.mark.parametrize(
    ("names", "url", "message"),
    [
        (["a/1.jpg"], "missing", "missing: no such folder"),
        (["a/1.jpg"], "a/1.jpg", "1.jpg: is not a folder"),
        (["a/1.txt", "b/2.dat"], "", "no images among 2 files"),
        (["a/1.jpg", "2.jpg"], "", "2.jpg: is not in the folder of a class"),
        (["train/1.jpg", "train/a/2.jpg"], "", "is not in the folder of a class"),
        (["a/1.jpg"], "list.txt", "list.txt: no such file list"),
    ],
)
def test_sources_that_cannot_be_packed_are_refused(tmp_path: Path, names: list[str], url: str, message: str) -> None:
    lay(tmp_path, *names)
    with pytest.raises(UsageError, match=message):
        source.read(f"{tmp_path}/{url}".rstrip("/"))


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("a.txt", "a\t1\nb\n", r"a.txt:2: 1 columns, expected file, or file and label"),
        ("a.lst", "a\t1\n", r"a.lst:1: 2 columns, expected number, label, file"),
        ("a.csv", "\n# nothing\n", "names no files"),
    ],
)
def test_a_wrong_file_list_is_refused(tmp_path: Path, name: str, text: str, message: str) -> None:
    (tmp_path / name).write_text(text)
    with pytest.raises(UsageError, match=message):
        source.read(str(tmp_path / name))
