"""`gpucluster status`: the stack, the head node, each partition's nodes and their problems, the jobs."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import asdict
from typing import Any

import click

from gpucluster.cli.frame.columns import columns
from gpucluster.cli.frame.connection import head
from gpucluster.cli.frame.context import CliContext
from gpucluster.cli.jobs import live
from gpucluster.config import ClusterConfig
from gpucluster.contexts.store import Context
from gpucluster.errors import CloudError
from gpucluster.following import causes, jobs, topology
from gpucluster.head import accounts, clock, job_lustre, mounted, slurm, spending
from gpucluster.head.remote import Remote

Report = dict[str, Any]


@click.command()
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object to stdout.")
@click.option(
    "--topology", "with_topology", is_flag=True, help="Show where in EC2's network the nodes and their jobs are."
)
@click.pass_obj
def command(context: CliContext, as_json: bool, with_topology: bool) -> int:
    """Show the head node, the partitions, why nodes are down, and the jobs and why they are pending.

    The exit code is 3 if the cluster does not exist or its head node cannot be reached.
    """
    chosen = context.chosen_context()
    if chosen:
        report = at(context, chosen, with_topology=with_topology)
    else:
        config = context.load()
        report = gather(context, config, with_topology=with_topology) | {"changing": _changing(context, config)}
    click.echo(json.dumps(report) if as_json else "\n".join(lines(report)))
    if report["problem"]:
        raise CloudError(report["problem"], report["hint"])
    return 0


def _changing(context: CliContext, config: ClusterConfig) -> str:
    """The run of this folder that is changing the cluster; usually empty."""
    from gpucluster.cluster import local_cloud
    from gpucluster.cluster.turn import Turn

    return Turn(local_cloud.state_folder(context.config_path), config.name).holder()


def _nothing(cluster: str) -> Report:
    """The report before anything is known."""
    return {
        "cluster": cluster,
        **dict.fromkeys(("region", "stack", "head", "slurm", "problem", "hint")),
        "storage": [],
        "partitions": [],
        "jobs": [],
        "spending": "",
        "volume": "",
        "accounts": "",
        "clock": "",
        "changing": "",
    }


def at(context: CliContext, chosen: Context, *, with_topology: bool = False) -> Report:
    """As `gather`, of a cluster that we have not built: nothing of it is ours but the jobs."""
    report = _nothing(chosen.name) | {"login": chosen.address}
    try:
        with head(context) as remote:
            report |= on_head(remote)
            if with_topology:
                report["topology"] = topology_report(remote)
    except CloudError as error:
        report |= {"problem": error.message, "hint": error.hint}
    return report


def gather(context: CliContext, config: ClusterConfig, *, with_topology: bool = False) -> Report:
    """Everything that can be found out; `problem` is the error that ended it."""
    from gpucluster.cluster import aws, data_volume, stack
    from gpucluster.head.remote import SshRemote

    cloud = aws.connect(config, context.config_path)
    report = _nothing(config.name) | {"region": config.region, "stack": cloud.stack_status()}
    try:
        found = cloud.head()
        report["head"] = {"instance_id": found.instance_id, "state": found.state, "private_ip": found.private_ip}
        if found.state == "running" and not stack.in_progress(report["stack"]):
            report["volume"] = data_volume.words(cloud, found)  # before anything that needs the volume
        remote = SshRemote(cloud.door())
        try:
            report["clock"] = clock.words(remote)  # first, because it explains why Slurm does not answer
            report |= on_head(remote)
            report["storage"] = storage(config, remote)
            report["spending"] = spending.words(remote, config)
            report["accounts"] = accounts.words(remote, config)
            if with_topology:
                report["topology"] = topology_report(remote)
        finally:
            remote.close()
    except CloudError as error:
        report |= {"problem": error.message, "hint": error.hint}
    return report


def on_head(remote: Remote) -> Report:
    """Raises CloudError."""
    ping = slurm.parse_ping(remote.run(slurm.scontrol_ping_argv()).stdout)
    if not any(ping.values()):
        raise CloudError("slurmctld does not answer on the head node", "`gpucluster ssh -- systemctl status slurmctld`")
    nodes = jobs.nodes(remote)
    names = list(dict.fromkeys(node.partition for node in nodes))
    partitions = [{"name": name, "nodes": [_node(node) for node in nodes if node.partition == name]} for name in names]
    current = jobs.current(remote)
    starting = causes.of_all(remote, [job for job in current if slurm.job_state(job.state).starts])
    rows = [live(job, starting.get(job.job_id, ())) for job in current]
    return {"slurm": "UP", "partitions": partitions, "jobs": rows}


def topology_report(remote: Remote) -> Report:
    """Raises CloudError."""
    return {"nodes": topology.of(remote), "jobs": topology.nodes_of(remote, jobs.current(remote))}


def storage(config: ClusterConfig, remote: Remote) -> list[Report]:
    """The state of the head node's mounts. Raises CloudError."""
    wanted = mounted.expected(config)
    output = remote.run(mounted.argv(list(wanted)), timeout_s=mounted.PATIENCE_S * (len(wanted) + 1)).stdout
    of_jobs = job_lustre.states(remote, config)
    return [
        {**asdict(each), "words": _words(each, of_jobs.get(each.path, ""))} for each in mounted.parse(output, wanted)
    ]


