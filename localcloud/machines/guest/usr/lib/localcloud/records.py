#!/usr/bin/python3 -I
"""Recorded output of the real commands, in /usr/share/records: a stand-in chooses a record and fills in its fields.

A record is a text file: lines `# key: value` (command, version, source …), the line `# output:`, and then what the
command printed. `# field: NAME = TEXT` names words of the output that differ from machine to machine; a TEXT in quotes
keeps its width. A source "on GitHub" without a name is a public repository whose name was not recorded.

As a command, for stand-ins that are shell scripts:
records.py COMMAND/FILE [NAME=VALUE…] | --line COMMAND/FILE START [NAME=VALUE…] | --own-words TEXT | --not-played TEXT
"""

import os
import sys

FOLDER = os.path.join(os.path.dirname(os.path.realpath(__file__)), "../../share/records")
END_OF_HEADER = "# output:\n"
NOT_PLAYED = 97


class Record:
    def __init__(self, name: str) -> None:
        with open(os.path.join(FOLDER, name)) as file:
            header, _, self.text = file.read().partition(END_OF_HEADER)
        lines = [line[2:].partition(": ") for line in header.splitlines()]
        words = [value.partition(" = ") for key, _, value in lines if key == "field"]
        self.fields = {name: word for name, _, word in words}

    def parts(self, start: str) -> list[str]:
        """The output, divided before every line that begins with `start`."""
        found: list[str] = []
        for line in self.text.splitlines(keepends=True):
            if line.startswith(start) or not found:
                found.append("")
            found[-1] += line
        return found

    def line(self, start: str) -> str:
        """The first line that begins with `start`. Raises StopIteration if there is none."""
        return next(line for line in self.text.splitlines(keepends=True) if line.startswith(start))

    def fill(self, text: str | None = None, /, **values: object) -> str:
        """The output, or a part of it, with these values in its fields."""
        text = self.text if text is None else text
        for name, value in values.items():
            text = text.replace(self.fields[name].strip('"'), fitted(str(value), self.fields[name]))
        return text


def fitted(value: str, field: str) -> str:
    """A quoted field keeps its width and its alignment."""
    inside = field.strip('"')
    if inside == field:
        return value
    return value.rjust(len(inside)) if inside.startswith(" ") else value.ljust(len(inside))[: len(inside)]


def say(record: str, /, **values: object) -> None:
    print(Record(record).fill(**values), end="")


def own_words(text: str) -> str:
    """A message without a record of the real command's: it is marked as the local cloud's own."""
    return f"localcloud: {text}"


def not_played(what: str) -> int:
    """Reports something that the real command does and the stand-in does not."""
    print(own_words(f"not played here: {what}"), file=sys.stderr)
    return NOT_PLAYED


if __name__ == "__main__":
    if sys.argv[1] == "--not-played":
        sys.exit(not_played(" ".join(sys.argv[2:])))
    if sys.argv[1] == "--own-words":
        sys.exit(own_words(" ".join(sys.argv[2:])))
    if sys.argv[1] == "--line":
        found = Record(sys.argv[2])
        sys.stdout.write(found.fill(found.line(sys.argv[3]), **dict(word.split("=", 1) for word in sys.argv[4:])))
        sys.exit()
    say(sys.argv[1], **dict(argument.split("=", 1) for argument in sys.argv[2:]))
