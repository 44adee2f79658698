"""What somebody probably meant who wrote a word that is not known. Imports nothing slow before there is one."""

from __future__ import annotations

from collections.abc import Iterable

CLOSE_ENOUGH = 0.7
"""Of 1: two letters in the wrong order leave 0.8 of a word of five; what is below 0.7 is another word."""
AS_CLOSE = 0.1
"""So much less than the likeliest, and a word is named beside it."""


def near(got: str, known: Iterable[str]) -> list[str]:
    """At most three, the likeliest first; case, - and _ make no difference."""
    from difflib import SequenceMatcher, get_close_matches

    plain, typed = {_plain(word): word for word in known}, _plain(got)
    found = [
        (match, SequenceMatcher(None, match, typed).ratio())
        for match in get_close_matches(typed, plain, n=3, cutoff=CLOSE_ENOUGH)
    ]
    return [plain[match] for match, ratio in found if ratio > found[0][1] - AS_CLOSE]


def did_you_mean(got: str, known: Iterable[str], otherwise: str | None = None) -> str | None:
    """A hint; `otherwise` where nothing is near."""
    words = near(got, known)
    return f"did you mean {' or '.join(map(repr, words))}?" if words else otherwise


def _plain(word: str) -> str:
    return word.lower().replace("_", "-")
