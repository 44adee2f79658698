"""`gpucluster top`: nodes, GPUs, jobs and the price of an hour, again and again."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable
from dataclasses import asdict
from typing import TYPE_CHECKING

import click

from gpucluster.cli.frame.connection import head
from gpucluster.cli.frame.context import CliContext

if TYPE_CHECKING:
    from rich.console import Console

    from gpucluster.cli.seeing.feed import Feed

TICK_S = 0.25
_NO_TERMINAL_WIDTH = 120


@click.command()
@click.option(
    "--interval",
    "interval_s",
    type=click.IntRange(1, 3600),
    default=2,
    metavar="SECONDS",
    help="Ask the head node this often.  [default: 2]",
)
@click.option("--once", is_flag=True, help="Print one picture and exit, as without a terminal.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object to stdout.")
@click.pass_obj
def command(context: CliContext, interval_s: int, once: bool, as_json: bool) -> int:
    """Show nodes, the load of each GPU, jobs, and what an hour costs, until you press q.

    A GPU is a block: the higher, the busier. It is red if a job has it and it idles. If the head node does not answer,
    the last picture stays, with its age.
    """
    from gpucluster.cli.seeing import feed
    from gpucluster.following import overview

    layout = context.layout()
    with head(context, layout.config) as remote:

        def ask() -> overview.Overview:
            return overview.of(remote, layout.config)

        first = ask()
        if as_json:
            click.echo(json.dumps(asdict(first)))
            return 0
        history = feed.History()
        history.begin(remote, first)
        fed = feed.Feed(ask, first, history, interval_s)
        console = terminal()
        if once or not console.is_terminal or console.is_dumb_terminal:
            _print(console, fed, layout.name)
        else:
            _watch(console, fed, layout.name)
    return 0


def terminal() -> Console:
    """On the terminal itself: `Screen` would show the codes that move the cursor. `picture` takes care of other
    people's text."""
    from rich.console import Console

    stream = getattr(sys.stdout, "stream", sys.stdout)
    width = None if stream.isatty() or "COLUMNS" in os.environ else _NO_TERMINAL_WIDTH
    return Console(file=stream, width=width, highlight=False, emoji=False, markup=False)


def _print(console: Console, fed: Feed, cluster: str) -> None:
    from gpucluster.cli.seeing import picture

    console.print(picture.of(fed.seen, cluster, console.width, None))


def _watch(console: Console, fed: Feed, cluster: str) -> None:
    from gpucluster.cli.seeing import keys

    fed.start()
    try:
        with keys.pressed() as pressed:
            _show(console, fed, cluster, pressed)
    except KeyboardInterrupt:
        pass  # the usual end
    finally:
        fed.stop()


def _show(console: Console, fed: Feed, cluster: str, pressed: Callable[[float], str]) -> None:
    from rich.live import Live

    from gpucluster.cli.seeing import picture

    with Live(console=console, screen=True, auto_refresh=False) as live:
        key = ""
        drawn: tuple[object, ...] = ()
        while key.lower() not in ("q", "\x1b"):
            seen, size = fed.seen, console.size
            looks: tuple[object, ...] = (seen.at, seen.problem, size, int(seen.age_s) if seen.is_stale else 0)
            if looks != drawn:  # a picture of 64 nodes in a wide window takes 80 ms of CPU
                live.update(picture.of(seen, cluster, size.width, size.height), refresh=True)
            drawn, key = looks, pressed(TICK_S)
