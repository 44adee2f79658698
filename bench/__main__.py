"""`python -m bench [--runs N] [--epochs N...] [--python PYTHON...] [FIGURE...]`: a table, then one JSON line."""

from __future__ import annotations

import argparse
import json
import os
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path

from bench import commands, feed, jobs, partitions, resume, script, shards, synthesis
from bench.figures import Figure, table

ROOT = Path(__file__).parents[1]
GROUPS = {
    "commands": commands.figures,
    "script": script.figures,
    "synthesis": synthesis.figures,
    "partitions": partitions.figures,
    "shards": shards.figures,
    "feed": feed.figures,
    "jobs": jobs.figures,
    "resume": resume.figures,
}
NEED_A_CLUSTER = ("jobs", "resume")
"""Run where they are named: `jobs` on a cluster that is up, `resume` in a local cloud that it starts."""
SLOW = ("synthesis", "partitions", "shards", "feed", *NEED_A_CLUSTER)


def main() -> int:
    parser = argparse.ArgumentParser(
        prog="python -m bench",
        description="Measures the speed of GpuCluster, and prints a table and a line of JSON (bench/README.md).",
    )
    parser.add_argument(
        "groups",
        nargs="*",
        metavar="FIGURE",
        help=f"what to measure: {', '.join(GROUPS)} (default: all but {', '.join(NEED_A_CLUSTER)})",
    )
    runs = f"number of runs, of which the median counts; a third for {', '.join(SLOW)} (default: %(default)s)"
    parser.add_argument("--runs", type=int, default=9, metavar="N", help=runs)
    epochs = f"for jobs: numbers of epochs to train (default: {' '.join(map(str, jobs.EPOCHS))})"
    parser.add_argument("--epochs", type=int, nargs="+", default=jobs.EPOCHS, metavar="N", help=epochs)
    pythons = "for feed: Pythons that have the loaders' packages (bench/README.md)"
    parser.add_argument("--python", nargs="+", default=[], metavar="PYTHON", help=pythons)
    arguments = parser.parse_args()
    unknown = set(arguments.groups) - set(GROUPS)
    if unknown:
        parser.error(f"no such figure: {', '.join(sorted(unknown))}; there are {', '.join(GROUPS)}")
    os.chdir(ROOT)
    os.environ["PATH"] = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    groups: dict[str, Callable[..., list[Figure]]] = {
        **GROUPS,
        "feed": partial(feed.figures, pythons=tuple(arguments.python)),
        "jobs": partial(jobs.figures, epochs=arguments.epochs),
    }
    figures: list[Figure] = []
    for name in arguments.groups or [name for name in GROUPS if name not in NEED_A_CLUSTER]:
        print(f"measuring: {name}", file=sys.stderr)
        figures += groups[name](max(3, arguments.runs // (3 if name in SLOW else 1)))
    print(table(figures))
    print(json.dumps({"figures": [figure.as_json() for figure in figures]}))
    return 0


if __name__ == "__main__":
    sys.exit(main())
