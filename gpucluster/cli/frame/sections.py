"""The help of a verb with many options, in sections."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import click

Sections = Mapping[str, Sequence[str]]
"""Title -> the names of the parameters. All other options come last, under `Options`."""
WIDEST = 30
"""The width of click's first column; a longer option has a line of its own."""


class InSections(click.Command):
    def __init__(self, *arguments: Any, sections: Sections | None = None, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self.sections = sections or {}

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        options = [each for each in self.get_params(ctx) if isinstance(each, click.Option)]
        records = {each.name: record for each in options if (record := each.get_help_record(ctx))}
        named = {name for names in self.sections.values() for name in names}
        width = min(WIDEST, max(len(first) for first, _ in records.values()))
        rest = [name for name in records if name not in named]
        for title, names in [*self.sections.items(), ("Options", rest)]:
            with formatter.section(title):
                formatter.write_dl([(records[name][0].ljust(width), records[name][1]) for name in names])
