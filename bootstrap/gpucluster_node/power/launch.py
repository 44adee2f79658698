"""Launches instances for nodes: RunInstances, one type of the partition after another."""

from __future__ import annotations

import itertools
import logging
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from gpucluster_node import ec2, fleet, rates
from gpucluster_node.aws import AWS_ERRORS, brief, error_code, has_expired, http_status, is_throttled
from gpucluster_node.power.journal import Call

log = logging.getLogger("launch")
CALLS = rates.TokenBucket(5, 2)
"""Rate of RunInstances: 5 calls at once, 2 more a second for an account in a region (EC2's guide, ec2-api-throttling).
"""
MOST_AT_ONCE = 500
PATIENCE_S = 600.0
"""How long a call is repeated that EC2 throttles or does not serve. This may be long: after 1,000 instances at once EC2
launches two a second (the same guide). Slurm gives up on a node after ResumeTimeout, 1,800 s and more."""
FAULTS = 5
"""How many times a call is made if EC2 has an internal error, which may be one of this instance type only."""
ROOM_S = 900.0
"""How long a launch waits for capacity that the cluster's own terminating instances still use. From shutting-down to
terminated a g4dn takes five minutes and more (aws/karpenter-provider-aws#7019), bare metal over nineteen
(hashicorp/packer-plugin-amazon#682)."""
LOOK_FOR_ROOM_S = 15.0
FULL = frozenset(
    {
        "InsufficientFreeAddressesInSubnet",
        "InstanceLimitExceeded",
        "MaxSpotInstanceCountExceeded",
        "ReservationCapacityExceeded",
        "VcpuLimitExceeded",
    }
)
"""A limit of the customer is reached: fewer instances may fit, and all of them once others have terminated."""
RESERVED = frozenset({"reservation", "capacity-block"})
"""For a Capacity Block, InsufficientInstanceCapacity means the same: "Insufficient Capacity Exception" is the answer if
a launch exceeds the block (EC2's guide, ec2-fleet-launch-instances-capacity-blocks-walkthrough), and a terminated
instance's place is free again minutes later (the same guide, capacity-blocks-launch)."""
LACKING = frozenset(
    {
        "InsufficientCapacity",
        "InsufficientHostCapacity",
        "InsufficientInstanceCapacity",
        "InsufficientReservedInstanceCapacity",
        "UnfulfillableCapacity",
    }
)
"""EC2 has no capacity now, and may have some in a minute."""
_FINAL = ("Insufficient", "Max", "Reservation", "Spot", "Unfulfillable", "Unsupported")
"""Prefixes of codes for missing capacity. EC2 returns some as server errors, HTTP 500, which SDKs repeat."""
REFUSED = "UnauthorizedOperation"
BUDGET_STOP = "AWS Budgets may have stopped launches (to allow them, raise budget.monthly_usd and run `gpucluster up`)"
"""AWS Budgets forbids the head node's role to launch (stacks/budget.py). It counts the head node, disks and taxes too,
so it may do that before the head node's own count reaches the limit (`limits`)."""

HandOver = Callable[[Mapping[str, ec2.Instance]], None]
"""Called with node -> instance."""
StillWanted = Callable[[Sequence[str]], Sequence[str]]
"""Asks Slurm and changes nothing. Called with nodes; returns those that are still wanted."""


class NotWantedError(Exception):
    """The call was not served before its nodes, or some of them, were no longer wanted."""


@dataclass
class Patience:
    """Limits the time in which EC2 does not serve a call, and the pauses. If the call is abandoned, the call that is
    made in its place has the same."""

    since: float
    failures: int = 0


