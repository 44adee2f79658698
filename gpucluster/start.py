"""The console script. While the command line loads, Ctrl-C ends the process silently."""

import gc
import signal

signal.signal(signal.SIGINT, signal.SIG_DFL)


def main() -> int:
    # Most objects of a verb are modules and models that live until it exits: collecting garbage among them
    # takes an eighth of a short verb's time.
    gc.set_threshold(100_000)
    from gpucluster.cli import main

    return main()
