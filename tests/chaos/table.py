"""The chaos table as Markdown: one line for each fault, in the order in which they ran."""

from __future__ import annotations

import textwrap
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from subprocess import run

BEGIN, END = "<!-- the chaos table begins: make chaos writes it -->", "<!-- the chaos table ends -->"
LONGEST_CELL = 160
HEAD = "| fault | what the user saw | outcome | seconds | leaked | lost |\n|---|---|---|---|---|---|"


@dataclass(frozen=True)
class Cells:
    """One row of one sitting."""

    fault: str
    saw: str
    outcome: str
    seconds: int
    leaked: int
    lost: int


@dataclass
class Table:
    rows: dict[str, dict[int, Cells]] = field(default_factory=dict)
    """Fault -> sitting -> row."""

    def add(self, row: Cells, sitting: int) -> None:
        self.rows.setdefault(row.fault, {})[sitting] = row

    def text(self) -> str:
        return "\n".join([HEAD, *(_line(list(sittings.values())) for sittings in self.rows.values())])

    def write(self, file: Path) -> None:
        """Replaces the rows of the table in a file that have passed now, adds new ones, and keeps the others."""
        before, _, rest = file.read_text().partition(BEGIN)
        earlier, _, after = rest.partition(END)
        rows = {_fault(line): line for line in earlier.splitlines() if line.startswith("| ") and line not in HEAD}
        rows |= {fault: _line(list(sittings.values())) for fault, sittings in self.rows.items()}
        commit = run(["git", "rev-parse", "--short", "HEAD"], capture_output=True, text=True, check=True).stdout.strip()
        times = max(map(len, self.rows.values()), default=0)
        said = f"{len(rows)} faults. The last run, of {len(self.rows)} rows on one cluster"
        said += f", {times} times each," if times > 1 else ""
        said += f" on {datetime.now(UTC):%-d %B %Y}, was of commit {commit}."
        file.write_text(f"{before}{BEGIN}\n{said}\n\n{HEAD}\n" + "\n".join(rows.values()) + f"\n{END}{after}")


def _fault(line: str) -> str:
    return line.removeprefix("| ").partition(" | ")[0]


def _line(rows: list[Cells]) -> str:
    """Joins the same row of each sitting: the words of the last one, all seconds, and the sums."""
    last = rows[-1]
    seconds = ", ".join(str(row.seconds) for row in rows)
    leaked, lost = sum(row.leaked for row in rows), sum(row.lost for row in rows)
    cells = [last.fault, _cell(last.saw), last.outcome, seconds, leaked, lost]
    return f"| {' | '.join(map(str, cells))} |"


def _cell(text: str) -> str:
    """What a command printed: its beginning, and without what Markdown takes for the end of a cell."""
    return textwrap.shorten(text, LONGEST_CELL, placeholder=" …").replace("|", "\\|")
