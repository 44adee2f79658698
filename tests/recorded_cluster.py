"""A source of `gpucluster ui` that replays a made-up cluster: 64 nodes with 8 GPUs each, and 5,000 jobs.

The same numbers come in every run, and change with each call as those of a cluster do. Names and log lines are as
hostile as users can make them.
"""

from __future__ import annotations

import math
import random
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from gpucluster.errors import RemoteError, UsageError
from gpucluster.following import charges
from gpucluster.following.arrays import Element
from gpucluster.following.cost import Account
from gpucluster.following.explain import Explanation
from gpucluster.following.lives import Run
from gpucluster.following.logs import Selection
from gpucluster.following.metrics import Point
from gpucluster.following.overview import JobRow, NodeRow, Overview
from gpucluster.following.timeline import Span
from gpucluster.following.usage import GpuNow, NodeNow, Series, Unavailable
from gpucluster.head.mounted import Mount
from gpucluster.ui.source import HistoryRow, Job, Script

HOSTILE = "<script>alert(1)</script>\"'&lt;<img src=x onerror=alert(2)>"
USERS = ("ana", "bo", "chen", "dee")
AWAY = RemoteError("the head node does not answer: timed out", "`gpucluster status` shows its state")
SWEEP, HANGS, FAILED, RUNNING = "4998", "4999", "4997", "5000"
BENCH = tuple(str(number) for number in range(4900, 4910))
GIB = 2**30


def _summary(node: str) -> dict[str, Any]:
    """As bootstrap/gpucluster_node/watch/jobs.py writes it, but for the last GPU, which its user has falsified."""
    use = {"util_percent": {"mean": 91.2, "max": 100.0, "p95": 99.0}, "memory_gib": {"mean": 30.1, "max": 31.5}}
    return {"node": node, "gpus": [{"index": 0, **use}, {"index": HOSTILE, "util_percent": HOSTILE}, HOSTILE]}


