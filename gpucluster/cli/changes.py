"""Lists what `up` will change, refuses changes that would lose data, and drains nodes for those that need it."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from gpucluster import updates
from gpucluster.cli.frame.screen import one_line
from gpucluster.cluster import cdk
from gpucluster.cluster.deployment import Deployment
from gpucluster.config import ClusterConfig
from gpucluster.errors import CloudError, RemoteError, UsageError
from gpucluster.head.remote import SshRemote
from gpucluster.updates import Change, Effect

Tell = Callable[[str], None]
HEAD_TIMEOUT_S = 900.0
POLL_S = 5.0
_HEAD = (Effect.HEAD_RESTARTS, Effect.HEAD_REPLACED)


@dataclass(frozen=True)
class Comparison:
    """The comparison of the deployed cluster with the file."""

    old: ClusterConfig | None
    """None if nothing is deployed."""
    changes: tuple[Change, ...]
    known: bool = True
    """False if the deployed file is unknown; `old` is then the new file."""
    lost_heads: tuple[str, ...] = ()
    """Terminated head nodes, which are not among the changes of the file."""
    since: tuple[str, str] | None = None
    """The deployed cluster's last change, see `Deployment.last_change`."""
    awaited: str = ""
    """The entry of cdk.context.json that counts a pending replacement of the head node; usually empty."""

    @property
    def needs_care(self) -> bool:
        return self.may_stop_the_head or self.any(Effect.DRAIN)

    @property
    def may_stop_the_head(self) -> bool:
        return not self.known or bool(self.awaited) or self.any(*_HEAD)

    @property
    def launches_again(self) -> bool:
        return any(change.outcome.launches_again for change in self.changes)

    def any(self, *effects: Effect) -> bool:
        return any(change.effect in effects for change in self.changes)

    def as_json(self) -> dict[str, Any]:
        return {"changes": [change.as_json() for change in self.changes], "lost_heads": self.lost_heads}

    def lines(self) -> Iterator[str]:
        """A summary line, then a line for each change, harmless changes first."""
        if self.old is None or not self.known:
            return
        yield f"changes: {updates.summary(self.changes)}"
        for head in self.lost_heads:
            text = f"{head} was terminated: `up` creates another one with the same volume"
            yield f"  {Effect.HEAD_REPLACED.value:<13}  {text}"
        if self.awaited:
            text = f"{self.awaited} in cdk.context.json counts a replacement that is not deployed"
            kept = "delete the entry to keep the head node"
            yield f"  {Effect.HEAD_REPLACED.value:<13}  {text}: `up` creates another one with the same volume; {kept}"
        for effect in Effect:
            for change in updates.of_effect(self.changes, effect):
                yield f"  {effect.value:<13}  {change.line()}"


def compare(deployment: Deployment, config: ClusterConfig, tell: Tell) -> Comparison:
    since = deployment.last_change()  # before anything is read, so that a later change is noticed
    try:
        deployed = deployment.deployed()
    except updates.UnknownRecord as unknown:
        tell(f"another version of GpuCluster deployed {config.name} ({unknown}): the changes cannot be listed")
        return Comparison(config, (), known=False, since=since)
    if deployed is None:
        return Comparison(None, (), since=since)
    old, new = deployed.compared_with(config, cdk.pinned(cdk.context_file(deployment.config_file)))
    found = updates.compare(old, new, node_lines=deployed.node_lines)
    there = deployment.file_systems() if updates.asks_for(found) else ()
    settled = updates.settle(found, deployment.live_nodes(), there)
    lost = tuple(deployment.lost_heads())
    awaited = "" if lost else deployment.replacements().awaited()
    return Comparison(old, settled, lost_heads=lost, since=since, awaited=awaited)


def refuse_loss(comparison: Comparison) -> None:
    """Raises UsageError."""
    refused = updates.of_effect(comparison.changes, Effect.REFUSED)
    if refused:
        keys = ", ".join(change.difference.path for change in refused)
        raise UsageError(
            f"{keys}: cannot be changed: {refused[0].outcome.happens}; nothing was changed",
            refused[0].outcome.instead,
        )


