"""The changes from the deployed cluster to the file, and their lines in `up` and `plan`."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Any

from gpucluster.config import ClusterConfig
from gpucluster.config.outcome import Difference, Drain, Effect, Outcome, Rule, by_rule, in_place
from gpucluster.layout import expand
from gpucluster.updates.difference import differences, plain
from gpucluster.updates.node_lines import NodeLines, rewritten
from gpucluster.updates.policies import POLICIES
from gpucluster.updates.rules import Step, every_partition, moved_servers

LiveNode = tuple[str, int | None]
"""Partition and number of a node; None for an instance that has no node name yet."""


@dataclass(frozen=True)
class Change:
    difference: Difference
    outcome: Outcome

    @property
    def effect(self) -> Effect:
        return self.outcome.effect

    def line(self) -> str:
        """`partitions[train].max_nodes: 4 -> 6: train-5 to train-6 can be used when `up` returns`."""
        effect = f"{self.difference.path}: {_from_to(self.difference)}: {self.outcome.happens}"
        return f"{effect}; {self.outcome.instead}" if self.outcome.instead else effect

    def as_json(self) -> dict[str, Any]:
        difference, outcome = self.difference, self.outcome
        return {
            "key": difference.path,
            "old": difference.old,
            "new": difference.new,
            "effect": outcome.effect.value,
            "happens": outcome.happens,
            **({"instead": outcome.instead} if outcome.instead else {}),
            **({"drains": sorted({each.partition for each in outcome.drains})} if outcome.drains else {}),
        }


def compare(
    old: ClusterConfig,
    new: ClusterConfig,
    policies: Mapping[str, Outcome | Rule[Step]] = POLICIES,
    *,
    node_lines: NodeLines = MappingProxyType({}),
) -> tuple[Change, ...]:
    """In the order of the file, followed by indirect changes. `old` is the deployed cluster, `node_lines` those of its
    slurm.conf."""
    step = Step(expand(old), expand(new))
    found = [*differences(plain(old), plain(new)), *moved_servers(step)]
    of_file = (Change(each, by_rule(each, step, policies[each.key])) for each in found)
    return (*of_file, *(Change(*each) for each in rewritten(node_lines, step.old, step.new)))


def settle(
    changes: Sequence[Change], nodes: Collection[LiveNode], file_systems: Collection[str] = ()
) -> tuple[Change, ...]:
    """Takes into account which nodes run: idle partitions need no draining. `file_systems`: those of `asks_for` that
    exist; a missing one cannot be orphaned."""
    return tuple(_settled(_left_behind(change, file_systems), nodes) for change in changes)


def asks_for(changes: Sequence[Change]) -> set[str]:
    """Names of the file systems that a change would orphan."""
    return {change.outcome.while_there for change in changes} - {""}


def _left_behind(change: Change, file_systems: Collection[str]) -> Change:
    name = change.outcome.while_there
    if not name or name in file_systems:
        return change
    return replace(change, outcome=in_place("no job uses it, so its file system does not exist now"))


def _settled(change: Change, nodes: Collection[LiveNode]) -> Change:
    if change.effect is not Effect.DRAIN:
        return change
    needed = tuple(each for each in change.outcome.drains if any(_is_in(node, each) for node in nodes))
    if needed:
        return replace(change, outcome=change.outcome._replace(drains=needed))
    return replace(change, outcome=in_place(f"{change.outcome.happens}; none of these nodes is running"))


def _is_in(node: LiveNode, wanted: Drain) -> bool:
    partition, number = node
    return partition == wanted.partition and (number is None or number > wanted.above)


def of_effect(changes: Sequence[Change], effect: Effect) -> list[Change]:
    return [change for change in changes if change.effect is effect]


def drains(changes: Sequence[Change], old: ClusterConfig) -> dict[str, int]:
    """Partition -> the number above which its nodes must be removed. Replacing the head node removes every node."""
    wanted = [each for change in changes for each in change.outcome.drains]
    if of_effect(changes, Effect.HEAD_REPLACED):
        wanted += every_partition(expand(old))
    found: dict[str, int] = {}
    for each in wanted:
        found[each.partition] = min(each.above, found.get(each.partition, each.above))
    return found


def summary(changes: Sequence[Change]) -> str:
    """`2 in place, 1 needs partition train drained, head node untouched`."""
    return ", ".join(_summed_up(changes)) or "no changes"


def _summed_up(changes: Sequence[Change]) -> Iterator[str]:
    count = {effect: len(of_effect(changes, effect)) for effect in Effect}
    if count[Effect.IN_PLACE]:
        yield f"{count[Effect.IN_PLACE]} in place"
    if count[Effect.NEW_NODES]:
        yield f"{count[Effect.NEW_NODES]} for new nodes only"
    if count[Effect.DRAIN]:
        yield _drained(of_effect(changes, Effect.DRAIN))
    if count[Effect.REFUSED]:
        yield f"{count[Effect.REFUSED]} refused"
    if len(changes) > count[Effect.NOTHING]:
        yield f"head node {_head(count)}"


def _drained(changes: Sequence[Change]) -> str:
    names = dict.fromkeys(each.partition for change in changes for each in change.outcome.drains)
    needs = "needs" if len(changes) == 1 else "need"
    return f"{len(changes)} {needs} partition{'s' if len(names) > 1 else ''} {' and '.join(names)} drained"


def _head(count: Mapping[Effect, int]) -> str:
    if count[Effect.HEAD_REPLACED]:
        return "replaced"
    return "restarted" if count[Effect.HEAD_RESTARTS] else "untouched"


def _from_to(difference: Difference) -> str:
    if difference.old is None and isinstance(difference.new, dict):
        return "added"
    if difference.new is None and isinstance(difference.old, dict):
        return "removed"
    return f"{_shown(difference.old)} -> {_shown(difference.new)}"


def _shown(value: Any) -> str:
    if isinstance(value, list):
        return f"[{', '.join(map(_shown, value))}]"
    if isinstance(value, dict):
        return f"{{{', '.join(f'{key}: {_shown(each)}' for key, each in value.items())}}}"
    return value if isinstance(value, str) else json.dumps(value)
