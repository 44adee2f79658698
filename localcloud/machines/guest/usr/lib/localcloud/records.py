"""Recorded output of the real commands, in /usr/share/records: what a stand-in prints is chosen there and filled in.

A record is a text file: lines `# key: value` (command, version, source …), the line `# output:`, and then what the
command printed. `# field: NAME = TEXT` says which words of the output differ from machine to machine.
As a command, for stand-ins that are shell scripts: records.py COMMAND/FILE [NAME=VALUE…].
"""

import os
import sys

FOLDER = os.path.join(os.path.dirname(os.path.realpath(__file__)), "../../share/records")
END_OF_HEADER = "# output:\n"


class Record:
    def __init__(self, name: str) -> None:
        with open(os.path.join(FOLDER, name)) as file:
            header, _, self.text = file.read().partition(END_OF_HEADER)
        lines = [line[2:].partition(": ") for line in header.splitlines()]
        words = [value.partition(" = ") for key, _, value in lines if key == "field"]
        self.fields = {name: word for name, _, word in words}

    def parts(self, start: str) -> list[str]:
        """The output, cut before every line that begins with `start`."""
        found: list[str] = []
        for line in self.text.splitlines(keepends=True):
            if line.startswith(start) or not found:
                found.append("")
            found[-1] += line
        return found

    def fill(self, text: str | None = None, **values: object) -> str:
        """The output, or a part of it, with other words in its fields."""
        text = self.text if text is None else text
        for name, value in values.items():
            text = text.replace(self.fields[name], str(value))
        return text


if __name__ == "__main__":
    sys.stdout.write(Record(sys.argv[1]).fill(**dict(argument.split("=", 1) for argument in sys.argv[2:])))
