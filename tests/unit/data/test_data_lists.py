"""File lists and lists of `--exclude`, as editors and spreadsheets save them."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from gpucluster.cli import main
from gpucluster.data import excluded, source
from gpucluster.errors import UsageError

Captured = pytest.CaptureFixture[str]
ENCODINGS = ("utf-8", "utf-8-sig", "utf-16", "utf-16-le", "utf-16-be", "utf-32")
"""utf-8-sig: a CSV file of Excel; utf-16: its "Unicode text", and what > writes in PowerShell 5."""


def encoded(text: str, encoding: str) -> bytes:
    mark = "\ufeff" if encoding in ("utf-16-le", "utf-16-be") else ""
    return (mark + text).encode(encoding)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "img").mkdir()
    for name in ("a b", "ü", "c"):
        (tmp_path / "img" / f"{name}.bin").write_bytes(b"x")
    return tmp_path


@pytest.mark.parametrize("encoding", ENCODINGS)
@pytest.mark.parametrize("suffix", [".csv", ".txt"])
def test_a_byte_order_mark_is_no_part_of_the_first_name(folder: Path, encoding: str, suffix: str) -> None:
    separator = source.LISTS[suffix]
    text = "".join(f"img/{name}.bin{separator}{label}\r\n" for label, name in enumerate(("a b", "ü", "c")))
    (folder / f"all{suffix}").write_bytes(encoded(text, encoding))
    found = source.read(str(folder / f"all{suffix}")).splits[""]
    assert found == [("img/a b.bin", 0), ("img/ü.bin", 1), ("img/c.bin", 2)]


@pytest.mark.parametrize("encoding", ENCODINGS)
def test_excluded_names_in_any_unicode(folder: Path, encoding: str) -> None:
    (folder / "bad.txt").write_bytes(encoded("img/ü.bin\r\n# blurred\r\nimg/c.bin\r\n", encoding))
    assert excluded.read(str(folder / "bad.txt")) == ["img/ü.bin", "img/c.bin"]


def test_a_name_that_is_not_utf8_is_found_as_its_bytes(folder: Path) -> None:
    name = os.fsdecode(b"img/caf\xe9.bin")
    (folder / name).write_bytes(b"x")
    (folder / "all.txt").write_bytes(b"img/caf\xe9.bin\n")
    assert source.read(str(folder / "all.txt")).splits[""] == [(name, None)]
    assert excluded.read(str(folder / "all.txt")) == [name]


LATIN, NUL = "img/ü.bin\nimg/c.bin\n".encode("latin-1"), "img/c.bin\n".encode("utf-16-le")


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (LATIN, "all.txt: is not UTF-8 text: byte 4 is 0xfc\nhint: save it as UTF-8"),
        (NUL, "all.txt: is not UTF-8 text: byte 1 is 0x00\nhint: save it as UTF-8"),
    ],
)  # fmt: skip
def test_another_encoding_is_named(content: bytes, said: str, folder: Path, capsys: Captured) -> None:
    (folder / "all.txt").write_bytes(content)
    assert main(["data", "shard", str(folder / "all.txt"), str(folder / "out"), "--shards", "1"]) == 2
    assert f"error: {folder}/{said}" in capsys.readouterr().err
    assert not (folder / "out").exists()


def test_an_exclude_list_with_nul_bytes_is_refused(folder: Path) -> None:
    (folder / "bad.txt").write_bytes(NUL)
    with pytest.raises(UsageError, match=r"^--exclude: .*bad.txt: is not UTF-8 text: byte 1 is 0x00$"):
        excluded.read(str(folder / "bad.txt"))


@pytest.mark.parametrize(
    ("name", "line", "said"),
    [
        ("all.txt", "img/c.bin 0", "tabs separate the columns of a .txt list, not blanks"),
        ("all.txt", "img/a b.bin   0", "tabs separate the columns of a .txt list, not blanks"),
        ("all.txt", "img/c.bin 0 1 0", "tabs separate the columns of a .txt list, not blanks"),
        ("all.txt", "img/c.bin,0", "tabs separate the columns of a .txt list, not commas"),
        ("all.tsv", "img/c.bin;cat", "tabs separate the columns of a .tsv list, not semicolons"),
        ("all.csv", "img/c.bin;cat", "commas separate the columns of a .csv list, not semicolons"),
        ("all.csv", "img/c.bin\tcat", "commas separate the columns of a .csv list, not tabs"),
        ("all.csv", "img/c.bin|cat", "commas separate the columns of a .csv list, not bars"),
        ("all.csv", "file;label\nimg/c.bin;cat", "commas separate the columns of a .csv list, not semicolons"),
    ],
)  # fmt: skip
def test_another_separator_is_named(name: str, line: str, said: str, folder: Path, capsys: Captured) -> None:
    (folder / name).write_text(f"{line}\n" * 3)
    assert main(["data", "shard", str(folder / name), str(folder / "out"), "--shards", "1"]) == 2
    number = 1 + line.count("\n")
    assert f"error: {folder / name}:{number}: {said}" in capsys.readouterr().err
    assert not (folder / "out").exists()


def test_names_with_other_separators_are_names(folder: Path) -> None:
    for name in ("a b.bin", "a;1.bin", "a,1.bin"):
        (folder / name).write_bytes(b"x")
    (folder / "all.txt").write_text("a b.bin\na;1.bin\na,1.bin\n")
    assert [name for name, _ in source.read(str(folder / "all.txt")).splits[""]] == ["a b.bin", "a;1.bin", "a,1.bin"]


def test_a_list_of_which_no_file_exists_is_not_to_be_excluded_whole(folder: Path, capsys: Captured) -> None:
    (folder / "all.txt").write_text("images/a.bin\nimages/b.bin\n")
    words = [str(folder / "all.txt"), str(folder / "out"), "--shards", "1", "--workers", "1"]
    assert main(["data", "shard", *words]) == 2
    said = capsys.readouterr().err
    assert "images/a.bin: no such file" in said and "--exclude" not in said
    assert "hint: none of its 2 files can be packed" in said


@pytest.mark.parametrize(
    ("labels", "said"),
    [
        (["0", "1", "unknown"], "c.bin has the label 'unknown', but a.bin has the number 0"),
        (["cat", "3", "dog"], "a.bin has the label 'cat', but b.bin has the number 3"),
        (["0.5", "0.25", "1"], "a.bin has the label '0.5', which is no whole number"),
        (["0.5", "0.25", "0.125"], "a.bin has the label '0.5', which is no whole number"),
        (["1e-3", "x", "y"], "a.bin has the label '1e-3', which is no whole number"),
        (["cat", "", "dog"], "b.bin has an empty label"),
    ],
)  # fmt: skip
def test_labels_are_all_whole_numbers_or_all_names(labels: list[str], said: str, tmp_path: Path) -> None:
    rows = zip(("a.bin", "b.bin", "c.bin"), labels, strict=True)
    (tmp_path / "all.csv").write_text("".join(f"{name},{label}\n" for name, label in rows))
    with pytest.raises(UsageError) as caught:
        source.read(str(tmp_path / "all.csv"))
    assert caught.value.message == f"{tmp_path}/all.csv: {said}"


def _numbers(*labels: str) -> Callable[[Path], list[int | None]]:
    def read(folder: Path) -> list[int | None]:
        (folder / "all.csv").write_text("".join(f"{at}.bin,{label}\n" for at, label in enumerate(labels)))
        return [label for _, label in source.read(str(folder / "all.csv")).splits[""]]

    return read


def test_names_that_python_would_read_as_numbers_stay_names(tmp_path: Path) -> None:
    assert _numbers("1_1", "1_10", "nan", "Infinity")(tmp_path) == [0, 1, 3, 2]
    assert _numbers("9007199254740993", "-1", "+2", "3.000000")(tmp_path) == [9007199254740993, -1, 2, 3]
