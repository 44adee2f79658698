"""The overview as a picture of text: a line for each node, or a cell for each GPU if the lines do not fit."""

from __future__ import annotations

import re
import time
from collections.abc import Iterator, Sequence
from statistics import fmean

from rich.console import Console, ConsoleOptions, Group, RenderableType
from rich.measure import Measurement
from rich.table import Table
from rich.text import Text

from gpucluster.cli.frame import screen
from gpucluster.cli.seeing.blocks import block, line
from gpucluster.cli.seeing.feed import KEPT, Seen, load_percent
from gpucluster.following.overview import JobRow, NodeRow, Overview
from gpucluster.job.spec import slurm_time

BUSY_PERCENT, IDLE_PERCENT = 60.0, 20.0
_BUSY, _PARTLY, _IDLE, _FREE = "green", "yellow", "red", "bright_black"
_PRICED, _WIDE = 100, 120
"""Columns of a terminal from which jobs have their price, and nodes their memory, power and temperature."""
_JOBS_AT_LEAST = 4
_LONGEST = 250
"""Characters of a job's words: rich measures all of them, and thousands of jobs may have long names."""
_NAMED = 3
"""GPUs in one note."""


def of(seen: Seen, cluster: str, width: int, height: int | None) -> RenderableType:
    """`height` None: as long as it gets."""
    overview = seen.overview
    notes = [*_problems(overview), *overview.lacks]
    head = [_title(seen, cluster, width), *([_stale(seen, width)] if seen.is_stale else [])]
    foot = [_cut(note, width, "yellow") for note in notes[: None if height is None else max(1, height // 8)]]
    left = None if height is None else max(4, height - len(head) - len(foot) - 3)
    jobs_want = len(overview.jobs) + 1
    nodes = _nodes(seen, width, left and max(3, left - min(jobs_want, max(_JOBS_AT_LEAST, left // 4))))
    jobs = _jobs(overview, width, left and max(2, left - _height(nodes)))
    blank = Text("")
    return Group(*head, blank, *nodes, blank, *jobs, *([blank, *foot] if foot else []))


def _height(parts: Sequence[RenderableType]) -> int:
    return sum(each.row_count + 1 if isinstance(each, Table) else 1 for each in parts)


def _title(seen: Seen, cluster: str, width: int) -> Text:
    overview = seen.overview
    running = [node for node in overview.nodes if node.running]
    gpus = [gpu.util_percent for node in running if node.usage for gpu in node.usage.gpus]
    waits = sum(not job.node_list for job in overview.jobs)
    parts = [
        f"{len(running)} of {len(overview.nodes)} nodes run",
        f"{len(gpus)} GPUs at {fmean(gpus):.0f} %" if gpus else "",
        f"${overview.usd_per_hour:,.2f} an hour" if overview.usd_per_hour is not None else "",
        f"jobs: {len(overview.jobs) - waits} running, {waits} pending",
        time.strftime("%H:%M:%S UTC", time.gmtime(overview.at_s)),
    ]
    text = Text(cluster, style="bold", no_wrap=True, overflow="ellipsis")
    for part in filter(None, parts):
        text.append(f"  {part}", style="not bold")
    text.truncate(width, overflow="ellipsis")
    return text


def _stale(seen: Seen, width: int) -> Text:
    why = f": {seen.problem}" if seen.problem else ""
    return _cut(f"no answer since {seen.age_s:.0f} s, this is the last picture{why}", width, "bold red")


def _cut(words: str, width: int, style: str) -> Text:
    text = Text(screen.one_line(words), style=style, no_wrap=True, overflow="ellipsis")
    text.truncate(width, overflow="ellipsis")
    return text


def _problems(overview: Overview) -> Iterator[str]:
    lowered: dict[str, list[str]] = {}
    for node in overview.nodes:
        if not node.available:
            yield f"{node.name} is {node.state}" + (f": {node.reason}" if node.reason else "")
        for gpu in node.usage.gpus if node.usage else ():
            if gpu.throttled:
                lowered.setdefault(", ".join(gpu.throttled), []).append(f"{node.name} GPU {gpu.index}")
    for why, gpus in lowered.items():
        more = f" and {len(gpus) - _NAMED} more" if len(gpus) > _NAMED else ""
        yield f"clocks are lowered ({why}): {', '.join(gpus[:_NAMED])}{more}"


def _nodes(seen: Seen, width: int, height: int | None) -> list[RenderableType]:
    shown = [node for node in seen.overview.nodes if node.running]
    off = _off(seen.overview.nodes, width)
    if height is None or len(shown) + 1 + len(off) <= height:
        return [*([_lines(shown, seen, width)] if shown else []), *off]
    return [*_folded(shown, width, max(1, height - len(off))), *off]


def _off(nodes: Sequence[NodeRow], width: int) -> list[Text]:
    """How many nodes of each partition are powered off."""
    counts: dict[str, int] = {}
    for node in nodes:
        if not node.running:
            counts[node.partition] = counts.get(node.partition, 0) + 1
    words = ", ".join(f"{count} of {name}" for name, count in counts.items())
    return [_cut(f"powered off: {words}", width, _FREE)] if counts else []


def _lines(nodes: Sequence[NodeRow], seen: Seen, width: int) -> Table:
    wide = width >= _WIDE
    table = _table("node", "job", "CPU", *["memory"] * wide, "GPUs", "load", *["GPU memory", "power", "hottest"] * wide)
    table.add_column("the last minutes", no_wrap=True, overflow="crop", ratio=1)
    for node in nodes:
        table.add_row(Text(node.name), _doing(node), *_measured(node, wide), _History(seen.loads.get(node.name, [])))
    return table


def _table(*columns: str) -> Table:
    table = Table(box=None, padding=(0, 2, 0, 0), pad_edge=False, header_style="underline", expand=True)
    for name in columns:
        right = name in ("CPU", "memory", "load", "GPU memory", "power", "hottest", "nodes", "time", "$ an hour")
        table.add_column(name, no_wrap=True, overflow="ellipsis", justify="right" if right else "left")
    return table


def _doing(node: NodeRow) -> Text:
    """Its job, and what keeps the node from working on it."""
    state, _, note = node.state.partition(" (")
    said = note.rstrip(")") or ("" if node.job_ids else state)
    more = f" +{len(node.job_ids) - 1}" if len(node.job_ids) > 1 else ""
    text = Text(f"{node.job_ids[0]}{more} " if node.job_ids else "")
    return text.append(said, style=_FREE if node.available else "red")


def _measured(node: NodeRow, wide: bool) -> list[Text]:
    now = node.usage
    if now is None:
        return [Text("")] * (7 if wide else 3)
    gpus = now.gpus
    cells = [Text(f"{now.cpu_percent:.0f} %"), _gpus(node), Text(f"{load_percent(now):.0f} %")]
    if not wide:
        return cells
    memory = Text(f"{now.memory_used_gib:.0f}/{now.memory_gib:.0f} GiB")
    if not gpus:
        return [cells[0], memory, *cells[1:], *[Text("")] * 3]
    used, all_of_it = (sum(getattr(gpu, name) for gpu in gpus) for name in ("memory_used_gib", "memory_gib"))
    watts, hottest = sum(gpu.power_w for gpu in gpus), max(gpu.temperature_c for gpu in gpus)
    own = [Text(f"{used:.0f}/{all_of_it:.0f} GiB"), Text(f"{watts / 1000:.1f} kW"), Text(f"{hottest:.0f} °C")]
    return [cells[0], memory, *cells[1:], *own]


def _gpus(node: NodeRow) -> Text:
    """A block for each: its height and its colour are the GPU's load."""
    text = Text()
    for gpu in node.usage.gpus if node.usage else ():
        text.append(block(gpu.util_percent / 100), style=_colour(gpu.util_percent, node.in_use(gpu)))
    return text


def _colour(percent: float, has_job: bool) -> str:
    """A GPU that idles is a loss only if a job has it."""
    if percent >= BUSY_PERCENT:
        return _BUSY
    if not has_job:
        return _FREE
    return _PARTLY if percent >= IDLE_PERCENT else _IDLE


class _History:
    """As many of the newest loads as there is room for."""

    def __init__(self, loads: Sequence[float]) -> None:
        self._loads = loads

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> Iterator[Text]:
        yield Text(line(self._loads, min(KEPT, options.max_width)), style="cyan", no_wrap=True)

    def __rich_measure__(self, console: Console, options: ConsoleOptions) -> Measurement:
        return Measurement(1, options.max_width)


def _folded(nodes: Sequence[NodeRow], width: int, height: int) -> list[RenderableType]:
    """Several nodes to a line, by number after the common beginning of their names, with a cell for each GPU."""
    groups: dict[str, list[NodeRow]] = {}
    for node in nodes:
        groups.setdefault(_split(node.name)[0], []).append(node)
    indent = max(map(len, groups), default=0)
    rows = [row for name, several in groups.items() for row in _rows(name.ljust(indent), several, width)]
    if len(rows) <= height:
        return [text for text, _ in rows]
    shown = rows[: max(1, height - 1)]
    left = len(nodes) - sum(count for _, count in shown)
    return [*(text for text, _ in shown), _cut(f"and {left} more nodes", width, _FREE)]


def _split(name: str) -> tuple[str, str]:
    found = re.fullmatch(r"(.*?)(\d*)", name)
    return (found[1], found[2]) if found else ("", name)


def _rows(name: str, nodes: Sequence[NodeRow], width: int) -> list[tuple[Text, int]]:
    """Lines, and how many nodes each has."""
    digits = max(len(_split(node.name)[1]) for node in nodes)
    cells = [_cell(node, digits) for node in nodes]
    wide = max(cell.cell_len for cell in cells) + 2
    across = max(1, (width - len(name)) // wide)
    found = []
    for at in range(0, len(cells), across):
        text = Text(name if at == 0 else " " * len(name), style=_FREE, no_wrap=True, overflow="crop")
        for cell in cells[at : at + across]:
            text.append_text(cell).append(" " * (wide - cell.cell_len))
        found.append((text, len(cells[at : at + across])))
    return found


def _cell(node: NodeRow, digits: int) -> Text:
    text = Text()
    text.append(f"{_split(node.name)[1]:>{digits}} ", style="default" if node.available else "red")
    if not node.usage:
        return text.append(_brief(node), style=_FREE if node.available else "red")
    if node.usage.gpus:
        return text.append_text(_gpus(node))
    return text.append(block(node.usage.cpu_percent / 100), style=_colour(node.usage.cpu_percent, bool(node.job_ids)))


def _brief(node: NodeRow) -> str:
    state, _, note = node.state.partition(" (")
    return "boots" if note.startswith("booting") else state[:8]


def _jobs(overview: Overview, width: int, height: int | None) -> list[RenderableType]:
    if not overview.jobs:
        return [Text("no job runs or waits", style=_FREE)]
    shown = overview.jobs
    if height is not None and len(shown) + 1 > height:
        shown = shown[: max(1, height - 2)]
    priced = any(job.usd_per_hour is not None for job in overview.jobs)
    columns = ["job", "user", "name", "state", "nodes", "time", *["$ an hour"] * (priced and width >= _PRICED)]
    table = _table(*columns)
    table.add_column("where, or why it waits", no_wrap=True, overflow="ellipsis", ratio=1)
    table.columns[2].max_width = 40 if width >= _WIDE else 16
    table.columns[1].max_width = 16 if width >= _WIDE else 8
    for job in shown:
        table.add_row(*_job(job, with_price="$ an hour" in columns))
    left = len(overview.jobs) - len(shown)
    return [table, *([_cut(f"and {left} more jobs", width, _FREE)] if left else [])]


def _job(job: JobRow, *, with_price: bool) -> list[Text]:
    usd = "" if job.usd_per_hour is None else f"{job.usd_per_hour:,.2f}"
    words = [job.job_id, job.user, job.name, job.state.lower(), str(job.nodes)]
    words += [slurm_time(int(job.elapsed_s)) if job.node_list else "", *[usd] * with_price]
    where = "; ".join(filter(None, (job.reason, job.node_list if not job.reason else "")))
    return [Text(screen.one_line(word[:_LONGEST]), style="" if job.node_list else _FREE) for word in (*words, where)]
