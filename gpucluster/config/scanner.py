"""ruamel.yaml's scanner, for which tabs may separate tokens, too.

YAML 1.2.2, section 6.1: tabs never indent; section 6.2: blanks and tabs separate tokens within a line; section 7.3.3: a
plain scalar may contain them. ruamel.yaml allows tabs only between brackets.
"""

from __future__ import annotations

from typing import Any

from ruamel.yaml.scanner import Scanner

_BREAKS = "\0\r\n\x85\u2028\u2029"


class TabScanner(Scanner):
    def scan_to_next_token(self) -> Any:
        super().scan_to_next_token()
        while self.reader.peek() == "\t" and not self._indents():
            self.reader.forward()
            super().scan_to_next_token()

    def scan_plain_spaces(self, indent: Any, start_mark: Any) -> Any:
        length = self._blanks()
        blanks = self.reader.prefix(length)
        if "\t" not in blanks:
            return super().scan_plain_spaces(indent, start_mark)
        after = self.reader.peek(length)
        self.reader.forward(length)
        if after in _BREAKS:
            return super().scan_plain_spaces(indent, start_mark)
        return [] if after == "#" else [blanks]

    def _indents(self) -> bool:
        """Whether the tab is the first in its line, and something other than a comment follows."""
        reader = self.reader
        first = not reader.buffer[reader.pointer - reader.column : reader.pointer].strip()
        return first and self.reader.peek(self._blanks()) not in f"{_BREAKS}#"

    def _blanks(self) -> int:
        length = 0
        while self.reader.peek(length) in " \t":
            length += 1
        return length
