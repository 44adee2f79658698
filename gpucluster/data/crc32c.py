"""CRC-32C (Castagnoli), for TFRecord files. Python's zlib has only another polynomial.

Every Debian and Ubuntu machine has it in the library of its ext4 tools. If that is missing, as on macOS, it is
computed in Python, a hundred times more slowly.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from functools import cache

Crc = Callable[[bytes], int]
_POLYNOMIAL = 0x82F63B78
_KNOWN = (b"123456789", 0xE3069283)
_ALL = 0xFFFFFFFF


def masked(content: bytes) -> int:
    """As TFRecord stores it: rotated and shifted, so that a CRC of data with CRCs inside stays a good one."""
    crc = function()(content)
    return ((crc >> 15 | crc << 17) + 0xA282EAD8) & _ALL


@cache
def function() -> Crc:
    """The fastest implementation that is correct on this machine."""
    library = _of_ext4()
    return library if library and library(_KNOWN[0]) == _KNOWN[1] else in_python


def _of_ext4() -> Crc | None:
    try:
        function = ctypes.CDLL("libext2fs.so.2").ext2fs_crc32c_le
    except (OSError, AttributeError):
        return None
    function.argtypes = (ctypes.c_uint32, ctypes.c_char_p, ctypes.c_size_t)
    function.restype = ctypes.c_uint32
    return lambda content: int(function(_ALL, content, len(content))) ^ _ALL


def in_python(content: bytes) -> int:
    table, crc = _table(), _ALL
    for byte in content:
        crc = table[(crc ^ byte) & 0xFF] ^ crc >> 8
    return crc ^ _ALL


@cache
def _table() -> tuple[int, ...]:
    def entry(value: int) -> int:
        for _ in range(8):
            value = value >> 1 ^ (_POLYNOMIAL if value & 1 else 0)
        return value

    return tuple(entry(value) for value in range(256))
