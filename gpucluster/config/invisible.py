"""Characters that look like another or like nothing: text copied from web pages, documents and chats has them."""

from __future__ import annotations

import re
import unicodedata

_MEANT = {
    **dict.fromkeys("\u201c\u201d\u201e\u201f\u00ab\u00bb\u2033\uff02", '"'),
    **dict.fromkeys("\u2018\u2019\u201a\u201b\u2032\uff07", "'"),
    **dict.fromkeys("\u2010\u2011\u2012\u2013\u2014\u2015\u2212\u2022\uff0d", "-"),
    "\uff1a": ":",
    "\uff0c": ",",
    "\uff03": "#",
}
"""Those that are none of YAML's own characters, but look like one."""
_NAMES = {"\ufeff": "byte order mark"}


def name_of(character: str) -> str:
    """`no-break space (U+00A0)`."""
    name = _NAMES.get(character) or unicodedata.name(character, "control character").lower()
    return f"{name} (U+{ord(character):04X})"


def is_invisible(character: str) -> bool:
    """A blank other than the space and the tab, or a format or control character."""
    return character not in " \t\r\n" and unicodedata.category(character) in ("Zs", "Zl", "Zp", "Cf", "Cc")


def strange(line: str) -> str:
    """The first such character of a line of YAML, outside its comment, with what to do; "" if there is none."""
    for column, character in enumerate(re.split(r"(?:^|\s)#", line, maxsplit=1)[0], start=1):
        if is_invisible(character):
            what = "write a space instead" if unicodedata.category(character) == "Zs" else "remove it"
        elif character in _MEANT:
            what = f"write {_MEANT[character]} instead"
        else:
            continue
        return f"column {column} has the {name_of(character)}: {what}"
    return ""
