"""Whether the job may start: compares what every node reported (`probe`) with what the cluster file promises.

Only a proven defect is an error. A check that could not run, or a defect that may be harmless, is a warning.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import Any, Dict, Sequence

CLOCK_S = 1.0
"""With a larger difference, logs are out of order and credentials expire; NTP keeps clocks within milliseconds."""
CHECKED_AGAIN = "Slurm checks the node again after the job, and replaces it if it is broken"
TESTED = "an administrator's `gpucluster doctor --node {}` tests it, and replaces it if it is broken"

Report = Dict[str, Any]


@dataclass
class Findings:
    errors: list[tuple[str, str]] = field(default_factory=list)
    """The node ("" if no single node) and what is wrong there."""
    warnings: list[tuple[str, str]] = field(default_factory=list)
    broken: dict[str, str] = field(default_factory=dict)
    """Node -> why, if it is certain that this node is at fault."""
    summary: str = ""

    def error(self, node: str, text: str, then: str = "", broken: Sequence[str] = ()) -> None:
        self.errors.append((node, f"{text}: {then}" if then else text))
        self.broken.update(dict.fromkeys(broken, text))

    def warn(self, node: str, text: str, then: str = "") -> None:
        self.warnings.append((node, f"{text}: {then}" if then else text))


def judge(expected: Report, reports: list[Report], nodes: list[str]) -> Findings:
    findings = Findings()
    by_name = {report["node"]: report for report in reports}
    by_node = {node: by_name[node] for node in nodes if node in by_name}
    for node in nodes:
        if node not in by_node:
            findings.warn(node, f"{node} could not be checked", "its task did not answer; the job continues")
    for node, report in by_node.items():
        _gpus(findings, expected, node, report)
        _efa(findings, expected, node, report, len(nodes))
        _files(findings, expected, node, report)
        _clock(findings, node, report)
    _cpus(findings, expected, by_node)
    if len(nodes) > 1:
        if len(findings.broken) == len(nodes):
            findings.broken.clear()  # rather the job itself, such as its environment, than every one of its nodes
        _sum(findings, by_node, nodes)
    findings.summary = summary(expected, list(by_node.values()), len(nodes))
    return findings


def _gpus(findings: Findings, expected: Report, node: str, report: Report) -> None:
    wanted, got, error = expected["gpus"], report.get("gpus"), report["errors"].get("gpus")
    if not wanted:
        return
    if got is None:
        findings.warn(node, f"the GPUs of {node} could not be counted ({error})", _then(expected, CHECKED_AGAIN))
    elif got < wanted:
        findings.error(node, f"{node} has {got} of the {wanted} GPUs that the job asks for", _then(expected), [node])
    for gpu in report.get("gpus_with_memory_errors", []):
        findings.warn(node, f"GPU {gpu} of {node} has uncorrected memory errors", _then(expected, TESTED.format(node)))


def _then(expected: Report, ours: str = "") -> str:
    """Nodes of a cluster that we did not build are not ours to test or replace."""
    return str(expected.get("then") or ours)


def _cpus(findings: Findings, expected: Report, by_node: dict[str, Report]) -> None:
    """A warning, because the job trains with fewer CPUs. Nodes with the same shortfall share it: the cause is then
    Slurm's configuration, and not a node."""
    short: dict[tuple[int, int], list[str]] = {}
    for node, report in by_node.items():
        wanted = expected.get("cpus") or report.get("allocated_cpus") or 0
        # A machine of the local cloud has fewer than its node line says. On AWS, slurmctld gives such a node no job.
        wanted = min(wanted, report.get("machine_cpus") or 0)
        got = report.get("cpus")
        if got is not None and got < wanted:
            short.setdefault((got, wanted), []).append(node)
    for (got, wanted), nodes in short.items():
        whose = "of" if expected.get("cpus") else "that Slurm gave it on"
        text = f"the job may use only {got} of the {wanted} CPUs {whose} {_named(nodes)}"
        ours = f"data loaders are slower; compare ThreadsPerCore of `scontrol show node {nodes[0]}` with `lscpu` there"
        findings.warn(nodes[0], text, _then(expected, ours))


def _named(nodes: Sequence[str]) -> str:
    """`each of train-1, train-2, train-3 and 61 more`"""
    listed = ", ".join(nodes[:3]) + (f" and {len(nodes) - 3} more" if len(nodes) > 3 else "")
    return f"each of {listed}" if len(nodes) > 1 else listed


def _efa(findings: Findings, expected: Report, node: str, report: Report, nodes: int) -> None:
    required, wanted = expected["efa"] == "required", efa_wanted(expected, report)
    if not wanted or (nodes == 1 and not required):
        return
    got, error = report.get("efa_interfaces"), report["errors"].get("efa_interfaces")
    found = f"could not be counted ({error})" if got is None else f"are {got}, expected {wanted}"
    if got is not None and got >= wanted:
        return
    if required and got is not None:
        text = f"the EFA interfaces of {node} {found}, and the job has efa: required"
        findings.error(node, text, _then(expected), [node])
    else:
        findings.warn(node, f"the EFA interfaces of {node} {found}", "NCCL may use TCP, which is many times slower")


