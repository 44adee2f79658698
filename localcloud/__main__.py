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
    parser = argparse.ArgumentParser(
        prog="localcloud", description="Runs AWS's APIs and boots instances on this machine."
    )
    commands = parser.add_subparsers(required=True, metavar="VERB")
    named = argparse.ArgumentParser(add_help=False)
    named.add_argument("--name", default="default", help="name of the local cloud (default: %(default)s)")
    _add_up(commands.add_parser("up", help="start a local cloud", parents=[named]))
    down = commands.add_parser("down", help="stop a local cloud and everything that it started", parents=[named])
    down.set_defaults(verb=verbs.down)
    status = commands.add_parser("status", help="show what runs", parents=[named])
    status.add_argument("--json", action="store_true", help="print JSON")
    status.set_defaults(verb=verbs.status)
    env = commands.add_parser("env", help="print the export lines that an AWS client needs", parents=[named])
    env.add_argument("--json", action="store_true", help="print JSON")
    env.set_defaults(verb=verbs.env)
    _add_image(commands.add_parser("image", help="build the root file system that instances boot"))
    _add_fault(commands.add_parser("fault", help="cause failures that happen on AWS, such as missing capacity"), named)
    pace = commands.add_parser("pace", help="show how fast the cloud answers, or change it", parents=[named])
    pace.add_argument("pace", nargs="?", choices=(*PACES, "off"), help="aws: as slow as AWS; off: as fast as possible")
    _add_pace_scale(pace)
    pace.set_defaults(verb=verbs.pace)
    doctor = commands.add_parser("doctor", help="list what this machine has and lacks")
    doctor.add_argument("--json", action="store_true", help="print JSON")
    doctor.set_defaults(verb=verbs.doctor)
    return parser


def _add_up(up: argparse.ArgumentParser) -> None:
    up.add_argument(
        "--port",
        type=int,
        default=5566,
        metavar="N",
        help="port of the API; the tunnel uses the next one (default: %(default)s)",
    )
    up.add_argument(
        "--no-boot", action="store_true", help="run only the APIs: instances change their state, but nothing boots"
    )
    up.add_argument(
        "--image",
        type=Path,
        metavar="DIR",
        help="root file system that instances boot (default: that of `image build`)",
    )
    up.add_argument("--wheels", type=Path, metavar="DIR", help="Python wheels that instances find in /opt/wheels")
    up.add_argument("--while-pid", type=int, metavar="PID", help="stop when this process ends, however it ends")
    up.add_argument(
        "--pace",
        choices=PACES,
        default="",
        help="aws: answer with AWS's latencies, limits and delays (default: as fast as possible)",
    )
    _add_pace_scale(up)
    words = "instances call AWS's names over HTTPS, and reach them by a route to the internet only"
    up.add_argument("--public-endpoints", action="store_true", help=words)
    up.add_argument("--detach", action="store_true", help="return when the API answers (default: run until Ctrl-C)")
    up.set_defaults(verb=verbs.up)


def _add_pace_scale(parser: argparse.ArgumentParser) -> None:
    words = "how long a second of that pace lasts; 0.1 is ten times as fast (default: %(default)s)"
    parser.add_argument("--pace-scale", type=float, default=1.0, metavar="SECONDS", help=words)


def _add_image(image: argparse.ArgumentParser) -> None:
    build = image.add_subparsers(required=True, metavar="VERB").add_parser(
        "build", help="build the root file system, unless it exists"
    )
    build.add_argument("--target", type=Path, metavar="DIR", help="where to build it (default: a folder in ~/.cache)")
    build.add_argument(
        "--plain", action="store_true", help="without Slurm, MPI and the rest, which nodes then install at boot"
    )
    build.set_defaults(verb=verbs.image_build)


def _add_fault(fault: argparse.ArgumentParser, named: argparse.ArgumentParser) -> None:
    commands = fault.add_subparsers(required=True, metavar="VERB")
    add = commands.add_parser("add", help="add a rule that causes a failure", parents=[named])
    add.add_argument(
        "kind",
        choices=(*KINDS, "death"),
        metavar="KIND",
        help=f"{', '.join((*KINDS, 'death'))}; localcloud/docs/local-cloud.md explains each",
    )
    add.add_argument("--instance-type", metavar="TYPE", help="only for instances of this type")
    add.add_argument("--availability-zone", metavar="ZONE", help="only in this zone")
    words = "throttle, unavailable: the API action, such as RunInstances, ec2:RunInstances or 'ec2:*'"
    add.add_argument("--action", metavar="NAME", help=words)
    add.add_argument("--tag", metavar="KEY=VALUE", help="only for instances that have this tag at launch")
    add.add_argument("--instance-id", metavar="ID", help="the instance, for the kinds that need one")
    add.add_argument("--command", metavar="NAME", help="broken: name of the command")
    add.add_argument(
        "--message", metavar="TEXT", help="broken: what the command prints before it fails; kernel-log: the line"
    )
    words = (
        "slow-boot, slow-dns: the delay; interruption: the notice (default: 120); event: how long until it begins; "
        "block-end: how long until EC2 terminates the instances"
    )
    add.add_argument("--delay-s", type=float, metavar="SECONDS", help=words)
    add.add_argument("--code", metavar="CODE", help="event: instance-stop, system-reboot, …")
    add.add_argument("--quota-code", metavar="CODE", help="quota: its code, for example L-417A185B")
    add.add_argument("--reservation-id", metavar="ID", help="block-end: the Capacity Block")
    words = (
        "quota: number of vCPUs; capacity: instances left (default: 0); throttle: calls a second (default: 0); "
        "lost-gpu, lost-efa: how many (default: 1); clock-skew: seconds"
    )
    add.add_argument("--value", type=float, metavar="N", help=words)
    add.add_argument("--count", type=int, metavar="N", help="remove the rule after N uses")
    add.set_defaults(verb=verbs.fault_add)
    listed = commands.add_parser("list", help="print the active rules, one JSON object on each line", parents=[named])
    listed.set_defaults(verb=verbs.fault_list)
    clear = commands.add_parser("clear", help="remove one rule, or all", parents=[named])
    clear.add_argument("id", nargs="?", help="the rule's id, from `fault list` (default: all rules)")
    clear.set_defaults(verb=verbs.fault_clear)


def run() -> None:
    """The command `localcloud` of an installation."""
    sys.exit(main())


if __name__ == "__main__":
    run()
