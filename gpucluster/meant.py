"""Known words similar to an unknown one. Slow modules are imported only when there is an unknown word."""

from __future__ import annotations

from collections.abc import Iterable

CLOSE_ENOUGH = 0.7
"""The least similarity, of 1: two swapped letters leave 0.8 of a word of five letters; below 0.7 it is another word."""
AS_CLOSE = 0.1
"""Words this close to the most similar one are named too."""


def near(got: str, known: Iterable[str]) -> list[str]:
    """At most three words, the most likely first; case, - and _ make no difference."""
    from difflib import SequenceMatcher, get_close_matches

    plain, typed = {_plain(word): word for word in known}, _plain(got)
    found = [
        (match, SequenceMatcher(None, match, typed).ratio())
        for match in get_close_matches(typed, plain, n=3, cutoff=CLOSE_ENOUGH)
    ]
    return [plain[match] for match, ratio in found if ratio > found[0][1] - AS_CLOSE]


def did_you_mean(got: str, known: Iterable[str], otherwise: str | None = None) -> str | None:
    """A hint with the nearest words, or `otherwise` if no word is near."""
    words = near(got, known)
    return f"did you mean {' or '.join(map(repr, words))}?" if words else otherwise


def _plain(word: str) -> str:
    return word.lower().replace("_", "-")
