"""`gpucluster env`: the Python environments of jobs."""

from __future__ import annotations

import json
from dataclasses import asdict

import click

from gpucluster.cli.frame import following
from gpucluster.cli.frame.columns import columns
from gpucluster.cli.frame.connection import head
from gpucluster.cli.frame.context import CliContext
from gpucluster.errors import JobFailedError, UsageError
from gpucluster.following import jobs
from gpucluster.following.patience import Patience
from gpucluster.head.remote import Remote
from gpucluster.submission import environments
from gpucluster.submission.environments import Environment, Overlay

VERIFY_TIMEOUT_S = 1200
LONGEST_NAME = 60


@click.group()
def command() -> None:
    """List, build and check the Python environments in which jobs run, and the packages that jobs installed.

    You need not build them: the first job that needs an environment waits until the cluster has built it.
    """


@command.command("list", short_help="List environments, and packages that jobs installed.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object to stdout.")
@click.pass_obj
def list_(context: CliContext, as_json: bool) -> int:
    """List all environments, including those not built yet, and the packages that jobs installed."""
    with head(context) as remote:
        found, own = environments.listed(remote), environments.overlays(remote)
    if as_json:
        report = {"environments": [asdict(each) for each in found], "packages": [asdict(each) for each in own]}
        click.echo(json.dumps(report))
        return 0
    rows = [(each.name, _state(each), each.partition, each.folder) for each in found]
    rows += [(f"+ {_named(each)}", _own_state(each), "head", each.folder) for each in own]
    for line in columns([("NAME", "STATE", "BUILT ON", "FOLDER"), *rows]):
        click.echo(line)
    for error in (*environments.unmade(found), *(f"{each.folder}: {each.error}" for each in own if each.error)):
        click.echo(error)
    return 0


def _state(environment: Environment) -> str:
    return f"{environment.state} (job {environment.job})" if environment.job else environment.state


def _named(own: Overlay) -> str:
    """The requested packages, or `setup` if there are only setup lines."""
    text = ", ".join(own.requirements) or "setup"
    return text if len(text) <= LONGEST_NAME else f"{text[:LONGEST_NAME]}…"


def _own_state(own: Overlay) -> str:
    return f"{own.state} (job {', '.join(own.jobs)})" if own.jobs else own.state


@command.command(short_help="Delete jobs' packages that no job uses any more.")
@click.pass_obj
def prune(context: CliContext) -> int:
    """Delete packages that jobs installed and that no pending or running job uses.

    A later job that needs them installs them again, or restores them from software.cache, which keeps them. The
    cluster's environments are kept.
    """
    with head(context) as remote:
        deleted = environments.prune(remote)
    click.echo(json.dumps({"deleted": deleted}))
    return 0


@command.command(short_help="Build environments, and wait until they are ready.")
@click.argument("names", nargs=-1, metavar="[NAME]...")
@click.pass_obj
def build(context: CliContext, names: tuple[str, ...]) -> int:
    """Build the environments NAME, or all missing ones, and wait until they are ready.

    The last line on stdout is JSON.
    """
    with head(context) as remote:
        found = {each.name: each for each in _chosen(remote, names)}
        builds = environments.ensure(remote, list(found))
        for each in builds:
            following.tell(each.description)
        for each in builds:
            _follow(remote, each.job_id, environments.log(found[each.environment]))
        states = {each.name: each.state for each in _chosen(remote, names)}
        failed = list(environments.unmade(_chosen(remote, names)))
    click.echo(json.dumps({"environments": states}))
    if failed:
        raise JobFailedError(failed[0], "`gpucluster env list` lists all environments")
    return 0


def _follow(remote: Remote, job_id: str, log: str) -> None:
    patience = Patience(job_id, following.tell)
    ended = jobs.Watch(remote, job_id, following.tell, patience).ended
    remote.run(["sh", "-c", 'for i in $(seq 600); do [ -e "$1" ] && exit; sleep 1; done', "sh", log], timeout_s=660)
    for line in remote.follow(log, stop=ended, outlast=patience.outlast):
        click.echo(line, err=True)


@command.command(short_help="Check that environments work, on a node.")
@click.argument("names", nargs=-1, metavar="[NAME]...")
@click.pass_obj
def verify(context: CliContext, names: tuple[str, ...]) -> int:
    """Check the environments NAME, or all, on a node: each has its locked versions, and Python imports every package.

    The exit code is 4 if a check failed.
    """
    failed = []
    with head(context) as remote:
        for each in _chosen(remote, names):
            if each.state != "ready":
                click.echo(f"{each.name}: {_state(each)}")
                continue
            done = environments.verify(remote, each, timeout_s=VERIFY_TIMEOUT_S)
            said = (done.stdout if done.exit_code == 0 else done.stderr).strip().splitlines() or ["no output"]
            click.echo(f"{each.name}: {'ok: ' if done.exit_code == 0 else ''}{said[-1]}")
            if done.exit_code:
                failed.append(each.name)
    if failed:
        raise JobFailedError(
            f"the check failed for {', '.join(failed)}",
            "delete the folder of each: the next job that needs it builds it again",
        )
    return 0


def _chosen(remote: Remote, names: tuple[str, ...]) -> list[Environment]:
    """Raises UsageError for an unknown name."""
    found = environments.listed(remote)
    known = {each.name for each in found}
    for name in names:
        if name not in known:
            raise UsageError(f"no environment {name!r} in this cluster", f"there are: {', '.join(sorted(known))}")
    return [each for each in found if not names or each.name in names]