def efa_wanted(expected: Report, report: Report) -> int:
    """The number that the node's own instance type has, if known; else what every type of the partition has."""
    by_type: dict[str, int] = expected["efa_interfaces"]
    return by_type.get(report.get("type") or "", min(by_type.values(), default=0))


def _files(findings: Findings, expected: Report, node: str, report: Report) -> None:
    if not report.get("writable"):
        text = f"{node} cannot write to the job's folder ({report['errors'].get('writable')})"
        findings.warn(node, text, "files that ranks write there, such as checkpoints, may be lost; is the disk full?")
    for mount in report.get("mounts") or []:
        findings.warn(node, f"nothing is mounted on {mount} of {node}", _then(expected, CHECKED_AGAIN))


def _clock(findings: Findings, node: str, report: Report) -> None:
    offset, error = report.get("clock_offset_s"), report.get("clock_error_s", 0.0)
    if offset is not None and abs(offset) - error > CLOCK_S:
        text = f"the clock of {node} is {offset:+.1f} s off the first node's"
        findings.warn(node, text, f"`chronyc tracking` on {node} shows the reason")


def _sum(findings: Findings, by_node: dict[str, Report], nodes: list[str]) -> None:
    """Proven only between nodes that both reported a result. If all others fail, the first may be the cause, because it
    computes the sum."""
    total = sum(range(1, len(nodes) + 1))
    others = len(nodes) - 1
    first = by_node.get(nodes[0])
    failed = {node: report["errors"]["sum"] for node, report in by_node.items() if "sum" in report["errors"]}
    wrong = [node for node, report in by_node.items() if report.get("sum") not in (None, total)]
    for node in wrong:
        text = f"a sum over the nodes is {by_node[node]['sum']:g} on {node}, expected {total}"
        findings.error(node, text, broken=[node] if len(wrong) < others else [])
    listened = nodes[0] in failed and failed[nodes[0]].startswith("TimeoutError")
    apart = [node for node in failed if listened and node != nodes[0] and "no connection" in failed[node]]
    if first is None or len(by_node) < len(nodes):
        if failed:
            findings.warn("", "no sum over the nodes, because some of them did not take part")
    elif apart:
        findings.error(
            apart[0],
            f"{', '.join(apart)} cannot reach {nodes[0]} ({failed[apart[0]]})",
            "nodes of a partition must reach each other on every port: check the security group and the nodes'"
            " firewalls",
            apart if len(apart) < others else [],
        )
    else:
        for node, error in failed.items():
            findings.warn(node, f"no sum over the nodes on {node} ({error})")


def summary(expected: Report, reports: list[Report], nodes: int) -> str:
    parts = [f"{nodes} node{'s' * (nodes > 1)}"]
    if expected["gpus"]:
        parts.append(_each("GPU", (report.get("gpus") for report in reports)))
    if any(efa_wanted(expected, report) for report in reports) and nodes > 1:
        parts.append(_each("EFA interface", (report.get("efa_interfaces") for report in reports)))
    offsets = [abs(report["clock_offset_s"]) for report in reports if report.get("clock_offset_s") is not None]
    if len(offsets) > 1:
        parts.append(f"clocks within {max(offsets) * 1000:.0f} ms")
    if nodes > 1 and len(reports) == nodes and all(report.get("sum") is not None for report in reports):
        parts.append("they reach each other")
    return ", ".join(parts)


def _each(noun: str, counts: Any) -> str:
    seen = sorted({count for count in counts if count is not None})
    span = "-".join(map(str, dict.fromkeys((seen[0], seen[-1])))) if seen else "unknown"
    return f"{span} {noun}{'' if span == '1' else 's'} each"


def read(text: str) -> list[Report]:
    """A line that is not a report comes from Slurm, or from a traceback."""
    lines = (line for line in text.splitlines() if line.startswith('{"node"'))
    return [json.loads(line) for line in lines if line.endswith("}")]


@dataclass(frozen=True)
class Conclusion:
    lines: list[str]
    """Lines for the log."""
    report: Report
    """Fields for result.json."""
    failure: tuple[str, str] | None
    """The node ("" if no single node) and the reason why the job must not start."""
    broken: dict[str, str]
    """As those of Findings."""


def conclude(expected: Report, said: str, nodes: list[str], seconds: float) -> Conclusion:
    """`said`: the output of the nodes' probes."""
    reports = read(said)
    findings = judge(expected, reports, nodes)
    levels = (("error", findings.errors), ("warning", findings.warnings))
    lines = [f"{level}: {text}" for level, found in levels for _, text in found]
    if len(reports) < len(nodes):
        lines += [f"  {line}" for line in said.splitlines()[-5:] if not line.startswith("{")]
    texts = {f"{level}s": [text for _, text in found] for level, found in levels}
    report = {"level": expected["level"], "seconds": round(seconds, 2), **texts}
    first = findings.errors[0] if findings.errors else None
    return Conclusion([*lines, f"{findings.summary} ({seconds:.1f} s)"], report, first, findings.broken)


def joined(report: Report, more: Report) -> Report:
    """Combines two reports of one preflight, the second after the first."""
    both = {key: [*report[key], *more[key]] for key in ("errors", "warnings")}
    return {**report, **more, **both}
