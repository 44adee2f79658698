"""Slurm's ResumeProgram. usage: resume_program HOSTLIST. The file SLURM_RESUME_FILE lists the nodes of each job.

A program that launches other nodes already also launches these (`offers`). If there is none, this one does (`resume`).
"""

from __future__ import annotations

import gc
import sys
from collections.abc import Callable

from gpucluster_node.log import start_logging
from gpucluster_node.power import offers


def main() -> None:
    # Nearly all objects live until the program ends. To look for garbage among them takes a seventh of its time.
    gc.set_threshold(100_000)
    request = offers.read(sys.argv[1])
    start_logging()
    if not offers.accepted(request):
        offers.serve(request, _accept)


def _accept(request: offers.Request) -> Callable[[], None]:
    from gpucluster_node.power import resume  # with AWS's libraries, which take a third of a second and most of 47 MiB

    return resume.accept(request)


if __name__ == "__main__":
    main()