@dataclass
class Launched:
    """left: nodes for which no type had capacity. why: EC2's messages, by type. may_be_stopped: whether AWS Budgets
    stops the cluster's launches at its limit. patience: of an abandoned call. some: whether other nodes have got an
    instance."""

    left: list[str] = field(default_factory=list)
    errors: list[tuple[fleet.LaunchTemplate, Exception]] = field(default_factory=list)
    may_be_stopped: bool = False
    patience: Patience | None = None
    some: bool = False

    @property
    def is_abandoned(self) -> bool:
        return any(isinstance(error, NotWantedError) for _, error in self.errors)

    @property
    def lacks_capacity(self) -> bool:
        return any(error_code(error) in LACKING for _, error in self.errors)

    @property
    def why(self) -> str:
        said = "; ".join(f"{brief(error)} ({template.instance_type})" for template, error in self.errors)
        refused = any(error_code(error) == REFUSED for _, error in self.errors)
        return f"{BUDGET_STOP}: {said}" if refused and self.may_be_stopped else said


class Launcher:
    """The launches of one request. Any thread may call."""

    def __init__(
        self,
        cluster: fleet.Fleet,
        attempt: str,
        client: Callable[[], Any],
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], None] = time.sleep,
        waits: Callable[[Sequence[str], str], None] = lambda nodes, why: None,
        asked: Callable[[Call], None] = lambda call: None,
    ) -> None:
        """attempt: differs between requests. client: returns an EC2 client that repeats nothing. waits: called with
        nodes that wait, and the reason. asked: called before EC2 is, and afterwards with the nodes that have got an
        instance."""
        self._cluster, self._attempt, self._client = cluster, attempt, client
        self.clock, self.sleep, self.waits, self._asked = clock, sleep, waits, asked
        self._calls = itertools.count()
        self.unsure: set[str] = set()
        """Nodes for which EC2 may have launched an instance although it has not said so."""

    def launch(
        self,
        nodes: Sequence[str],
        templates: Sequence[fleet.LaunchTemplate],
        hand_over: HandOver,
        *,
        together: bool,
        wanted: StillWanted = lambda nodes: nodes,
        patience: Patience | None = None,
    ) -> Launched:
        """Uses the first type with capacity. together: all nodes on one type, or none. hand_over: takes the instances
        of a call before the next call, which may be throttled for longer than a boot waits for its name. wanted: asked
        before a call is repeated. patience: of the abandoned call that this launch is made in place of."""
        found = Launched(list(nodes), may_be_stopped=self._cluster.monthly_usd is not None, patience=patience)
        for template in templates:
            error = self._on(template, found, hand_over, together, wanted)
            if error:
                log.warning("%s: %s (%s)", ",".join(found.left), error, template.instance_type)
                found.errors.append((template, error))
            if not found.left or (error and _is_unserved(error)):
                break
        return found

    def _on(
        self,
        template: fleet.LaunchTemplate,
        found: Launched,
        hand_over: HandOver,
        together: bool,
        wanted: StillWanted,
    ) -> Exception | None:
        """Launches as many of the remaining nodes as one type has capacity for; returns EC2's error for the others."""
        size = len(found.left) if together else min(len(found.left), MOST_AT_ONCE)
        while found.left:
            nodes = found.left[:size]
            patience, found.patience = found.patience or Patience(self.clock()), None
            try:
                instances = self._run(template, nodes, len(nodes) if together else 1, wanted, patience)
            except NotWantedError as abandoned:
                found.patience = patience
                return abandoned
            except AWS_ERRORS as caught:
                error: Exception = caught
                if together or size == 1 or not self._is_full(error, nodes[0]):
                    return error
                size //= 2
                continue
            del found.left[: len(instances)]
            found.some = True
            hand_over(dict(zip(nodes, instances, strict=False)))
        return None

    def _run(
        self,
        template: fleet.LaunchTemplate,
        nodes: Sequence[str],
        least: int,
        wanted: StillWanted,
        patience: Patience,
    ) -> list[ec2.Instance]:
        token = ec2.client_token(f"{self._attempt}-{next(self._calls)}", nodes, template)
        return self.call(Call(token, template, least, len(nodes), tuple(nodes)), wanted, patience)

    def call(self, call: Call, wanted: StillWanted, patience: Patience, *, is_new: bool = True) -> list[ec2.Instance]:
        """is_new: whether EC2 has certainly not got it yet. Raises AWS_ERRORS, NotWantedError."""
        instances: list[ec2.Instance] = []
        self._asked(call)
        try:
            instances = self._call(call, wanted, patience, is_new)
        finally:
            self._asked(replace(call, nodes=call.nodes[: len(instances)]))
        return instances

    def _call(self, call: Call, wanted: StillWanted, patience: Patience, is_new: bool) -> list[ec2.Instance]:
        """A repeated call has the same token: EC2 launches once, even if its answer was lost. Slurm is asked right
        before the call, so that no instance is launched for a job that was cancelled during the pause."""
        is_rejected, nodes = is_new, call.nodes
        for calls in itertools.count(1):
            CALLS.take()
            if calls > 1:
                _check_wanted(len(wanted(nodes)), len(nodes), is_rejected)
            try:
                return ec2.launch(self._client(), call.template, call.least, call.most, call.token)
            except AWS_ERRORS as error:
                if not _is_certain(error):
                    self.unsure.update(nodes)
                patience.failures += 1
                if not self._may_repeat(error, patience):
                    raise
                log.info("%s: will retry: %s", ",".join(nodes), brief(error))
                self.waits(nodes, f"{brief(error)}; the head node retries within {rates.LONGEST_PAUSE_S:.0f} s")
                is_rejected = is_rejected and _is_rejected(error)
            self.sleep(rates.pause_s(patience.failures))
        raise AssertionError("endless")

    def _may_repeat(self, error: Exception, patience: Patience) -> bool:
        if _is_unserved(error):
            return self.clock() - patience.since < PATIENCE_S
        return _is_fault(error) and patience.failures < FAULTS

    def _is_full(self, error: Exception, node: str) -> bool:
        partition, code = self._cluster.partition_of(node), error_code(error)
        reserved = partition is not None and partition.purchase in RESERVED
        return code in FULL or (reserved and code == "InsufficientInstanceCapacity")

    def wait_for_room(self, client: Any, found: Launched, since: float) -> bool:
        """Waits a moment if terminating instances of this cluster still use the limit; they count until they are
        terminated. False if there are none, or if it has taken too long `since`. client: returns an EC2 client that
        repeats failed calls."""
        if not found.left or self.clock() - since >= ROOM_S:
            return False
        if not any(self._is_full(error, found.left[0]) for _, error in found.errors):
            return False
        if not ec2.describe(client, self._cluster, states=ec2.ENDING_STATES):
            return False
        log.info("%s: waiting for terminating instances: %s", ",".join(found.left), found.why)
        self.waits(found.left, f"{found.why}; waits until this cluster's terminating instances are gone")
        self.sleep(LOOK_FOR_ROOM_S)
        return True


