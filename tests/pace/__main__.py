"""`python -m tests.pace`: plays the scenarios and prints a table."""

from __future__ import annotations

import argparse
import logging
from pathlib import Path

from tests.pace.scenarios import SCENARIOS, Outcome, play
from tests.pace.world import ROOT

COLUMNS = (
    "scenario",
    "all ran",
    "s",
    "DOWN while launching",
    "DOWN",
    "leaked",
    "launched / needed",
    "calls",
    "throttled",
)


def main() -> None:
    options = _options()
    logging.disable(logging.CRITICAL)
    print(_row(COLUMNS))
    print(_row(["---"] * len(COLUMNS)))
    for name in SCENARIOS:
        if not options.only or any(part in name for part in options.only):
            pace = "" if options.pace == "quick" else options.pace
            found = play(name, options.code, pace, options.without_lag or ())
            print(_row(_values(found)), flush=True)
            if options.more:
                _print_more(found)


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.pace")
    parser.add_argument("--code", type=Path, default=ROOT, help="a checkout with the node programs (default: this one)")
    parser.add_argument("--pace", choices=("aws", "quick"), default="aws")
    parser.add_argument("--without-lag", action="append", metavar="NAME", help="of localcloud/pace/aws.toml")
    parser.add_argument("--only", action="append", metavar="TEXT", help="scenarios that have this in their name")
    parser.add_argument("--more", action="store_true", help="print calls and errors by action, and why nodes were DOWN")
    return parser.parse_args()


def _row(values: tuple[str, ...] | list[str]) -> str:
    return f"| {' | '.join(values)} |"


def _values(found: Outcome) -> list[str]:
    throttled = sum(n for key, n in found.errors.items() if "LimitExceeded" in key or "Throttl" in key)
    return [
        found.scenario,
        "yes" if found.ended else "NO",
        f"{found.seconds:.0f}",
        str(found.down_while_launching),
        str(found.downs),
        str(found.leaked),
        f"{found.launches} / {found.wanted}",
        str(sum(found.calls.values())),
        str(throttled),
    ]


def _print_more(found: Outcome) -> None:
    for title, values in (("calls", found.calls), ("errors", found.errors)):
        print(f"  {title}: " + ", ".join(f"{key} {n}" for key, n in sorted(values.items())))
    for line in (*found.failures, *found.reasons[:40]):
        print(f"  {line}")
    print(f"  played in {found.real_s:.1f} s", flush=True)


main()
