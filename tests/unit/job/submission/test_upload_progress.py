"""The progress of an upload: shown for large uploads, which are sent in pieces."""

from __future__ import annotations

from gpucluster.head import streams
from gpucluster.submission.upload import LARGE_BYTES, Progress, in_words


def progress(total: int, *moments: float) -> tuple[Progress, list[str]]:
    messages: list[str] = []
    clock = iter(moments)
    return Progress(total, messages.append, lambda: next(clock)), messages


def test_a_large_upload_is_reported_every_few_seconds_and_at_its_end() -> None:
    call, messages = progress(40 * 2**20, 0, 2, 6, 6, 8, 9)
    for sent in (10, 20, 30, 40):
        call(sent * 2**20)
    assert messages == [
        "uploading the job's files: 40.0 MiB, compressed",
        "uploaded 20.0 MiB of 40.0 MiB",
        "uploaded 40.0 MiB of 40.0 MiB",
    ]


def test_a_small_one_is_silent() -> None:
    call, messages = progress(LARGE_BYTES, 0)
    call(LARGE_BYTES)
    assert messages == []


def test_sizes_in_words() -> None:
    assert list(map(in_words, (0, 1023, 1536, 3 * 2**40, 2**60))) == [
        "0 bytes", "1023 bytes", "1.5 KiB", "3.0 TiB", "1048576.0 TiB",
    ]  # fmt: skip


def test_input_is_sent_in_pieces() -> None:
    pieces: list[bytes] = []
    sent_bytes: list[int] = []
    data = bytes(range(256)) * 2500
    streams.send(pieces.append, data, sent_bytes.append)
    assert b"".join(pieces) == data
    assert max(map(len, pieces)) == streams._PIECE
    assert sent_bytes == [262144, 524288, 640000]
