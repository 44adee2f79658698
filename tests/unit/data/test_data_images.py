"""Whole and truncated images, as Pillow, cameras and telephones write them."""

from __future__ import annotations

import io
import struct
from collections.abc import Iterator
from typing import Any

import pytest
from PIL import Image, PngImagePlugin, features

from gpucluster.data import images

SIZE = (96, 64)
MP4 = b"\0\0\0\x18ftypmp42" + b"\xff\xda\0\x08" + bytes(range(256)) * 4
"""As a telephone appends a video to a picture, with bytes that look like a JPEG's."""


def picture(mode: str = "RGB") -> Image.Image:
    noise = Image.effect_noise(SIZE, 90)
    return Image.merge("RGB", [noise, noise.rotate(90), noise.transpose(Image.Transpose.FLIP_LEFT_RIGHT)]).convert(mode)


def saved(format: str, mode: str = "RGB", **options: Any) -> bytes:
    file = io.BytesIO()
    picture(mode).save(file, format, **options)
    return file.getvalue()


def segment(marker: int, content: bytes) -> bytes:
    return struct.pack(">BBH", 0xFF, marker, len(content) + 2) + content


def with_thumbnail(jpeg: bytes) -> bytes:
    """The thumbnail is a whole JPEG in an APP1 segment, before the picture's own."""
    return jpeg[:2] + segment(0xE1, b"Exif\0\0" + saved("JPEG", quality=30)) + jpeg[2:]


def padded(jpeg: bytes) -> bytes:
    """Any number of FF bytes may stand before a marker (ITU-T T.81, B.1.1.2)."""
    return jpeg[:2] + b"\xff\xff\xff" + jpeg[2:-2] + b"\xff\xff" + jpeg[-2:]


def several() -> bytes:
    file = io.BytesIO()
    picture().save(file, "MPO", save_all=True, append_images=[picture().rotate(5)])
    return file.getvalue()


def animated(format: str) -> bytes:
    file = io.BytesIO()
    picture().save(file, format, save_all=True, append_images=[picture().rotate(5)])
    return file.getvalue()


def png_with_text() -> bytes:
    text = PngImagePlugin.PngInfo()
    text.add_text("note", "IEND\xaeB`\x82")
    return saved("PNG", pnginfo=text)


JPEGS = {
    "baseline": saved("JPEG"),
    "progressive": saved("JPEG", progressive=True),
    "restarts": saved("JPEG", restart_marker_blocks=1),
    "gray": saved("JPEG", "L"),
    "CMYK": saved("JPEG", "CMYK"),
    "thumbnail": with_thumbnail(saved("JPEG")),
    "thumbnail, progressive": with_thumbnail(saved("JPEG", progressive=True)),
    "profile": saved("JPEG", icc_profile=b"\xff\xd9\xff\xda" * 30_000),
    "comment": saved("JPEG", comment=b"\xff\xd8\xff\xd9"),
    "padded": padded(saved("JPEG")),
}
WHOLE = JPEGS | {
    "JPEG, then zeros": saved("JPEG") + bytes(4096),
    "JPEG, then a video": saved("JPEG") + MP4,
    "JPEG, then half of another": saved("JPEG") + saved("JPEG")[:900],
    "two pictures": several(),
    "PNG": saved("PNG"),
    "PNG, palette": saved("PNG", "P"),
    "PNG, text": png_with_text(),
    "PNG, then more": saved("PNG") + bytes(4096),
    "APNG": animated("PNG"),
    "GIF": animated("GIF"),
    "BMP": saved("BMP"),
    "TIFF": saved("TIFF"),
    "WebP": saved("WEBP"),
    "WebP, lossless": saved("WEBP", lossless=True),
    "WebP, alpha": saved("WEBP", "RGBA"),
    "WebP, animated": animated("WEBP"),
    "WebP, then more": saved("WEBP") + bytes(100),
    "JPEG 2000": saved("JPEG2000") if features.check("jpg_2000") else b"\0\0\0\x0cjP  \r\n\x87\n",
    "AVIF": saved("AVIF") if features.check("avif") else b"\0\0\0\x1cftypavif",
    "HEIC, as telephones name it": b"\0\0\0\x24ftypheic\0\0\0\0mif1heic",
}  # fmt: skip


@pytest.mark.parametrize("name", WHOLE)
def test_a_whole_file_is_accepted(name: str) -> None:
    assert images.flaw(WHOLE[name]) is None


def ends(whole: bytes) -> Iterator[int]:
    """Every place near the beginning and the end, and some between."""
    yield from range(3, 700)
    yield from range(700, len(whole) - 200, 211)
    yield from range(max(700, len(whole) - 200), len(whole))


@pytest.mark.parametrize("name", JPEGS)
def test_a_jpeg_that_is_cut_off_anywhere_is_found(name: str) -> None:
    whole = JPEGS[name]
    assert [end for end in ends(whole) if "truncated JPEG" not in str(images.flaw(whole[:end]))] == []


@pytest.mark.parametrize("name", ["PNG", "PNG, text", "APNG", "WebP", "WebP, lossless", "WebP, alpha"])
def test_another_image_that_is_cut_off_anywhere_is_found(name: str) -> None:
    whole, kind = WHOLE[name], name.partition(",")[0].removeprefix("A")
    cuts = (end for end in ends(whole) if end >= 12)
    assert [end for end in cuts if f"truncated {kind}" not in str(images.flaw(whole[:end]))] == []


def test_a_picture_that_ends_where_another_begins_is_truncated() -> None:
    """libjpeg refuses it too: "two SOI markers" (jdmarker.c)."""
    assert "truncated JPEG" in str(images.flaw(saved("JPEG")[:1500] + saved("JPEG")))


def test_tables_alone_are_no_picture() -> None:
    jpeg = saved("JPEG")
    assert "truncated JPEG" in str(images.flaw(jpeg[: jpeg.index(b"\xff\xda")] + b"\xff\xd9"))


@pytest.mark.parametrize("content", [b"<html>", b"\xff\xd8", b"\0" * 40, b"\0\0\0\x18ftypmp42", b"RIFF\0\0\0\0WAVE"])
def test_what_is_no_image_is_refused(content: bytes) -> None:
    assert str(images.flaw(content)).startswith(f"not an image: it begins with {content[:4].hex(' ')}")
