"""The effects that a change of the cluster file can have on a running cluster."""

from collections.abc import Callable
from enum import Enum
from typing import Any, NamedTuple, TypeVar

S = TypeVar("S")
"""The part of an update from one cluster to the next that a rule needs."""


class Difference(NamedTuple):
    """`old` or `new` is None if the key was added or removed."""

    key: str
    """The key in the table of policies: `partitions[].max_nodes`."""
    path: str
    """The key for messages: `partitions[train].max_nodes`."""
    entries: tuple[str, ...]
    """The names of the list entries in the path: `("train",)`."""
    old: Any
    new: Any


class Effect(Enum):
    """Ordered from unnoticed changes to refused ones."""

    NOTHING = "nothing"
    IN_PLACE = "in place"
    NEW_NODES = "new nodes"
    DRAIN = "drain"
    HEAD_RESTARTS = "head restarts"
    HEAD_REPLACED = "head replaced"
    REFUSED = "refused"


class Drain(NamedTuple):
    """Nodes that must be removed before the change: those of a partition whose number is above `above`."""

    partition: str
    above: int = 0


class Outcome(NamedTuple):
    effect: Effect
    happens: str
    """The consequence; for a refusal, the reason."""
    instead: str = ""
    """For a refusal: what to do."""
    drains: tuple[Drain, ...] = ()
    while_there: str = ""
    """For a refusal that holds only while the file system of this name exists."""
    launches_again: bool = False
    """For a change of the budget: if AWS Budgets has stopped launches, `up` lifts the stop."""


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


Rule = Callable[[Difference, S], Outcome]


def by_rule(difference: Difference, step: S, policy: Outcome | Rule[S]) -> Outcome:
    return policy if isinstance(policy, Outcome) else policy(difference, step)


def growth(grows: Outcome, shrinks: Outcome) -> Rule[Any]:
    """For keys that hold a number."""
    return lambda difference, step: grows if difference.new > difference.old else shrinks


def added_or_removed(added: Outcome | Rule[S], removed: Outcome | Rule[S]) -> Rule[S]:
    """For entries of lists and whole sections."""
    return lambda difference, step: by_rule(difference, step, added if difference.old is None else removed)
