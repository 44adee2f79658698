"""A command as a line of text, split into words as a shell does."""

from __future__ import annotations

from gpucluster.config.value_checks import refuse

_OPERATORS = ("&&", "||", "|", ";", ">", "<")
_IN_QUOTES = '$`"\\'
"""What a backslash escapes in double quotes (POSIX, Shell Command Language, 2.2.3)."""


def words(text: str) -> list[str]:
    """Raises ValueError for a text that is incomplete, or that only a shell could run: with several commands or
    lines, redirections or variables. A comment, and a newline after the command or after a backslash, are left out."""
    return _Line(text).words()


class _Line:
    def __init__(self, text: str) -> None:
        self._text, self._at = text, 0
        self._found, self._word = list[str](), None
        self._is_over = False
        """Whether a line with words has ended."""

    _word: str | None

    def words(self) -> list[str]:
        while self._at < len(self._text):
            self._take(self._text[self._at])
        self._end_word()
        return self._found

    def _take(self, letter: str) -> None:
        if letter in " \t\r\n":
            self._end_word()
            self._is_over = self._is_over or (letter == "\n" and bool(self._found))
            self._at += 1
        elif letter == "#" and self._word is None:
            end = self._text.find("\n", self._at)
            self._at = len(self._text) if end < 0 else end
        elif letter == "\\" and self._text[self._at + 1 : self._at + 2] == "\n":
            self._at += 2
        else:
            self._check(letter)
            self._in_word(letter)

    def _in_word(self, letter: str) -> None:
        if letter in "'\"":
            self._quoted(letter)
        elif letter == "\\":
            if self._at + 1 == len(self._text):
                raise _incomplete("no closing character after \\")
            self._add(self._text[self._at + 1], 2)
        else:
            self._add(letter, 1)

    def _quoted(self, quote: str) -> None:
        self._add("", 1)
        while (letter := self._text[self._at : self._at + 1]) != quote:
            after = self._text[self._at + 1 : self._at + 2]
            if not letter:
                raise _incomplete(f"no closing quotation {quote}")
            if quote == '"':
                self._check_expansion(letter)
            if quote == '"' and letter == "\\" and after in (*_IN_QUOTES, "\n"):
                self._add(after.strip("\n"), 2)
            else:
                self._add(letter, 1)
        self._at += 1

    def _check(self, letter: str) -> None:
        if self._is_over:
            raise _needs("\n")
        rest = self._text[self._at :]
        if operator := next((each for each in _OPERATORS if rest.startswith(each)), None):
            raise _needs(operator)
        if letter == "&" and self._word is None and not rest[1:2].strip():
            raise _needs("&")
        self._check_expansion(letter)

    def _check_expansion(self, letter: str) -> None:
        after = self._text[self._at + 1 : self._at + 2]
        if letter == "`" or (letter == "$" and (after.isalnum() or after in tuple("_{([!@#*?$'-"))):
            raise _needs(letter)

    def _add(self, text: str, length: int) -> None:
        self._word = (self._word or "") + text
        self._at += length

    def _end_word(self) -> None:
        if self._word is not None:
            self._found.append(self._word)
        self._word = None


def _needs(mark: str) -> ValueError:
    return refuse(f"needs a shell for {mark!r}", "write a list: [bash, -c, '…']")


def _incomplete(why: str) -> ValueError:
    return refuse(f"cannot be split into words: {why}", "write a list: [python, train.py]")