def _words(mount: mounted.Mount, of_jobs: str) -> str:
    """`of_jobs`: the head node's state of a file system with `lifetime: jobs`."""
    return ", ".join(filter(None, (mount.words() if mount.mounted or not of_jobs else "", of_jobs)))


def _node(node: slurm.Node) -> Report:
    return {
        "name": node.name,
        "state": node.state,
        "words": node.words,
        "available": node.available,
        "reason": node.reason,
        "since": node.since,
    }


def lines(report: Report) -> Iterator[str]:
    if login := report.get("login"):
        yield f"context {report['cluster']} at {login}" + (", Slurm is up" if report["slurm"] else "")
    else:
        yield f"cluster {report['cluster']} in {report['region']}: stack {report['stack'] or 'does not exist'}"
    if who := report.get("changing"):
        yield f"{who} is changing it now"
    if found := report["head"]:
        yield f"head {found['instance_id']} {found['state']} at {found['private_ip']}" + (
            ", Slurm is up" if report["slurm"] else ""
        )
    if report["volume"]:
        yield report["volume"]
    if report["storage"]:
        yield "storage on the head: " + ", ".join(f"{each['path']} {each['words']}" for each in report["storage"])
    if report["spending"]:
        yield report["spending"]
    yield from filter(None, (report["accounts"], report["clock"]))
    for partition in report["partitions"]:
        yield from _partition(partition)
    if found := report.get("topology"):
        yield from topology.lines(found["nodes"], found["jobs"])
    active = [job for job in report["jobs"] if slurm.job_state(job["state"]).phase in ("waiting", "running")]
    if active:
        yield "jobs:"
        yield from columns([_job(job) for job in active])
    elif report["slurm"]:
        yield "no jobs running or pending"


def _partition(partition: Report) -> Iterator[str]:
    nodes = partition["nodes"]
    states: dict[str, int] = {}
    for node in nodes:
        states[node["words"]] = states.get(node["words"], 0) + 1
    yield f"partition {partition['name']}: " + ", ".join(f"{count} {words}" for words, count in states.items())
    for node in nodes:
        if not node["available"]:
            yield f"  {node['name']} is {node['words']} since {node['since']}: {node['reason']}"
        elif node["reason"]:  # Slurm keeps the reason when a node is back
            earlier, _ = slurm.next_try(node["reason"])
            yield f"  {node['name']} is back; it was out of service at {node['since']}: {earlier}"


def _job(job: Report) -> list[str]:
    where = job["reason"] or job["node_list"]
    size = f"{job['nodes']} node{'s' * (job['nodes'] != 1)}"
    return [f"  {job['job_id']}", job["name"], job["state"], size, job["elapsed"], where]
