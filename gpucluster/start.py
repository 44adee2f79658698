"""The console script. While the command line loads, Ctrl-C ends the process without a word."""

from __future__ import annotations

import signal

signal.signal(signal.SIGINT, signal.SIG_DFL)


def main() -> int:
    from gpucluster.cli import main

    return main()
