"""Compares the measurements of `preflight: full` with published figures of the instance type."""

from __future__ import annotations

import json
import re
from contextlib import suppress
from typing import Any, NamedTuple, Sequence

from gpucluster_job.failures import Failure
from gpucluster_job.preflight import slow_nodes
from gpucluster_job.preflight.judge import Conclusion
from gpucluster_job.runner import TIMED_OUT

SLOW, BROKEN = 0.7, 0.25
"""Shares of the published figure. Below the first the preflight warns; below the second the job does not use the
expected network."""
SIZE = 2**30
"""The size at which published figures are compared. At smaller sizes versions of NCCL differ by a factor of two."""

_LAUNCHERS_LABEL = re.compile(r"^\[(?:\d+,)?\d+\]<std(?:out|err)>: ?", re.MULTILINE)
_ROW = re.compile(r"^ *(\d+)\s+\d+\s+\w+\s+\w+\s+-?\d+\s+([\d.]+)\s+([\d.]+)\s+([\d.]+)\s+(\S+)")
_LABEL = re.compile(r"^\[\d+ [^]]+\] (\{.*\})$")


def read_nccl_tests(text: str) -> dict[int, float]:
    """Bytes -> bus bandwidth out of place, GB/s. Raises ValueError if a result was wrong."""
    rows = [match for match in map(_ROW.match, text.splitlines()) if match]
    if wrong := [row[1] for row in rows if row[5] not in ("0", "N/A")]:
        raise ValueError(f"nccl-tests: wrong results at {', '.join(wrong)} bytes")
    return {int(row[1]): float(row[4]) for row in rows}


class Results(NamedTuple):
    """What ranks of `allreduce.py` printed."""

    whole: dict[str, Any] | None
    """The result of all ranks; None if their all-reduce failed."""
    pairs: list[slow_nodes.Pair]
    """The better result of each pair of nodes."""
    wrong: tuple[list[str], str] | None
    """The one or two nodes whose sum is wrong, and how wrong it is."""


def results(text: str) -> Results:
    """Slurm may put another rank's text into a line of more than 1024 bytes (SLURM_IO_MAX_MSG_LEN); such lines do not
    count."""
    whole, wrong = None, None
    pairs: dict[tuple[str, str], float] = {}
    for match in filter(None, map(_LABEL.match, text.splitlines())):
        with suppress(ValueError):
            found: dict[str, Any] = json.loads(match[1])
            if "wrong" in found:
                wrong = found["pair"], str(found["wrong"])
            elif "pair" in found:
                first, second = found["pair"]
                pairs[first, second] = max(pairs.get((first, second), 0.0), found["busbw_gb_per_s"])
            elif "framework" in found or "skipped" in found:
                whole = found
    return Results(whole, [slow_nodes.Pair(*nodes, speed) for nodes, speed in pairs.items()], wrong)


def failure(text: str, code: int, failed: Sequence[Failure]) -> tuple[str, str]:
    """The node, and the first failed rank's reason."""
    said = "an all-reduce in the job's framework"
    if failed:
        rank = failed[0]
        return rank.node, f"{said} failed on rank {rank.label} ({rank.node}): {rank.reason}"
    last = next((line for line in reversed(text.splitlines()) if line.strip()), "it printed nothing")
    if code == TIMED_OUT:
        return "", f"{said} did not end within its five minutes: {last}"
    return "", f"{said} failed with exit code {code}: {last}"


def judged(measured: float, published: dict[str, Any] | None) -> tuple[str, str]:
    """(level, text). There may be no figure for this number of nodes; bus bandwidth of another number is not
    comparable."""
    if published is None:
        return "", f"{measured:.1f} GB/s bus bandwidth at 1 GiB; no published figure for this type and number of nodes"
    share = measured / published["gb_per_s"]
    words = f"{measured:.1f} GB/s bus bandwidth at 1 GiB, {share:.0%} of the published {published['gb_per_s']:g} GB/s"
    if share >= SLOW:
        return "", words
    return ("broken" if share < BROKEN else "slow"), f"{words} ({published['source']}), expected {SLOW:.0%}"


