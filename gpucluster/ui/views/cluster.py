"""The cluster now: nodes with the load of each GPU, the queue, and what an hour costs."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from gpucluster.hardware import instances
from gpucluster.ui.reading import Reader

if TYPE_CHECKING:
    from gpucluster.following.overview import NodeRow, Overview
    from gpucluster.following.usage import GpuNow

LEVELS = 10
IDLE_PERCENT = 5.0


@dataclass(frozen=True)
class Cell:
    """One GPU in the heat map, or the CPUs of a node without GPUs."""

    level: str
    """A class of assets/page.css: h0 to h10, `none` without a sample, `off` on a node that does not run."""
    words: str
    is_idle: bool = False
    """It belongs to a job and does nothing."""


@dataclass(frozen=True)
class Heat:
    """One node in the heat map."""

    node: NodeRow
    cells: tuple[Cell, ...]
    mark: str
    """For its colour: busy, free, off, booting or out."""
    percent: float | None
    """The mean of its GPUs; of its CPUs, if it has no GPU."""
    words: str


def context(reader: Reader) -> dict[str, Any]:
    answer = reader.overview()
    found = answer.value
    return {"answer": answer, **(_shown(found) if found else {})}


def _shown(found: Overview) -> dict[str, Any]:
    heat = [_heat(node) for node in found.nodes]
    gpus = [gpu for node in found.nodes if node.usage for gpu in node.usage.gpus]
    used = [gpu.util_percent for node in found.nodes if node.usage for gpu in node.usage.gpus if node.in_use(gpu)]
    return {
        "overview": found,
        "partitions": {name: [each for each in heat if each.node.partition == name] for name in _partitions(found)},
        "states": Counter(each.mark for each in heat),
        "gpus": len(gpus),
        "gpus_of_jobs": len(used),
        "busy_percent": sum(used) / len(used) if used else None,
        "idle": sum(cell.is_idle for each in heat for cell in each.cells),
        "out": [node for node in found.nodes if not node.available],
        "running": [job for job in found.jobs if job.node_list],
        "waiting": [job for job in found.jobs if not job.node_list],
    }


def _partitions(found: Overview) -> list[str]:
    return list(dict.fromkeys(node.partition for node in found.nodes))


def _heat(node: NodeRow) -> Heat:
    if not (node.usage and node.running):
        return Heat(node, _without_samples(node), mark(node), None, _described(node))
    gpus = node.usage.gpus
    cells = tuple(cell(gpu, node.name, node.in_use(gpu)) for gpu in gpus)
    if not gpus:
        cells = (Cell(_level(node.usage.cpu_percent), f"{node.name}: CPU {node.usage.cpu_percent:.0f} %"),)
    percent = sum(gpu.util_percent for gpu in gpus) / len(gpus) if gpus else node.usage.cpu_percent
    return Heat(node, cells, mark(node), percent, _described(node))


def _described(node: NodeRow) -> str:
    words = [f"{node.name}: {node.state}", node.instance_type]
    words += [f"job {', '.join(node.job_ids)}"] if node.job_ids else []
    if node.usage:
        memory = f"{node.usage.memory_used_gib:.0f} of {node.usage.memory_gib:.0f} GiB"
        words.append(f"CPU {node.usage.cpu_percent:.0f} %, memory {memory}")
    return ", ".join(filter(None, words))


def _level(percent: float) -> str:
    return f"h{min(LEVELS, max(0, round(percent / 100 * LEVELS)))}"


def cell(gpu: GpuNow, node: str, in_use: bool) -> Cell:
    memory = f"{gpu.memory_used_gib:.0f} of {gpu.memory_gib:.0f} GiB"
    words = (
        f"{node} GPU {gpu.index}: {gpu.util_percent:.0f} %, {memory}, {gpu.power_w:.0f} W, {gpu.temperature_c:.0f} °C"
    )
    if gpu.throttled:
        words += f", slowed by {', '.join(gpu.throttled)}"
    return Cell(_level(gpu.util_percent), words, in_use and gpu.util_percent < IDLE_PERCENT)


def _without_samples(node: NodeRow) -> tuple[Cell, ...]:
    known = instances.find(node.instance_type)
    words = f"{node.name}: no sample of its GPUs" if node.running else f"{node.name}: powered off"
    return (Cell("none" if node.running else "off", words),) * (known.gpus if known else 0)


def mark(node: NodeRow) -> str:
    if not node.available:
        return "out"
    if not node.running:
        return "off"
    if "boot" in node.state:
        return "booting"
    return "busy" if node.job_ids else "free"
