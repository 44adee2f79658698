"""Whether an image file is complete, judged by its ends: nothing is decoded, so this costs almost nothing."""

from __future__ import annotations

SUFFIXES = (".jpg", ".jpeg", ".png", ".gif", ".bmp", ".webp")
_SOI, _SCAN, _EOI = b"\xff\xd8\xff", b"\xff\xda", b"\xff\xd9"
_PNG, _PNG_END = b"\x89PNG\r\n\x1a\n", b"IEND\xaeB`\x82"
_TAIL = 64
"""Bytes that some programs append after the end."""


def flaw(content: bytes) -> str | None:
    """What is wrong with it, or None. Judged by content, not by name: ImageNet has a PNG called JPEG."""
    if content.startswith(_SOI):
        return None if _jpeg_ends(content) else "truncated JPEG: its end marker is missing"
    if content.startswith(_PNG):
        return None if _PNG_END in content[-_TAIL:] else "truncated PNG: its last chunk is missing"
    if content.startswith(b"RIFF") and content[8:12] == b"WEBP":
        return _webp_flaw(content)
    if content.startswith((b"GIF8", b"BM")):
        return None
    return f"not an image: it begins with {content[:4].hex(' ')}"


def _jpeg_ends(content: bytes) -> bool:
    """A thumbnail inside has an end marker too, but that stands before the picture's own last scan."""
    return content.endswith(_EOI) or content.rfind(_EOI) > content.rfind(_SCAN) >= 0


def _webp_flaw(content: bytes) -> str | None:
    size = int.from_bytes(content[4:8], "little") + 8
    return None if len(content) >= size else f"truncated WebP: {len(content)} bytes of {size}"
