"""Text of files that a user wrote, in whichever Unicode an editor, a spreadsheet or a shell saved it."""

from __future__ import annotations

import codecs

_MARKS = (
    (codecs.BOM_UTF8, "utf-8"),
    (codecs.BOM_UTF32_LE, "utf-32-le"),  # before UTF-16's, which it begins with
    (codecs.BOM_UTF32_BE, "utf-32-be"),
    (codecs.BOM_UTF16_LE, "utf-16-le"),
    (codecs.BOM_UTF16_BE, "utf-16-be"),
)


def marked(content: bytes) -> tuple[bytes, str] | None:
    """The byte order mark with which it begins, and the encoding that the mark names."""
    return next((each for each in _MARKS if content.startswith(each[0])), None)


def decoded(content: bytes, errors: str = "strict") -> str:
    """In the encoding that its byte order mark names, else in UTF-8; `errors` counts only there. Raises
    UnicodeDecodeError, also at a NUL: text in UTF-16 without a mark is full of them."""
    mark, encoding = marked(content) or (b"", "utf-8")
    text = content.removeprefix(mark).decode(encoding, errors if encoding == "utf-8" else "strict")
    if "\0" in text:
        at = content.index(0)
        raise UnicodeDecodeError("utf-8", content, at, at + 1, "a NUL")
    return text


def flaw(error: UnicodeDecodeError) -> str:
    return f"is not UTF-8 text: byte {error.start} is 0x{error.object[error.start]:02x}"