def conclude(
    expected: dict[str, Any], code: int, all_reduce: str, nccl_tests: str, failed: Sequence[Failure]
) -> Conclusion:
    """`code` and `all_reduce`: exit code and output of the framework's all-reduce. `failed`: its failed ranks, the most
    likely cause first."""
    found = judge(expected, code, all_reduce, nccl_tests, failed)
    marks = (("error: ", "errors"), ("warning: ", "warnings"), ("", "lines"))
    lines = [f"{mark}{text}" for mark, key in marks for text in found[key]]
    report = {key: found[key] for key in ("errors", "warnings", "measured")}
    failure = (found["node"], found["errors"][0]) if found["errors"] else None
    return Conclusion(lines, report, failure, found["broken"])


def judge(
    expected: dict[str, Any], code: int, all_reduce: str, nccl_tests: str, failed: Sequence[Failure]
) -> dict[str, Any]:
    """Errors, warnings, lines for the log, measurements, the node of the first error, and the broken nodes."""
    found: dict[str, Any] = {"errors": [], "warnings": [], "lines": [], "measured": {}, "node": "", "broken": {}}
    text = _LAUNCHERS_LABEL.sub("", all_reduce)
    whole, pairs, wrong = results(text)
    ended_in_pairs = bool(code and whole and whole.get("pairs_follow"))
    if wrong:
        _wrong(found, *wrong)
    elif ended_in_pairs:
        found["warnings"].append(f"pairs of nodes could not be measured: {failure(text, code, failed)[1]}")
    elif code:
        found["node"], reason = failure(text, code, failed)
        found["errors"].append(reason)
    if whole and "skipped" in whole:
        found["warnings"].append(f"no all-reduce ran: {whole['skipped']}")
    elif whole:
        found["measured"]["framework"] = {**whole, "pairs": pairs} if pairs else whole
        ranks = "1 rank" if whole["ranks"] == 1 else f"{whole['ranks']} ranks"
        _compare(found, f"{whole['framework']}, {ranks}", _speed(whole), expected)
        if pairs and _speed(whole) and not code:
            _pairs(found, pairs, expected)
    _nccl_tests(found, _LAUNCHERS_LABEL.sub("", nccl_tests), expected)
    return found


def _wrong(found: dict[str, Any], nodes: Sequence[str], how: str) -> None:
    """Both nodes of a pair are replaced: a wrong sum is worse than a healthy node's boot."""
    text = f"a sum of the ranks on {' and '.join(nodes)} is wrong"
    if len(nodes) == 1:
        found["node"] = nodes[0]
    else:
        text += ", so one of the two nodes is broken"
    found["errors"].append(f"{text}: {how}")
    found["broken"] = dict.fromkeys(nodes, text)


def _pairs(found: dict[str, Any], pairs: Sequence[slow_nodes.Pair], expected: dict[str, Any]) -> None:
    if expected["compare_nodes"]:
        warnings, lines = slow_nodes.described(pairs)
        found["warnings"] += warnings
        found["lines"] += lines
    else:
        found["lines"].append(slow_nodes.range_of(pairs))
    if published := expected["published_for_two"]:
        fast = slow_nodes.fast(pairs)
        _compare(found, "the fastest quarter of the pairs of nodes", fast, {**expected, "published": published})


def _speed(result: dict[str, Any]) -> float | None:
    """None if the sum was too short to measure, or nothing was sent."""
    sends = result.get("ranks") != 1
    return result["busbw_gb_per_s"] if sends and result.get("bytes") == SIZE else None


def _nccl_tests(found: dict[str, Any], text: str, expected: dict[str, Any]) -> None:
    if not text:
        return
    try:
        speeds = read_nccl_tests(text)
    except ValueError as error:
        found["errors"].append(str(error))
        return
    if not speeds:
        found["warnings"].append(f"nccl-tests printed no result: {text.strip().splitlines()[-1]}")
    found["measured"]["nccl_tests_gb_per_s"] = speeds
    if SIZE in speeds:
        _compare(found, "nccl-tests", speeds[SIZE], expected)


def _compare(found: dict[str, Any], who: str, speed: float | None, expected: dict[str, Any]) -> None:
    if speed is None:
        found["lines"].append(f"{who}: the sum is right")
        return
    level, words = judged(speed, expected["published"])
    if level == "broken" and expected["efa"] == "required":
        found["errors"].append(f"{who}: {words}; the job has efa: required")
    elif level:
        found["warnings"].append(f"{who}: {words}")
    else:
        found["lines"].append(f"{who}: {words}")