@dataclass
class RecordedCluster:
    nodes: int = 64
    gpus: int = 8
    jobs: int = 5000
    may_write: bool = False
    cluster: str = "vision"
    problem: Exception | None = None
    """What each call raises, as when the head node is away."""
    without_samples: bool = False
    calls: int = 0
    cancelled: list[str] = field(default_factory=list)
    asked: list[Selection] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.now_s = time.time()
        self._rows = [self._row(number) for number in range(self.jobs, 0, -1)]

    def reset(self) -> None:
        self.problem, self.without_samples, self.calls = None, False, 0
        self.cancelled.clear()
        self.asked.clear()

    def _ask(self) -> random.Random:
        self.calls += 1
        if self.problem:
            raise self.problem
        return random.Random(self.calls)

    def overview(self) -> Overview:
        chance = self._ask()
        lacks = ("this cluster has no samples: `monitoring.prometheus` is off",) if self.without_samples else ()
        return Overview(
            at_s=time.time(),
            nodes=tuple(self._node(number, chance) for number in range(1, self.nodes + 1)),
            jobs=tuple(self._live()),
            usd_per_hour=56 * 32.77,
            lacks=lacks,
        )

    def _node(self, number: int, chance: random.Random) -> NodeRow:
        name, off, out = f"train-{number}", number > self.nodes - 6, number == 7
        job_ids = () if off or out or number > self.nodes - 10 else (RUNNING,) if number <= 32 else (HANGS,)
        state = (
            "idle (powered off until a job needs it)"
            if off
            else "drained"
            if out
            else "allocated"
            if job_ids
            else "idle"
        )
        row = NodeRow(name, "train", state, "" if off else "p4d.24xlarge", job_ids, None, "", not off, not out)
        if out:
            return replace(row, reason="GPU 3 has fallen off the bus (Xid 79); next try 14:10")
        if number == self.nodes - 7:
            return replace(row, state="allocated (booting)", job_ids=(RUNNING,))
        return row if off or self.without_samples else replace(row, usage=self._usage(name, number, job_ids, chance))

    def _usage(self, name: str, number: int, job_ids: tuple[str, ...], chance: random.Random) -> NodeNow:
        busy = 93.0 if job_ids == (RUNNING,) else 100.0 if job_ids else 0.0
        starved = number == 12
        gpus = []
        for index in range(self.gpus):
            percent = 2.0 if starved else max(0.0, min(100.0, busy - abs(chance.gauss(0, 9)))) if busy else 0.0
            slowed = ("heat",) if (number, index) == (20, 5) else ()
            gpus.append(
                GpuNow(index, percent, 31.0 if job_ids else 0.4, 40.0, 60 + 3.2 * percent, 30 + percent / 3, slowed)
            )
        return NodeNow(name, time.time(), 99.0 if starved else 34.0, 210.0, 1152.0, tuple(gpus))

    def _live(self) -> list[JobRow]:
        running = [
            JobRow(RUNNING, "resnet50-horovod", "ana", "RUNNING", 32, "train-[1-32]", 8130.0, "", 32 * 32.77),
            JobRow(HANGS, HOSTILE, "bo", "RUNNING", 22, "train-[33-54]", 2310.0, "", 22 * 32.77),
        ]
        waiting = [
            JobRow(
                str(self.jobs + number), f"queued-{number}", "chen", "PENDING", 8, "", 0.0, "its nodes are busy", None
            )
            for number in range(1, 6)
        ]
        return running + waiting

    def history(self) -> Sequence[HistoryRow]:
        self._ask()
        return self._rows

    def _row(self, number: int) -> HistoryRow:
        chance = random.Random(number)
        job_id, started = str(number), self.now_s - (self.jobs - number) * 900 - 4000
        name, state, reason = f"train-{number % 37}", "COMPLETED", ""
        if job_id in BENCH:
            name = f"imagenet-{'horovodrun' if number % 2 else 'torchrun'}-{2 ** ((number - 4900) // 2)}"
        elif number % 11 == 3:
            state, reason = "FAILED", "rank 3 on train-2 exited with code 1: torch.OutOfMemoryError: CUDA out of memory"
        elif number % 23 == 0:
            state = "CANCELLED"
        row = HistoryRow(
            job_id,
            name,
            USERS[number % 4],
            state,
            2 ** (number % 5),
            started,
            started + 400 + chance.random() * 9000,
            reason,
            chance.random() * 300,
        )
        special = {
            RUNNING: replace(
                row,
                name="resnet50-horovod",
                state="RUNNING",
                nodes=32,
                started_s=self.now_s - 8130,
                ended_s=None,
                reason="",
            ),
            HANGS: replace(
                row, name=HOSTILE, state="RUNNING", nodes=22, started_s=self.now_s - 2310, ended_s=None, reason=""
            ),
            SWEEP: replace(row, name="lr-sweep", state="COMPLETED", elements={"completed": 11, "failed": 1}, reason=""),
            FAILED: replace(row, name=HOSTILE, state="FAILED", reason=HOSTILE),
        }
        return special.get(job_id, row)

    def job(self, job_id: str) -> Job:
        self._ask()
        row = next((row for row in self._rows if row.job_id == job_id.partition("_")[0]), None)
        if row is None:
            raise UsageError(f"there is no job {job_id}", "`gpucluster jobs` lists them")
        nodes = tuple(f"train-{number}" for number in range(1, row.nodes + 1))
        ended = row.phase == "done"
        result = {
            "exit_code": int(row.state != "COMPLETED"),
            "failed_rank": 3,
            "failed_node": "train-1",
            "reason": row.reason,
            "metrics": {"loss": {"last": 0.41, "min": 0.4, "max": 7.1}},
        }
        usage = {"nodes": [_summary(node) for node in nodes], "energy_kwh": 41.2, "idle_share": 0.04}
        return Job(
            row,
            "train",
            nodes,
            row.nodes * self.gpus,
            "1-00:00:00",
            result if ended else None,
            f"/home/{row.user}/jobs/x",
            usage if ended else None,
        )

    def log(self, job_id: str, selection: Selection) -> Sequence[str]:
        self._ask()
        self.asked.append(selection)
        if job_id == "17":
            raise UsageError("job 17 has no log: it has not started", "`gpucluster why 17` says why")
        rank = selection.rank if selection.rank is not None else 0
        lines = [
            f"[{rank} train-1] step {step} loss {7 / (1 + step / 40):.4f} \x1b[32m812 images/s\x1b[0m"
            for step in range(self.calls, self.calls + 400)
        ]
        lines += [
            f"[{rank} train-1] {HOSTILE}",
            f"[{rank} train-1]  10%|#    |\r[{rank} train-1] 100%|#####|",
            "[1 train-1] " + "x" * 10_000,
        ]
        return [line for line in lines if (selection.grep or "") in line][-(selection.tail or 300) :]

    def metrics(self, job_id: str) -> Mapping[str, Sequence[Point]]:
        self._ask()
        start = self.now_s - 8130
        steps = range(0, 900 + self.calls % 100)
        values = {
            "loss": lambda step: 7 / (1 + step / 90),
            "images/s": lambda step: 25_000 + 90 * math.sin(step / 9) - (9000 if 400 < step < 430 else 0),
            HOSTILE: lambda step: math.nan if step % 7 else 1.0,
        }
        return {name: [Point(start + 9 * step, step, value(step)) for step in steps] for name, value in values.items()}

    def series(
        self, job_id: str, nodes: Sequence[str], start_s: float, end_s: float, names: Sequence[str], step_s: float
    ) -> Sequence[Series]:
        self._ask()
        if self.without_samples:
            raise Unavailable("this cluster has no samples: `monitoring.prometheus` is off")
        times = [start_s + step_s * at for at in range(int((end_s - start_s) / step_s) + 1)]
        units = {
            "gpu_util_percent": ("%", 90.0),
            "gpu_power_w": ("W", 340.0),
            "gpu_memory_gib": ("GiB", 31.0),
            "cpu_percent": ("%", 40.0),
            "network_gib_s": ("GiB/s", 2.1),
            "efa_gib_s": ("GiB/s", 30.0),
        }
        found = []
        for name in names:
            unit, mean = units[name]
            for node in nodes:
                for gpu in range(self.gpus) if name.startswith("gpu") else (None,):
                    chance = random.Random(f"{name} {node} {gpu}")
                    points = tuple(
                        (at, max(0.0, min(100.0 if unit == "%" else 1e9, chance.gauss(mean, mean / 20))))
                        for at in times
                    )
                    found.append(Series(node, gpu, name, unit, points))
        return found

    def why(self, job_id: str) -> Explanation:
        self._ask()
        if job_id == HANGS:
            said = (
                "rank 3 on train-33 has not joined all_reduce 8121, for which 175 ranks wait",
                "its stack ends in read() of /fsx/imagenet/part-0091.tar",
            )
            return Explanation(
                job_id,
                "hung",
                f"job {job_id} hangs for 12 minutes",
                said,
                ("look at rank 3: `gpucluster logs 4999 --rank 3 --tail 50`",),
                ("one-rank",),
            )
        if job_id in (RUNNING, SWEEP):
            said = ("its 32 nodes are on one switch of EC2's network", "its ranks wait for data 3 % of their time")
            return Explanation(job_id, "running", f"job {job_id} runs", said, (), ())
        return Explanation(job_id, "dead", f"job {job_id} failed: {HOSTILE}", (HOSTILE,), (), ())

    def timeline(self, job_id: str) -> Sequence[Span]:
        self._ask()
        at, spans = self.now_s - 8700, []
        for name, took, words in (
            ("waiting", 40, "its nodes were off"),
            ("launching", 95, "32 nodes"),
            ("booting", 190, ""),
            ("prolog", 8, ""),
            ("environment", 35, "restored"),
            ("preflight", 62, "all-reduce 371 GB/s"),
        ):
            spans.append(Span(name, at, at + took, words))
            at += took
        ended = next((row.ended_s for row in self._rows if row.job_id == job_id), None)
        return [*spans, Span("running", at, ended and max(at + 60, ended), "")]

    def elements(self, job_id: str) -> Sequence[Element]:
        self._ask()
        found = []
        for index in range(12):
            lr, batch = (0.01, 0.03, 0.1, 0.3)[index % 4], (64, 128, 256)[index // 4]
            metrics = (
                {"accuracy": {"last": 0.7 + 0.06 * math.sin(index)}, "loss": {"last": 1.2 - 0.05 * index}}
                if index != 5
                else {}
            )
            state = "failed" if index == 5 else "completed"
            found.append(
                Element(
                    index,
                    f"{job_id}_{index}",
                    {"lr": str(lr), "batch": str(batch), "optimizer": ("sgd", "adam")[index % 2]},
                    state,
                    {"metrics": metrics, "exit_code": int(index == 5), "reason": HOSTILE if index == 5 else None},
                )
            )
        return found

    def script(self, job_id: str) -> Script:
        self._ask()
        return Script(
            f"#!/bin/bash\n#SBATCH --job-name={HOSTILE}\n", "name: resnet50\n", ("train.py", "data/<b>.py", "a?b#c.py")
        )

    def code(self, job_id: str, path: str) -> str:
        self._ask()
        return f"# {path}\nprint('{HOSTILE}')\n"

    def results(self, job_ids: Sequence[str]) -> Mapping[str, Mapping[str, Any]]:
        self._ask()
        found = {}
        for job_id in set(job_ids) & set(BENCH):
            nodes = 2 ** ((int(job_id) - 4900) // 2)
            speed = 2900 * nodes * self.gpus / 8 * (0.97 if int(job_id) % 2 else 0.93) ** math.log2(nodes)
            found[job_id] = {
                "exit_code": 0,
                "world_size": nodes * self.gpus,
                "metrics": {"throughput": {"last": speed, "median": speed}},
                "started_at": "2026-11-28T10:00:00Z",
                "ended_at": "2026-11-28T10:10:00Z",
            }
        return found

    def costs(self, since_s: float, until_s: float) -> Account:
        self._ask()
        return Account(
            tuple(self._charges(since_s, until_s)),
            since_s,
            until_s,
            None,
            ("nodes are recorded since 2026-11-20 10:00 UTC: before that, only the time in which jobs ran is counted",),
        )

    def _charges(self, since_s: float, until_s: float) -> list[charges.Charge]:
        found = []
        for row in self._rows[:400]:
            if row.started_s is None or row.started_s < since_s:
                continue
            end = row.ended_s or until_s
            nodes = tuple(f"train-{number}" for number in range(1, row.nodes + 1))
            run = Run(
                job_id=row.job_id,
                user=row.user,
                partition="train",
                state=row.state,
                submitted=row.started_s,
                eligible=None,
                started=row.started_s,
                ended=row.ended_s,
                nodes=nodes,
                cpus=96 * row.nodes,
                gpus=8 * row.nodes,
                name=row.name,
                waits_percent=float(int(row.job_id) % 5),
            )
            usd = row.nodes * (end - row.started_s) / 3600 * 32.77
            found.append(
                charges.Charge(
                    run, "used", "train-1", "p4d.24xlarge", "on-demand", row.started_s, end, float(row.nodes), usd
                )
            )
            found.append(charges.Charge(run, "tail", "train-1", "p4d.24xlarge", "on-demand", end, end + 600, 1.0, 5.46))
        return found

    def storage(self) -> Sequence[Mount]:
        self._ask()
        return [
            Mount("/home", "head-nfs", True, 200 * GIB, 188 * GIB, 13_000_000, 12_000_000),
            Mount("/fsx", "fsx-lustre", True, 4800 * GIB, 310 * GIB),
            Mount("/efs", "efs", True, 2**63, 2**63 - 40 * GIB),
            Mount("/scratch", "fsx-lustre", False, why_not="no Lustre client for its kernel"),
        ]

    def cancel(self, job_id: str) -> None:
        self._ask()
        self.cancelled.append(job_id)
