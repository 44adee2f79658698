"""`python -m localcloud`: the command line of the local cloud."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from localcloud.errors import LocalCloudError
from localcloud.faults import KINDS
from localcloud.pace.figures import TABLES as PACES
from localcloud.process import verbs


def main(argv: list[str] | None = None) -> int:
    arguments = list(sys.argv[1:] if argv is None else argv)
    options = _parser().parse_args(arguments)
    try:
        code: int = options.verb(options, arguments)
        return code
    except LocalCloudError as error:
        print(f"error: {error}", file=sys.stderr)
        return error.exit_code
    except KeyboardInterrupt:
        return 130


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="localcloud", description="AWS's APIs and booting instances on this machine")
    commands = parser.add_subparsers(required=True, metavar="VERB")
    named = argparse.ArgumentParser(add_help=False)
    named.add_argument("--name", default="default", help="which cloud (default: %(default)s)")
    _add_up(commands.add_parser("up", help="start a cloud", parents=[named]))
    down = commands.add_parser("down", help="end a cloud and everything that it started", parents=[named])
    down.set_defaults(verb=verbs.down)
    status = commands.add_parser("status", help="what runs", parents=[named])
    status.add_argument("--json", action="store_true")
    status.set_defaults(verb=verbs.status)
    env = commands.add_parser("env", help="print the export lines that an AWS client needs", parents=[named])
    env.add_argument("--json", action="store_true")
    env.set_defaults(verb=verbs.env)
    _add_image(commands.add_parser("image", help="the root file system that instances boot"))
    _add_fault(commands.add_parser("fault", help="cause failures that happen on AWS"), named)
    pace = commands.add_parser("pace", help="show the pace, or change it", parents=[named])
    pace.add_argument("pace", nargs="?", choices=(*PACES, "off"))
    _add_pace_scale(pace)
    pace.set_defaults(verb=verbs.pace)
    doctor = commands.add_parser("doctor", help="list what this machine has and lacks")
    doctor.add_argument("--json", action="store_true")
    doctor.set_defaults(verb=verbs.doctor)
    return parser


def _add_up(up: argparse.ArgumentParser) -> None:
    up.add_argument("--port", type=int, default=5566, help="port of the API; the tunnel uses the next one")
    up.add_argument("--no-boot", action="store_true", help="only the APIs: instances change state, nothing boots")
    up.add_argument("--image", type=Path, metavar="DIR", help="root file system for every machine image")
    up.add_argument("--wheels", type=Path, metavar="DIR", help="Python wheels that guests find in /opt/wheels")
    up.add_argument("--while-pid", type=int, metavar="PID", help="end with this process, however it ends")
    up.add_argument("--pace", choices=PACES, default="", help="AWS's latencies, limits and delays (default: quick)")
    _add_pace_scale(up)
    up.add_argument("--detach", action="store_true", help="return when the API answers")
    up.set_defaults(verb=verbs.up)


def _add_pace_scale(parser: argparse.ArgumentParser) -> None:
    words = "how long a second of that pace lasts; 0.1 is ten times as fast (default: %(default)s)"
    parser.add_argument("--pace-scale", type=float, default=1.0, metavar="SECONDS", help=words)


def _add_image(image: argparse.ArgumentParser) -> None:
    build = image.add_subparsers(required=True, metavar="VERB").add_parser("build", help="build it, unless it exists")
    build.add_argument("--target", type=Path, metavar="DIR")
    build.add_argument("--plain", action="store_true", help="with nodes that install Slurm, MPI and the rest at boot")
    build.set_defaults(verb=verbs.image_build)


def _add_fault(fault: argparse.ArgumentParser, named: argparse.ArgumentParser) -> None:
    commands = fault.add_subparsers(required=True, metavar="VERB")
    add = commands.add_parser("add", help="lay one", parents=[named])
    add.add_argument("kind", choices=(*KINDS, "death"))
    add.add_argument("--instance-type")
    add.add_argument("--availability-zone")
    add.add_argument("--action", help="throttle: RunInstances, or ec2:RunInstances")
    add.add_argument("--tag", metavar="KEY=VALUE", help="only instances that have this tag at launch")
    add.add_argument("--instance-id", help="death, interruption: which instance")
    add.add_argument("--command", help="broken: name of the command")
    add.add_argument("--message", help="broken: what it prints to stderr before it exits with code 1")
    add.add_argument("--delay-s", type=float, help="slow-boot: the delay; interruption: the notice (default: 120)")
    add.add_argument("--quota-code", help="quota: its code, for example L-417A185B")
    add.add_argument("--value", type=float, help="quota: number of vCPUs")
    add.add_argument("--count", type=int, metavar="N", help="remove the rule after N uses")
    add.set_defaults(verb=verbs.fault_add)
    listed = commands.add_parser("list", help="print the rules in force, one JSON object a line", parents=[named])
    listed.set_defaults(verb=verbs.fault_list)
    clear = commands.add_parser("clear", help="remove one rule, or all", parents=[named])
    clear.add_argument("id", nargs="?")
    clear.set_defaults(verb=verbs.fault_clear)


def run() -> None:
    """The command `localcloud` of an installation."""
    sys.exit(main())


if __name__ == "__main__":
    run()