def _check_wanted(left: int, nodes: int, is_rejected: bool) -> None:
    """left: how many of the call's nodes are still wanted. is_rejected: EC2 has certainly not launched yet. Then a new
    call may be for fewer nodes. Otherwise the call stays the same: a new one could launch a second time, and the same
    token with another number is an error (IdempotentParameterMismatch in EC2's guide, ec2-api-idempotency). If no node
    is wanted, the call is abandoned in any case: reconcile terminates what it may have launched."""
    if left == 0 or (is_rejected and left < nodes):
        raise NotWantedError(f"{nodes - left} of {nodes} nodes are no longer wanted")


def _is_unserved(error: Exception) -> bool:
    """EC2 throttles the call, is unavailable or does not answer, or the credentials have expired. That says nothing
    about the request."""
    return _is_rejected(error) or http_status(error) in (None, 503)


def _is_rejected(error: Exception) -> bool:
    """EC2 throttles the call, or the credentials have expired: EC2 has certainly not launched. After other errors it
    may have."""
    return is_throttled(error) or has_expired(error)


def _is_certain(error: Exception) -> bool:
    """EC2 has launched nothing. It returns some shortages as server errors."""
    return _is_rejected(error) or error_code(error) in FULL | LACKING or 400 <= (http_status(error) or 0) < 500


def _is_fault(error: Exception) -> bool:
    return (http_status(error) or 0) >= 500 and not error_code(error).startswith(_FINAL)
