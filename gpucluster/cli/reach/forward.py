"""`gpucluster forward`: a port of the cluster on this machine, for notebooks, TensorBoard and debuggers."""

from __future__ import annotations

import click

from gpucluster.cli.frame import connection
from gpucluster.cli.frame.connection import head
from gpucluster.cli.frame.context import CliContext
from gpucluster.cli.frame.following import tell
from gpucluster.cli.frame.job_id import job_id as job_number
from gpucluster.following import jobs

EXAMPLES = """\b
Examples:
  gpucluster forward 6006 --job 12             # http://localhost:6006 is TensorBoard on the first node of job 12
  gpucluster forward 8080:8888 --node train-1  # http://localhost:8080 is port 8888 of train-1
"""


@click.command(epilog=EXAMPLES)
@click.argument("ports", metavar="PORT[:REMOTE]")
@click.option("--job", type=job_number, metavar="JOB_ID", help="The port is on the first node of this job.")
@click.option("--node", metavar="NAME", help="The port is on this node, such as train-1.  [default: the head node]")
@click.pass_obj
def command(context: CliContext, ports: str, job: str | None, node: str | None) -> int:
    """Make a port of a node reachable on this machine, until you press Ctrl-C.

    PORT is the port on this machine, REMOTE that on the node. The default of REMOTE is PORT. Only programs on this
    machine can connect. The program on the node may listen on localhost only.
    """
    from gpucluster.head import copying, forwarding

    if job and node:
        raise click.UsageError("--job and --node contradict each other")
    wanted = forwarding.Ports.parse(ports)
    wanted.check()
    copying.require("ssh")
    config = None
    if node and not context.chosen_context():  # the nodes of another cluster may have any names
        layout = context.layout()
        layout.partition_of(node)
        config = layout.config
    if job:
        with head(context) as remote:
            node = jobs.first_node(remote, job)
    where = node or copying.HEAD
    with connection.alias(context, config) as alias:
        try:
            forwarding.forward(
                forwarding.ssh_argv(alias, wanted, node), where, wanted, lambda: _connected(wanted.here), tell
            )
        except KeyboardInterrupt:
            tell(f"\nport {wanted.here} is no longer forwarded")
    return 0


def _connected(port: int) -> None:
    click.echo(f"http://localhost:{port}")
