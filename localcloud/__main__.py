"""`python -m localcloud`: the command line of the local cloud."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from localcloud import daemon
from localcloud.errors import LocalCloudError


def main(argv: list[str] | None = None) -> int:
    arguments = list(sys.argv[1:] if argv is None else argv)
    options = _parser().parse_args(arguments)
    try:
        code: int = options.verb(options, arguments)
        return code
    except LocalCloudError as error:
        print(f"error: {error}", file=sys.stderr)
        return error.exit_code


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="localcloud", description="AWS's APIs and booting instances on this machine")
    verbs = parser.add_subparsers(required=True, metavar="VERB")
    up = verbs.add_parser("up", help="start a cloud")
    up.add_argument("--name", default="default")
    up.add_argument("--port", type=int, default=5566)
    up.add_argument("--no-boot", action="store_true", help="the APIs alone: instances change state and nothing boots")
    up.add_argument("--image", type=Path, metavar="DIR", help="root file system that plays every machine image")
    up.add_argument("--wheels", type=Path, metavar="DIR", help="Python wheels that guests find at /opt/wheels")
    up.add_argument("--detach", action="store_true", help="return when the API answers")
    up.set_defaults(verb=_up)
    down = verbs.add_parser("down", help="end a cloud and everything it started")
    down.add_argument("--name", default="default")
    down.set_defaults(verb=_down)
    return parser


def _up(options: argparse.Namespace, arguments: list[str]) -> int:
    if options.detach:
        daemon.refuse_second(options.name)
        print(daemon.ready_line(daemon.detach([a for a in arguments if a != "--detach"], options.name)))
        return 0
    daemon.run(daemon.Options(options.name, options.port, not options.no_boot, options.image, options.wheels))
    return 0


def _down(options: argparse.Namespace, _: list[str]) -> int:
    ended = daemon.end(options.name)
    print(f"local cloud {options.name!r} ended" if ended else "nothing is running", file=sys.stderr)
    return 0


if __name__ == "__main__":
    sys.exit(main())
