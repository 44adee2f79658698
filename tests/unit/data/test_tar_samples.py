"""Tar files are grouped into samples exactly as webdataset groups them: compared with webdataset itself."""

from __future__ import annotations

import io
import tarfile
from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from webdataset import tariterators

from gpucluster.data.records import FORMATS, Record
from gpucluster_train import tars
from gpucluster_train.channels import ChannelError

Named = Sequence[tuple[str, bytes]]


def tar(files: Named) -> io.BytesIO:
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w") as archive:
        for name, content in files:
            entry = tarfile.TarInfo(name)
            entry.size = len(content)
            archive.addfile(entry, io.BytesIO(content))
    packed.seek(0)
    return packed


def ours(files: Named) -> list[dict[str, Any]] | str:
    try:
        return list(tars.samples(tar(files), "x.tar")) or "none"
    except ChannelError as error:
        return "twice" if "twice" in str(error) else "none" if "none of its" in str(error) else str(error)


def webdatasets(files: Named) -> list[dict[str, Any]] | str:
    """It refuses a data set without samples as a whole (`empty_check`). For a hidden file in a folder it takes the
    folder for the key, which we do not."""
    shown = [(name, content) for name, content in files if not name.rpartition("/")[2].startswith(".")]
    members = [each | {"__url__": "x.tar"} for each in tariterators.tar_file_iterator(tar(shown))]
    try:
        found = list(tariterators.group_by_keys(members))
    except ValueError as error:
        assert "duplicate file name in tar file" in str(error)
        return "twice"
    return [{key: value for key, value in each.items() if key != "__url__"} for each in found] or "none"


CASES: dict[str, Named] = {
    "macOS": [("./._0001.jpg", b"M"), ("./0001.jpg", b"J"), ("./._0001.cls", b"M"), ("./0001.cls", b"3")],
    "macOS, without a folder": [("._0001.jpg", b"M"), ("0001.jpg", b"J"), ("._0001.cls", b"M"), ("0001.cls", b"3")],
    "macOS, deep": [("a/._b", b"M"), ("a/b/._1.jpg", b"M"), ("a/b/1.jpg", b"J"), ("a/b/.DS_Store", b"")],
    "upper case": [("0001.JPG", b"J"), ("0001.Cls", b"3"), ("A.Seg.PNG", b"P")],
    "no suffix": [("0001", b"x"), ("0001.jpg", b"J"), ("README", b""), ("0002.jpg", b"K")],
    "an empty suffix": [("0001.", b"x"), ("0002.jpg", b"K")],
    "metadata": [("__meta__", b"{}"), ("__index__/0", b""), ("__a__.json", b"1"), ("__0001.jpg", b"J")],
    "dots in folders": [("a.b/c.jpg", b"J"), ("a.b/c", b"x"), ("a.b/c.cls", b"1"), ("v1.0/d.seg.png", b"P")],
    "twice": [("0003.jpg", b"a"), ("0003.jpg", b"b")],
    "twice in other letters": [("0003.jpg", b"a"), ("0003.JPG", b"b")],
    "the same name later": [("1.jpg", b"a"), ("2.jpg", b"b"), ("1.cls", b"c")],
    "a line break": [("a\nb.jpg", b"J"), ("a\nb.cls", b"1")],
    "the key": [("1.__key__", b"k")],
}


@pytest.mark.parametrize("name", CASES)
def test_these_names_are_grouped_as_webdataset_groups_them(name: str) -> None:
    assert ours(CASES[name]) == webdatasets(CASES[name])


PIECES = ("a", "b", "B", ".", "..", "_", "__", "/", "._", "jpg", ".JPG", ".cls")
NAMES = st.lists(st.sampled_from(PIECES), min_size=1, max_size=6).map(lambda pieces: "".join(pieces).strip("/"))
FILES = st.lists(NAMES.filter(lambda name: name.strip("./") and "//" not in name), min_size=1, max_size=8)


@settings(max_examples=400, deadline=None)
@given(FILES)
def test_all_names_are_grouped_as_webdataset_groups_them(names: list[str]) -> None:
    files = [(name, str(number).encode()) for number, name in enumerate(names)]
    assert ours(files) == webdatasets(files)


def test_a_file_that_is_there_twice_is_named() -> None:
    with pytest.raises(ChannelError, match=r"^x.tar: has 0003.JPG twice: in a sample each suffix stands once"):
        list(tars.samples(tar([("0003.jpg", b"a"), ("0003.JPG", b"b")]), "x.tar"))


