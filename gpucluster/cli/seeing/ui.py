"""`gpucluster ui`: serves a page about the cluster to a browser of this machine."""

from __future__ import annotations

import contextlib
import os
import tempfile
import threading
from collections.abc import Iterator
from pathlib import Path

import click

from gpucluster.cli.frame.connection import head
from gpucluster.cli.frame.context import CliContext
from gpucluster.cli.frame.following import tell

EXAMPLES = """\b
Examples:
  gpucluster ui --open
  gpucluster ui --port 8265       # behind `ssh -L 8265:127.0.0.1:8265 MACHINE`, open the address as it is printed
"""


@click.command(epilog=EXAMPLES)
@click.option("--port", type=click.IntRange(1, 65535), metavar="N", help="Port on this machine.  [default: a free one]")
@click.option("--open", "opens", is_flag=True, help="Open the address in this machine's browser.")
@click.option("--write", is_flag=True, help="Let the page cancel jobs. Otherwise it only reads.")
@click.pass_obj
def command(context: CliContext, port: int | None, opens: bool, write: bool) -> int:
    """Serve a page about nodes, jobs, logs, curves and money, until you press Ctrl-C.

    Only programs on this machine can connect, and only the browser that opens the printed address first can read. The
    address is the last line on stdout.
    """
    from gpucluster.ui import app, server
    from gpucluster.ui.answers import Answers
    from gpucluster.ui.cluster import ClusterSource
    from gpucluster.ui.reading import Reader

    layout = context.layout()
    listener = server.listen(port)  # may raise, before the seconds of a connection
    with head(context, None if context.chosen_context() else layout.config) as remote, listener:
        reader = Reader(ClusterSource(layout, remote, may_write=write), Answers())
        guard = app.guarded(reader)
        threading.Thread(target=reader.overview, daemon=True).start()  # connects while the address is being opened
        address = server.address(listener, guard)
        if "SSH_CONNECTION" in os.environ:
            where = listener.getsockname()[1]
            tell(
                f"from your own machine: ssh -L {where}:127.0.0.1:{where} {os.uname().nodename}, then open this address"
            )
        click.echo(address)
        with _opened(address) if opens else contextlib.nullcontext():
            try:
                server.serve(guard, listener, debug=context.debug)
            except KeyboardInterrupt:
                tell("\nthe page has ended; jobs continue")
    return 0


@contextlib.contextmanager
def _opened(address: str) -> Iterator[None]:
    """A browser in a terminal would take this one, and some keep the caller waiting: in another thread."""
    import webbrowser

    page = _private(address)
    shown = page.as_uri() if page else address
    threading.Thread(target=webbrowser.open, args=(shown,), daemon=True).start()
    try:
        yield
    finally:
        if page:
            page.unlink(missing_ok=True)


def _private(address: str) -> Path | None:
    """A file that only this user can read and that leads to the address. The arguments of programs are everybody's to
    read, and whoever is faster than the browser would use the token (Jupyter: ServerApp.use_redirect_file). In the home
    directory and not hidden: a browser from a snap reads nothing else. None for WSL, whose browser is on Windows."""
    if "microsoft" in os.uname().release.lower():
        return None
    try:
        descriptor, name = tempfile.mkstemp(".html", "gpucluster-ui-", Path.home())
    except (OSError, RuntimeError):
        return None
    with os.fdopen(descriptor, "w", encoding="ascii") as file:
        file.write(f'<!doctype html><title>GpuCluster</title><meta http-equiv="refresh" content="0;url={address}">\n')
    return Path(name)
