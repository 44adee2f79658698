"""What a change of the cluster file can do to a cluster that runs."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from gpucluster.updates.difference import Difference
    from gpucluster.updates.rules import Step


class Effect(Enum):
    """From what nobody notices to what is not done at all."""

    NOTHING = "nothing"
    IN_PLACE = "in place"
    NEW_NODES = "new nodes"
    DRAIN = "drain"
    HEAD_RESTARTS = "head restarts"
    HEAD_REPLACED = "head replaced"
    REFUSED = "refused"


@dataclass(frozen=True)
class Drain:
    """Nodes that must be gone before the change: those of a partition whose number is above `above`."""

    partition: str
    above: int = 0


@dataclass(frozen=True)
class Outcome:
    effect: Effect
    happens: str
    """What comes of it; of a refusal, the reason."""
    instead: str = ""
    """Of a refusal: what to do."""
    drains: tuple[Drain, ...] = ()
    while_there: str = ""
    """Of a refusal that holds only while the file system of this name is there."""
    launches_again: bool = False
    """Of a change of the budget: where AWS Budgets has stopped launches, `up` takes that back."""


def nothing(happens: str) -> Outcome:
    return Outcome(Effect.NOTHING, happens)


def in_place(happens: str, *, launches_again: bool = False) -> Outcome:
    return Outcome(Effect.IN_PLACE, happens, launches_again=launches_again)


def new_nodes(happens: str) -> Outcome:
    return Outcome(Effect.NEW_NODES, happens)


def drain(happens: str, *drains: Drain) -> Outcome:
    return Outcome(Effect.DRAIN, happens, drains=drains)


def head_restarts(happens: str) -> Outcome:
    return Outcome(Effect.HEAD_RESTARTS, happens)


def head_replaced(happens: str) -> Outcome:
    return Outcome(Effect.HEAD_REPLACED, happens)


def refused(reason: str, instead: str, *, while_there: str = "") -> Outcome:
    return Outcome(Effect.REFUSED, reason, instead, while_there=while_there)


Rule = Callable[["Difference", "Step"], Outcome]


def by_rule(difference: Difference, step: Step, policy: Outcome | Rule) -> Outcome:
    return policy if isinstance(policy, Outcome) else policy(difference, step)


def growth(grows: Outcome, shrinks: Outcome) -> Rule:
    """For keys that hold a number."""
    return lambda difference, step: grows if difference.new > difference.old else shrinks


def added_or_removed(added: Outcome | Rule, removed: Outcome | Rule) -> Rule:
    """For entries of lists and whole sections."""
    return lambda difference, step: by_rule(difference, step, added if difference.old is None else removed)
