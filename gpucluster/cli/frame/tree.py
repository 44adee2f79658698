"""Jobs as a tree: each below the job that it waits for. A job that waits for several is below the last of them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence


def lines(root: str, labels: Mapping[str, str], before: Mapping[str, Sequence[str]]) -> Iterator[str]:
    """labels: the text of each job; a job comes after those that it waits for. before: the jobs that each waits for."""
    order = list(labels)
    parents = {name: [each for each in before.get(name, ()) if each in order[: order.index(name)]] for name in labels}
    below: dict[str, list[str]] = {}
    for name in labels:
        last = max(parents[name], key=order.index, default="")
        below.setdefault(last, []).append(name)

    def show(name: str, indent: str) -> Iterator[str]:
        children = below.get(name, [])
        for child in children:
            final = child == children[-1]
            others = [each for each in parents[child] if each != name]
            also = f" (also after {', '.join(others)})" if others else ""
            yield f"{indent}{'└── ' if final else '├── '}{child}: {labels[child]}{also}"
            yield from show(child, indent + ("    " if final else "│   "))

    yield root
    yield from show("", "")
