"""`gpucluster shell`: opens a terminal on a compute node, as a separate job."""

from __future__ import annotations

import click

from gpucluster.cli.frame.connection import head
from gpucluster.cli.frame.context import CliContext
from gpucluster.cli.frame.following import tell
from gpucluster.errors import UsageError
from gpucluster.head.login import LoginRemote
from gpucluster.layout import Layout, Partition

EXAMPLES = """\b
Examples:
  gpucluster shell --gpus 1 --time 30:00
  gpucluster shell --node train-1
"""


@click.command(epilog=EXAMPLES)
@click.option("--node", metavar="NAME", help="Open it on this node, such as train-1.  [default: any]")
@click.option("-p", "--partition", metavar="NAME", help="Open it on any node of this partition.  [default: the first]")
@click.option("--gpus", type=click.IntRange(min=0), default=0, metavar="N", help="GPUs for the shell.  [default: 0]")
@click.option("--time", metavar="TIME", help="Time limit, such as 30:00 (minutes:seconds).  [default: none]")
@click.pass_obj
def command(context: CliContext, node: str | None, partition: str | None, gpus: int, time: str | None) -> int:
    """Open a shell on a compute node, as a job of its own, which ends when you leave the shell.

    It has no GPU unless you give --gpus. If the node is powered off, Slurm starts it first, which takes minutes. If a
    job reserves the node, which is `submit`'s default, the shell waits until that job ends. Other jobs that do not
    reserve the node may use the rest of it.
    AWS ends a connection after one hour, and the shell and its job end with it.
    """
    from gpucluster.head import commands, slurm, terminal

    if node and partition:
        raise click.UsageError("--node and --partition contradict each other")
    layout = context.layout()
    where = _partition(layout, node, partition)
    if gpus > where.gpus_per_node:
        has = f"a node of {where.name} ({where.types[0].name}) has {where.gpus_per_node} GPUs"
        raise UsageError(f"--gpus {gpus}: {has}", f"give at most --gpus {where.gpus_per_node}")
    kind = where.types[0]
    cpus = kind.vcpus * gpus // kind.gpus if gpus else 1
    with head(context, layout.config) as remote:
        tell(f"waiting until Slurm gives the shell {node or f'a node of {where.name}'}; Ctrl-C cancels")
        words = slurm.shell_argv(where.name, node, gpus=gpus, cpus=cpus, time=time, pty=terminal.is_interactive())
        argv = commands.without_settings(words)
        if isinstance(remote, LoginRemote):
            return remote.attach(argv)
        return terminal.shell(remote.session(), argv)


def _partition(layout: Layout, node: str | None, partition: str | None) -> Partition:
    """Raises UsageError."""
    if node:
        return layout.partition_of(node)
    return layout.partition(partition) if partition else layout.partitions[0]