@contextmanager
def nodes_out_of_service(
    comparison: Comparison, config_file: Path, deployment: Deployment, tell: Tell, *, drain: bool
) -> Iterator[None]:
    """Drains the nodes that the changes in the body need drained. Raises UsageError without --drain."""
    old = comparison.old
    if old is None or not comparison.needs_care:
        yield
        return
    if comparison.lost_heads and comparison.any(Effect.DRAIN):
        raise UsageError(
            "the head node was terminated, and without it no node can be drained; nothing was changed",
            "undo the changes that need nodes drained, run `gpucluster up`, then make them again",
        )
    connection = _Connection(old, config_file)
    try:
        if drain and not comparison.lost_heads:
            with _drained(comparison, old, connection, deployment, tell):
                yield
        else:
            _refuse_undrained(comparison, connection, deployment)
            yield
            if comparison.may_stop_the_head:
                _wait_for_head(connection, tell)
    finally:
        connection.renew()


@contextmanager
def _drained(
    comparison: Comparison, old: ClusterConfig, connection: _Connection, deployment: Deployment, tell: Tell
) -> Iterator[None]:
    from gpucluster.cluster.draining import Drained, kept_out_of_service, nodes_above
    from gpucluster.layout import expand

    powered_down, sizes = updates.drains(comparison.changes, old), expand(old).sizes
    idle = dict.fromkeys(sizes, 0) if comparison.may_stop_the_head else {}

    def instances() -> set[str]:
        nodes = [node for node in deployment.live_nodes() if node[0] in powered_down]
        return {f"{name}-{number or '?'}" for name, number in nodes if (number or 0) > powered_down[name] or not number}

    drained = Drained(connection, nodes_above({**idle, **powered_down}, sizes), tell)
    with kept_out_of_service(drained, instances if powered_down else None):
        try:
            yield
            if comparison.may_stop_the_head:
                _wait_for_head(connection, tell)
        finally:
            connection.renew()


def _wait_for_head(connection: _Connection, tell: Tell) -> None:
    """Waits until slurmctld answers on the head node. Raises RemoteError."""
    from gpucluster.head import slurm

    tell("waiting for Slurm on the head node")
    connection.renew()  # the head node may be a new one now
    deadline = time.monotonic() + HEAD_TIMEOUT_S
    while True:
        with contextlib.suppress(CloudError):  # it is stopped, booting or not reachable yet
            if any(slurm.parse_ping(connection().run(slurm.scontrol_ping_argv()).stdout).values()):
                return
            connection.renew()
        if time.monotonic() > deadline:
            minutes = HEAD_TIMEOUT_S / 60
            raise RemoteError(f"Slurm did not answer within {minutes:.0f} minutes", "see `gpucluster status`")
        time.sleep(POLL_S)


def _refuse_undrained(comparison: Comparison, connection: _Connection, deployment: Deployment) -> None:
    hint = "`gpucluster up --drain` waits for their jobs to finish, then makes the change"
    needs = updates.of_effect(comparison.changes, Effect.DRAIN)
    if needs:
        names = dict.fromkeys(each.partition for change in needs for each in change.outcome.drains)
        message = f"running nodes of {' and '.join(names)} must be terminated first; nothing was changed"
        raise UsageError(message, hint)
    if comparison.may_stop_the_head and deployment.live_nodes() and _runs(deployment):
        _refuse_while_jobs_run(connection, hint)


def _runs(deployment: Deployment) -> bool:
    """Whether the head node runs. A stopped or terminated one does not delay changes."""
    return any(head["State"]["Name"] == "running" for head in deployment.instances("head"))


def _refuse_while_jobs_run(connection: _Connection, hint: str) -> None:
    jobs = _running_jobs(connection)
    if jobs:
        running = ", ".join(jobs)
        raise UsageError(f"the head node cannot be changed while jobs run: {running}; nothing was changed", hint)


def _running_jobs(connection: _Connection) -> Sequence[str]:
    from gpucluster.cluster.draining import running

    return [f"{job.job_id} ({one_line(job.name)})" for job in running(connection())]


class _Connection:
    """A connection to the head node, reused until it is renewed."""

    def __init__(self, config: ClusterConfig, config_file: Path) -> None:
        self._config, self._config_file = config, config_file
        self._remote: SshRemote | None = None

    def __call__(self) -> SshRemote:
        from gpucluster.cluster import aws

        if self._remote is None:
            self._remote = SshRemote(aws.connect(self._config, self._config_file).door())
        return self._remote

    def renew(self) -> None:
        if self._remote:
            self._remote.close()
        self._remote = None
