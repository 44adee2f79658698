"""Prints what the user should know about jobs before they are submitted."""

from __future__ import annotations

from collections.abc import Iterable

import click


def warn(texts: Iterable[str]) -> None:
    """One line of stderr for each text, also if several jobs have the same one."""
    for text in dict.fromkeys(texts):
        click.echo(f"warning: {text}", err=True)
