"""Characters that look like a blank, a quote or nothing: text copied from web pages, documents and chats has them."""

from __future__ import annotations

import unicodedata

_QUOTES = "\u2018\u2019\u201a\u201b\u201c\u201d\u201e\u201f\u00ab\u00bb\u2032\u2033\uff02\uff07"
_NAMES = {"\u200b": "zero width space", "\ufeff": "byte order mark"}


def name_of(character: str) -> str:
    """`no-break space (U+00A0)`."""
    name = _NAMES.get(character) or unicodedata.name(character, "control character").lower()
    return f"{name} (U+{ord(character):04X})"


def is_invisible(character: str) -> bool:
    """A blank other than the space, a format or a control character; no line break."""
    return character not in " \t\n\r" and unicodedata.category(character) in ("Zs", "Zl", "Zp", "Cf", "Cc")


def is_typographic(character: str) -> bool:
    """A quotation mark that is none for YAML."""
    return character in _QUOTES
