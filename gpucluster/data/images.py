"""Whether an image file is complete: its segments are walked from the start, and nothing is decoded.

What follows the picture is not looked at: telephones append videos and second pictures, other programs text.
"""

from __future__ import annotations

import re

SUFFIXES = (".jpg", ".jpeg", ".png", ".gif", ".bmp", ".webp")
_JPEG, _PNG = b"\xff\xd8\xff", b"\x89PNG\r\n\x1a\n"
_EOI, _SCAN, _SOI = 0xD9, 0xDA, 0xD8
_MARKER = re.compile(rb"\xff([\xc0-\xcf\xd8-\xfe])")
"""The markers of ITU-T T.81 table B.1, without restarts, which stand inside a scan. After FF, a scan has 00, and in
JPEG-LS anything below 80. Like libjpeg (next_marker in jdmarker.c), a search skips what else stands between
segments."""
_UNCHECKED = (
    *(b"GIF8", b"BM", b"II*\0", b"MM\0*"),
    *(b"\xff\x4f\xff\x51", b"\0\0\0\x0cjP  ", b"\xff\x0a", b"\0\0\0\x0cJXL "),
)
"""Beginnings of GIF, BMP, TIFF; of JPEG 2000 and JPEG XL, each as a stream and in a file."""
_BRANDS = (b"heic", b"heix", b"hevc", b"heim", b"heis", b"mif1", b"msf1", b"avif", b"avis")
"""Brands of ISO 23008-12 and AV1 image files: telephones and web servers call them .jpg, too."""


def flaw(content: bytes) -> str | None:
    """What is wrong with it, or None. Judged by content, not by name: ImageNet has a PNG called JPEG."""
    if content.startswith(_JPEG):
        return _jpeg_flaw(content)
    if content.startswith(_PNG):
        return _png_flaw(content)
    if content.startswith(b"RIFF") and content[8:12] == b"WEBP":
        return _webp_flaw(content)
    if content.startswith(_UNCHECKED) or (content[4:8] == b"ftyp" and content[8:12] in _BRANDS):
        return None
    return f"not an image: it begins with {content[:4].hex(' ')}"


def _jpeg_flaw(content: bytes) -> str | None:
    at, has_scan = len(_JPEG) - 1, False
    while found := _MARKER.search(content, at):
        marker, at = found[1][0], found.end()
        if marker == _EOI:
            return None if has_scan else "truncated JPEG: it has no picture before its end marker"
        if marker == _SOI:
            return "truncated JPEG: another one begins before its end marker"
        has_scan = has_scan or marker == _SCAN
        at += int.from_bytes(content[at : at + 2], "big")  # a thumbnail is inside a segment
    return "truncated JPEG: its end marker is missing"


def _png_flaw(content: bytes) -> str | None:
    at = len(_PNG)
    while len(content) >= at + 12:  # a chunk: length, name, data, checksum
        length, name = int.from_bytes(content[at : at + 4], "big"), content[at + 4 : at + 8]
        if name == b"IEND":
            return None
        at += length + 12
    return "truncated PNG: its last chunk is missing"


def _webp_flaw(content: bytes) -> str | None:
    size = int.from_bytes(content[4:8], "little") + 8
    return None if len(content) >= size else f"truncated WebP: {len(content)} bytes of {size}"