def test_a_shard_whose_files_have_no_suffix_is_refused() -> None:
    files = [("data/0001", b"x"), ("data/0002", b"y")]
    said = r"^x.tar: none of its 2 files is part of a sample, first data/0001: a name needs a suffix, such as 0001.jpg$"
    with pytest.raises(ChannelError, match=said):
        list(tars.samples(tar(files), "x.tar"))


def test_an_empty_shard_has_no_samples() -> None:
    assert list(tars.samples(tar([]), "x.tar")) == []


class Pipe(io.RawIOBase):
    """Cannot seek, and gives as little as a socket may."""

    def __init__(self, content: bytes, most: int) -> None:
        self._content, self._most = io.BytesIO(content), most

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        return self._content.readinto(memoryview(buffer)[: self._most])


LONG = "folder/" * 20 + "1.jpg"
KINDS = st.sampled_from([tarfile.USTAR_FORMAT, tarfile.GNU_FORMAT, tarfile.PAX_FORMAT])
ENTRIES = st.lists(
    st.tuples(
        st.sampled_from(["1.jpg", "1.cls", "2.jpg", "2.json", "é.jpg", LONG, "a/", "./a/3.jpg", "b/" * 60 + "4.jpg"]),
        st.binary(max_size=1200),
        st.sampled_from([0, 1.5]),
    ),
    min_size=1,
    max_size=8,
)


def mixed(entries: Sequence[tuple[str, bytes, float]], kind: int) -> bytes:
    """A fraction of a second makes a PAX header, as a long name does."""
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w", format=kind) as archive:
        for name, content, changed in entries:
            entry = tarfile.TarInfo(name.rstrip("/"))
            entry.mtime = changed
            if name.endswith("/"):
                entry.type = tarfile.DIRTYPE
                archive.addfile(entry)
                continue
            entry.size = len(content)
            archive.addfile(entry, io.BytesIO(content))
    return packed.getvalue()


def read(content: bytes, first: int = 0, most: int = 0) -> list[dict[str, Any]] | str:
    stream = Pipe(content, most) if most else io.BytesIO(content)
    try:
        return list(tars.samples(stream, "x.tar", first))  # type: ignore[arg-type]
    except ChannelError as error:
        return str(error)


@settings(max_examples=200, deadline=None)
@given(ENTRIES, KINDS, st.integers(0, 5), st.integers(1, 700))
def test_plain_files_are_read_as_tarfile_reads_them(entries, kind, first, most):
    content = mixed(entries, kind)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(tars, "_plain", lambda header: None)  # tarfile reads everything
        expected = read(content)
    assert read(content) == read(content, most=most) == expected
    if not isinstance(expected, str):
        assert read(content, first) == read(content, first, most) == expected[first:]


@settings(max_examples=200, deadline=None)
@given(ENTRIES, KINDS, st.data())
def test_a_damaged_header_loses_no_file_silently(entries, kind, data):
    """tarfile alone takes a damaged header for the end of the file, unless it is the first one."""
    named = [(f"{number}.jpg", content, changed) for number, (_, content, changed) in enumerate(entries)]
    content = mixed(named, kind)
    with tarfile.open(fileobj=io.BytesIO(content)) as archive:
        header = data.draw(st.sampled_from([member.offset_data - 512 for member in archive]))
    at = header + data.draw(st.integers(0, 499))
    changed = content[:at] + bytes([content[at] ^ (1 << data.draw(st.integers(0, 6)))]) + content[at + 1 :]
    found = read(changed)
    assert isinstance(found, str) or found == read(content), "checksum fields have bytes without a meaning"
    if isinstance(found, str):
        assert found.startswith("x.tar: is truncated or not a tar file (")


def test_our_own_shards_need_no_tarfile(monkeypatch: pytest.MonkeyPatch) -> None:
    records = (Record(number, "a.jpg", number % 7, b"J" * number) for number in range(600))
    content = b"".join(map(FORMATS["tar"].encode, records)) + FORMATS["tar"].end
    monkeypatch.setattr(tars.tarfile, "open", None)
    found = read(content, most=1000)
    assert [(each["__key__"], each["jpg"], each["cls"]) for each in found] == [
        (f"{number:09d}", b"J" * number, b"%d" % (number % 7)) for number in range(600)
    ]
    assert read(content, first=599) == found[599:]


def test_samples_are_passed_over_without_reading_them() -> None:
    class File(io.BytesIO):
        bytes_read = 0

        def read(self, size: int | None = -1) -> bytes:
            data = super().read(size)
            self.bytes_read += len(data)
            return data

    files = [(f"{number}.{suffix}", b"x" * 10_000) for number in range(20) for suffix in ("jpg", "json")]
    file = File(tar(files).getvalue())
    assert len(list(tars.samples(file, "x.tar", 18))) == 2
    assert file.bytes_read < 100_000
