"""What became of every key of the file: no key is lost silently."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping
from typing import Any, NamedTuple

from gpucluster.parallelcluster.keys import SAID, How, row
from gpucluster.parallelcluster.lines import Item
from gpucluster.parallelcluster.reading import Marks, Path, dotted, leaves

HEADER = ""
_ANCHORS = {"HeadNode": "head_node", "Scheduling.SlurmQueues": "partitions", "SharedStorage": "storage"}
"""Their section -> ours, above which its notes stand."""
UNKNOWN = "not known to GpuCluster"
_UNUSED = "nothing here uses it"


class Fate(NamedTuple):
    path: Path
    how: How
    why: str
    """Why a key is not carried over. Empty if a value of cluster.yaml has it, or a line that is a comment."""
    value: Any


def fates(data: Mapping[str, Any], marks: Marks, items: Iterable[Item]) -> list[Fate]:
    out = set(without_force(items))
    return [_fate(path, value, marks, out) for path, value in leaves(data)]


def _fate(path: Path, value: Any, marks: Marks, out: set[Path]) -> Fate:
    key = row(dotted(path))
    carried = key is None or key.how in ("same", "other")
    if carried and any(path[:length] in out for length in range(1, len(path) + 1)):
        return Fate(path, "none", "", value)
    if reason := marks.reason(path):
        return Fate(path, *reason, value)
    if key is None:
        return Fate(path, "none", UNKNOWN, value)
    if key.how in ("unneeded", "none"):
        return Fate(path, key.how, key.words, value)
    return Fate(path, key.how, "", value) if marks.is_used(path) else Fate(path, "none", _UNUSED, value)


def without_force(items: Iterable[Item]) -> list[Path]:
    """Values that became nothing but comments."""
    origins = [origin for item in items for origin in item.origins()]
    in_force = {path for path, active in origins if active}
    return [path for path, active in origins if not active and path not in in_force]


def counted(found: Iterable[Fate]) -> dict[How, int]:
    """Distinct keys by what became of them: a key that only some of its values keep counts for each."""
    kinds = Counter(how for how, _ in {(each.how, dotted(each.path)) for each in found})
    return {how: kinds[how] for how in SAID}


def notes(found: Iterable[Fate], sections: Collection[str]) -> dict[str, list[str]]:
    """Comments on keys without a value of ours, by the one of `sections` of cluster.yaml that they stand above."""
    grouped: dict[tuple[str, How, str], dict[str, list[str]]] = {}
    for each in found:
        if each.why:
            anchor = next((ours for theirs, ours in _ANCHORS.items() if dotted(each.path).startswith(theirs)), HEADER)
            anchor = anchor if anchor in sections else HEADER
            values = grouped.setdefault((anchor, each.how, each.why), {}).setdefault(dotted(each.path), [])
            values.append(_shown(each.value))
    made: dict[str, list[str]] = {}
    for (anchor, how, why), keys in grouped.items():
        named = ", ".join(_named(key, values) for key, values in keys.items())
        made.setdefault(anchor, []).append(f"{SAID[how]}: {named}: {why.replace('`', '')}")
    return made


def _shown(value: Any) -> str:
    text = str(value).lower() if isinstance(value, bool) else "" if value is None else str(value)
    return text if len(text) <= 60 else f"{text[:57]}…"


def _named(key: str, values: list[str]) -> str:
    distinct = list(dict.fromkeys(each for each in values if each))
    return f"{key} ({', '.join(distinct[:3])}{', …' if len(distinct) > 3 else ''})" if distinct else key
