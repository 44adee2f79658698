"""Runs the checks on this node. usage: look --drain | --diagnose

--drain: for Slurm's prolog and epilog. Drains a node that fails, with the reason; Slurm powers it down when its jobs
have ended. Exit code 1 makes Slurm requeue the job (slurm.conf(5): Prolog, nohold_on_prolog_fail).
--diagnose: for `gpucluster doctor --node`. Prints one JSON object; runs DCGM's diagnostics too if no job has the node.
Drains a node whose GPUs fail them, in the same way.
"""

from __future__ import annotations

import errno
import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import replace

from gpucluster_node import slurm
from gpucluster_node.health import aside, checks, facts
from gpucluster_node.health.checks import Answer, Check

LONGEST_REASON = 250
NO_ROOM = (errno.EAGAIN, errno.ENOMEM, errno.EMFILE, errno.ENFILE)
_STEP = "health: storage: step="
Started = subprocess.Popen[str] | OSError
Load = Callable[[], facts.Facts]


def look(load: Load) -> dict[str, list[str]]:
    """Name of each check -> the faults that it found. load: reads what this node should have; called once more after
    another program has mounted or unmounted, because that may have changed it."""
    node, until = load(), time.monotonic() + checks.LIMIT_S
    answers = ask(node, checks.QUICK, checks.LIMIT_S)
    return {check.name: _faults(load, check, judged(check, answer, node), until) for check, answer in answers}


def _faults(load: Load, check: Check, found: list[str], until: float) -> list[str]:
    if not (found and check.again):
        return found
    again = ask(load(), [replace(check, argv=check.again)], until - time.monotonic())
    return [fault for _, answer in again for fault in judged(check, answer, load())]


def judged(check: Check, answer: Answer, node: facts.Facts) -> list[str]:
    """The faults in an answer, up to the point where it cannot be read."""
    found: list[str] = []
    try:
        found.extend(check.judge(answer, node))
    except (ValueError, LookupError, TypeError, AttributeError) as error:
        print(f"{check.name}: cannot read the output: {error!r}: {answer.first_line}", file=sys.stderr)
    return found


def ask(node: facts.Facts, wanted: Sequence[Check], limit_s: float) -> list[tuple[Check, Answer]]:
    """Runs the checks that apply to this node in parallel."""
    until = time.monotonic() + limit_s
    started = [(check, _start(check.argv)) for check in wanted if check.applies(node)]
    return [(check, _answer(process, until)) for check, process in started]


def _start(argv: Sequence[str]) -> Started:
    environment = {**os.environ, "PATH": f"{os.environ['PATH']}:/opt/amazon/efa/bin", "LC_ALL": "C"}
    try:
        return subprocess.Popen(
            argv,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            errors="replace",
            env=environment,
        )
    except OSError as error:
        return error


def _answer(process: Started, until: float) -> Answer:
    """A process that waits for a broken driver cannot be killed. It is left running."""
    if isinstance(process, OSError):
        why = f"it cannot be started: {process.strerror}"
        return Answer(127, why, tried=process.errno not in NO_ROOM)
    try:
        text, errors = process.communicate(timeout=max(0.0, until - time.monotonic()))
    except subprocess.TimeoutExpired:
        process.kill()
        with suppress(subprocess.TimeoutExpired):
            process.communicate(timeout=1)
        return Answer(None)
    except BaseException:
        process.terminate()
        with suppress(subprocess.TimeoutExpired):
            process.wait(checks.STOP_S)
        raise
    return Answer(process.returncode, text, errors)


def diagnose(load: Load) -> dict[str, object]:
    """The object that `gpucluster doctor --node` shows."""
    node, found = load(), look(load)
    skipped, drained = _test_gpus(node, found) if checks.DIAGNOSTICS.applies(node) else ("", "")
    return {"ok": not any(found.values()), "checks": found, "skipped": skipped, "drained": drained}


def _test_gpus(node: facts.Facts, found: dict[str, list[str]]) -> tuple[str, str]:
    """Adds DCGM's faults to those found. Returns why DCGM did not run, and the reason with which it drained the node.
    A node that somebody else has drained stays as it is."""
    with aside.taken(own_name()) as place:
        if hindrance := place.hindrance or _user_of_gpus(node):
            return hindrance, ""
        ((check, answer),) = ask(node, [checks.DIAGNOSTICS], checks.DIAGNOSTICS_S)
        if answer.code is None:
            ask(node, [checks.END_TESTS], checks.LIMIT_S)
            return f"dcgmi did not end within {checks.DIAGNOSTICS_S:.0f} s", ""
        if not checks.diagnosed(answer):
            return answer.first_line, ""
        found[check.name] = judged(check, answer, node)
        if found[check.name]:
            place.fault = reason(found[check.name])
    return "", place.fault if place.is_replaced else ""


def _user_of_gpus(node: facts.Facts) -> str:
    ((check, answer),) = ask(node, [checks.PROCESSES], checks.LIMIT_S)
    return next(iter(judged(check, answer, node)), "")


def drain(why: str) -> None:
    """Slurm starts no other job here."""
    aside.replace(own_name(), why)


def own_name() -> str:
    return socket.gethostname().partition(".")[0]


def reason(faults: Sequence[str]) -> str:
    """The node's reason in Slurm, without quotes and newlines: they would end the reason in scontrol's listing."""
    text = " ".join("; ".join(faults).replace('"', "'").split())
    return f"health: {text if len(text) <= LONGEST_REASON else text[: LONGEST_REASON - 1] + '…'}"


def _is_explained(faults: Sequence[str]) -> bool:
    """Whether only mounts are missing, and the prolog 10-storage has just drained the node and named the cause."""
    if not all(fault.startswith(checks.STORAGE) for fault in faults):
        return False
    (node,) = slurm.nodes([own_name()])
    return node.has("DRAIN") and node.reason.startswith(_STEP)


def _end_on_signals() -> None:
    """Python's own exit ends the drain. A further signal must not interrupt that."""

    def end(number: int, frame: object) -> None:
        aside.ignore_signals()
        raise SystemExit(128 + number)

    for each in aside.SIGNALS:
        signal.signal(each, end)


def main() -> int:
    if "--diagnose" in sys.argv[1:]:
        _end_on_signals()
        print(json.dumps(diagnose(facts.load)))
        return 0
    faults = [fault for found in look(facts.load).values() for fault in found]
    if not faults:
        return 0
    print(reason(faults), flush=True)
    try:
        if not _is_explained(faults):
            drain(reason(faults))
    except slurm.SlurmError as error:
        print(f"Slurm drains this node without the reason: {error}", flush=True)
    return 1


if __name__ == "__main__":
    # Not sys.exit: it would wait for commands that hang.
    code = main()
    sys.stdout.flush()
    os._exit(code)
