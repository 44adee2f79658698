"""The dependency order, and execution in that order."""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable, Iterable, Mapping

from localcloud.cloudformation.errors import ValidationError
from localcloud.cloudformation.template import Template, references

Dependencies = Mapping[str, set[str]]


def dependencies(template: Template, present: Iterable[str]) -> dict[str, set[str]]:
    """The dependencies of each resource whose condition holds. Raises on a circle."""
    names = set(present)
    result = {
        name: {target for _, target in references(template.resources[name]) if target in names and target != name}
        for name in template.resources
        if name in names
    }
    in_order(result)
    return result


def in_order(graph: Dependencies) -> list[str]:
    """The names in dependency order; otherwise in the written order."""
    done: dict[str, None] = {}
    while len(done) < len(graph):
        ready = [name for name, needs in graph.items() if name not in done and not needs - set(done)]
        if not ready:
            circle = ", ".join(sorted(name for name in graph if name not in done))
            raise ValidationError(f"Circular dependency between resources: [{circle}]")
        done.update(dict.fromkeys(ready))
    return list(done)


def reverse(graph: Dependencies) -> dict[str, set[str]]:
    """The graph for deletion: a resource waits for everything that depends on it."""
    return {name: {other for other, needs in graph.items() if name in needs} for name in graph}


def run(
    graph: Dependencies,
    work: Callable[[str], None],
    *,
    on_failure: Callable[[], None] | None = None,
    at_once: int = 12,
) -> dict[str, Exception]:
    """Runs `work` on every name, each after its dependencies, and independent ones in parallel.

    Returns the failures. With `on_failure`, the first failure is passed to it and stops new work from starting. Without
    it, only names that depend on a failed one are skipped.
    """
    failures: dict[str, Exception] = {}
    done: set[str] = set()
    running: set[str] = set()
    finished: queue.Queue[tuple[str, Exception | None]] = queue.Queue()
    waiting = dict(graph)

    def start_ready() -> None:
        stopped = bool(failures) and on_failure is not None
        ready = [] if stopped else [name for name, needs in waiting.items() if not (needs & set(graph)) - done]
        for name in ready[: at_once - len(running)]:
            del waiting[name]
            running.add(name)
            # Daemon threads, because a wait of an hour must not delay the end of the process.
            threading.Thread(target=_attempt, args=(work, name, finished), name=f"cfn-{name}", daemon=True).start()

    start_ready()
    while running:
        name, error = finished.get()
        running.discard(name)
        if error is None:
            done.add(name)
        else:
            failures[name] = error
            if on_failure is not None and len(failures) == 1:
                on_failure()
        start_ready()
    return failures


def _attempt(work: Callable[[str], None], name: str, finished: queue.Queue[tuple[str, Exception | None]]) -> None:
    try:
        work(name)
    except Exception as error:
        finished.put((name, error))
    else:
        finished.put((name, None))
