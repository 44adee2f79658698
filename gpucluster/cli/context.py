"""`gpucluster context`: Slurm clusters that GpuCluster did not build."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import asdict
from typing import TYPE_CHECKING

import click

from gpucluster.cli.frame.columns import columns
from gpucluster.errors import UsageError

if TYPE_CHECKING:
    from gpucluster.contexts.store import Context

LOCAL = ("ext2/ext3", "xfs", "btrfs", "zfs", "tmpfs", "overlayfs")
"""Types of file systems on a machine's own disks, as `stat -f -c %T` prints them."""


@click.group()
def command() -> None:
    """Use a Slurm cluster that GpuCluster did not build. You need an account there and ssh, but no root.

    A context is the stored address of such a cluster. The verbs submit, jobs, logs, why, cancel, results, resubmit,
    status, top, ui, tensorboard, ssh, shell, cp, sync, fetch and forward use the first of these that is given:
    --context NAME, the cluster file of -c or GPUCLUSTER_CONFIG, GPUCLUSTER_CONTEXT, `context use`.
    """


EXAMPLES = """\b
Examples:
  gpucluster context add lab ssh://me@login.example.org
  gpucluster submit --context lab --python /home/me/venv -- python train.py
"""


@command.command(epilog=EXAMPLES, short_help="Store the Slurm cluster behind a login node as the context NAME.")
@click.argument("name")
@click.argument("address", metavar="ssh://[USER@]LOGIN[:PORT]")
@click.option(
    "--folder",
    metavar="FOLDER",
    help="Folder for your jobs on that cluster, on storage that its nodes share.  [default: ~/gpucluster]",
)
def add(name: str, address: str, folder: str | None) -> int:
    """Read the partitions of the Slurm cluster behind the login node LOGIN, and store it as the context NAME.

    Your own ssh connects, with your ~/.ssh/config, keys, agent and jump hosts. If the cluster changes, add the context
    again. The last line on stdout is JSON.
    """
    from gpucluster.contexts import add as adding
    from gpucluster.contexts import store

    contexts = store.read()
    found = adding.inspect(store.check_name(name), address, folder)
    contexts.add(found)
    contexts.save()
    for line in described(found):
        click.echo(line, err=True)
    click.echo(json.dumps({"context": name, "address": address, "folder": found.folder}))
    return 0


def described(context: Context) -> Iterator[str]:
    facts = context.facts
    yield f"context {context.name}: Slurm {facts.version} at {context.address}, as {facts.user}"
    rows = [["partition", "nodes", "CPUs", "GiB", "GPUs"]]
    for each in facts.partitions:
        for kind in each.kinds:
            gpus = f"{kind.gpus} {kind.gpu_model}".strip() if kind.gpus else "none"
            rows.append([each.name, f"{kind.nodes}", f"{kind.cpus}", f"{kind.memory_mib / 1024:.0f}", gpus])
    yield from columns(rows)
    yield f"job folders are in {context.folder}; Python {facts.python}"
    if not facts.accounting:
        yield "no accounting: Slurm forgets a job a few minutes after its end; then only its folder has its result"
    if not facts.pyxis:
        yield "no pyxis: jobs need --python, with a venv or conda environment on the cluster"
    if facts.home_type in LOCAL:
        yield f"warning: {facts.home} is on {facts.home_type}: if other nodes do not mount it, give --folder"


@command.command("list")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object to stdout.")
def listed(as_json: bool) -> int:
    """List the contexts. A star marks the one that `context use` chose."""
    from gpucluster.contexts import store

    contexts = store.read()
    if as_json:
        click.echo(json.dumps({"current": contexts.current, "contexts": [asdict(e) for e in contexts.known.values()]}))
        return 0
    if not contexts.known:
        click.echo("no contexts; add one with `gpucluster context add NAME ssh://LOGIN`", err=True)
        return 0
    rows = [["", "name", "address", "Slurm", "partitions"]]
    for each in contexts.known.values():
        names = ", ".join(partition.name for partition in each.facts.partitions)
        rows.append(["*" * (each.name == contexts.current), each.name, each.address, each.facts.version, names])
    for line in columns(rows):
        click.echo(line)
    return 0


@command.command(short_help="Use the context NAME from now on.")
@click.argument("name", required=False)
@click.option("--none", "nothing", is_flag=True, help="Use no context, but the cluster file again.")
def use(name: str | None, nothing: bool) -> int:
    """Use the context NAME from now on, unless --context, -c, GPUCLUSTER_CONFIG or GPUCLUSTER_CONTEXT is given."""
    from gpucluster.contexts import store

    if name and nothing:
        raise UsageError(f"{name} and --none contradict each other", "give only one of them")
    if not name and not nothing:
        raise UsageError("NAME is missing", "`gpucluster context list` lists the contexts, --none chooses none")
    contexts = store.read()
    contexts.current = contexts.get(name).name if name else ""
    contexts.save()
    click.echo(json.dumps({"current": contexts.current}))
    return 0


@command.command()
@click.argument("name")
def remove(name: str) -> int:
    """Remove the context NAME here. Its jobs and their folders stay on the cluster."""
    from contextlib import closing

    from gpucluster.contexts import store

    contexts = store.read()
    found = contexts.remove(name)
    with closing(found.remote()) as remote:
        remote.end()
    contexts.save()
    click.echo(f"removed {name}; its jobs stay in {found.folder} of {found.address}", err=True)
    return 0
