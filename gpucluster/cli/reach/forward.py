"""`gpucluster forward`: a port of the cluster on this machine, for notebooks, TensorBoard and debuggers."""

from __future__ import annotations

import contextlib
from functools import partial

import click

from gpucluster.cli.frame import connection
from gpucluster.cli.frame.connection import head
from gpucluster.cli.frame.context import CliContext
from gpucluster.cli.frame.following import tell
from gpucluster.cli.frame.job_id import job_id as job_number
from gpucluster.errors import CloudError
from gpucluster.following import jobs
from gpucluster.head.remote import Remote

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
    """Make a port of a node reachable on this machine, until you press Ctrl-C, or until the job of --job ends.

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
    with contextlib.ExitStack() as opened:
        is_over: forwarding.Over = str
        if job:
            remote = opened.enter_context(head(context))
            node, is_over = jobs.first_node(remote, job), partial(over, remote, job)
        where = node or copying.HEAD
        alias = opened.enter_context(connection.alias(context, config))
        argv = forwarding.ssh_argv(alias, wanted, node)
        try:
            forwarding.forward(argv, where, wanted, lambda: _connected(wanted.here), tell, is_over)
        except KeyboardInterrupt:
            tell(f"\nport {wanted.here} is no longer forwarded")
    return 0


def over(remote: Remote, job_id: str) -> str:
    """Why its node is no longer the job's: another job's program may answer there. Empty if it is, or if the head node
    does not answer."""
    try:
        job = jobs.find(remote, job_id)
    except CloudError:
        return ""
    if job is None:
        return f"job {job_id} has ended"
    return "" if job.phase in ("running", "unknown") else jobs.describe(job)


def _connected(port: int) -> None:
    click.echo(f"http://localhost:{port}")
