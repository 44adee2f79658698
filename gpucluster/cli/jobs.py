"""`gpucluster jobs`: what runs and waits, and what ran."""

from __future__ import annotations

import json
from typing import Any

import click

from gpucluster.cli.frame.columns import columns
from gpucluster.cli.frame.connection import head
from gpucluster.cli.frame.context import CliContext
from gpucluster.following import jobs
from gpucluster.head import slurm


@click.command()
@click.option("-n", "--count", default=20, show_default=True, help="Show only this many, the newest.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON list to stdout.")
@click.pass_obj
def command(context: CliContext, count: int, as_json: bool) -> int:
    """List pending, running and ended jobs, newest last."""
    with head(context) as remote:
        rows = merged(jobs.current(remote), jobs.past(remote, count))[-count:]
    if as_json:
        click.echo(json.dumps(rows))
    elif rows:
        click.echo("\n".join(columns([HEADER, *map(_row, rows)])))
    else:
        click.echo("no jobs yet", err=True)
    return 0


HEADER = ["job", "name", "state", "nodes", "time", "why"]


def merged(current: list[slurm.Job], past: list[jobs.Past]) -> list[dict[str, Any]]:
    """One entry for each job id, in order. Slurm's word goes before the folder's."""
    ended = {job.job_id: _ended(job) for job in past}
    found = ended | {job.job_id: live(job) for job in current}
    for job_id, entry in found.items():
        if slurm.job_state(entry["state"]).phase == "done" and job_id in ended:
            entry["reason"] = ended[job_id]["reason"]
            # Slurm knows a program's exit code, and not what became of the exports after it.
            if (entry["state"], ended[job_id]["state"]) == ("COMPLETED", "FAILED"):
                entry["state"] = "FAILED"
    folders = {job.job_id: job.folder for job in past}
    return [entry | {"folder": folders.get(entry["job_id"])} for entry in sorted(found.values(), key=_order)]


def live(job: slurm.Job) -> dict[str, Any]:
    waits = slurm.base_state(job.state) == "PENDING"
    return {
        "job_id": job.job_id,
        "name": job.name,
        "state": slurm.base_state(job.state),
        "partition": job.partition,
        "nodes": job.nodes,
        "node_list": job.node_list,
        "elapsed": job.elapsed,
        "reason": slurm.pending_reason(job.reason) if waits else "",
        "slurm_reason": job.reason.strip("()"),
    }


def _ended(job: jobs.Past) -> dict[str, Any]:
    result = job.result or {}
    state = "COMPLETED" if result.get("exit_code") == 0 else "FAILED" if result else "UNKNOWN"
    return {
        "job_id": job.job_id,
        "name": job.folder.rpartition("/")[2].rsplit("-", 3)[0],
        "state": state,
        "nodes": result.get("nodes", 0),
        "node_list": ",".join(result.get("node_list", [])),
        "elapsed": "",
        "reason": jobs.Ending(state, result).reason if state == "FAILED" else "",
    }


def _order(entry: dict[str, Any]) -> tuple[int, str]:
    """By number: arrays (7_2) and heterogeneous jobs (7+1) beside their job."""
    digits = "".join(letter if letter.isdigit() else " " for letter in entry["job_id"]).split()
    return (int(digits[0]) if digits else 0, entry["job_id"])


def _row(entry: dict[str, Any]) -> list[str]:
    return [str(entry[key]) for key in ("job_id", "name", "state", "nodes", "elapsed", "reason")]
