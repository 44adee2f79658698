"""What limits a training: the speeds of `bench --feed`, and what they mean. Pure.

It compares them as DS-Analyzer does: Mohan et al., "Analyzing and Mitigating Data Stalls in DNN Training", VLDB 2021.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import Any

from gpucluster.measure.runs import Run
from gpucluster.measure.settings import PARTS, Setting

NEAR = 0.95
"""A speed of at least this part of another is the same."""
RESIDENT, LOADER, REAL = PARTS

REMEDIES = {
    "training": "its data comes in time: no other loader would make it faster",
    "storage": "copy the channel to the nodes' own disks (mode: copy), or raise the storage's throughput",
    "loader": "decode on the GPUs, start more workers ($SLURM_CPUS_PER_TASK says how many CPUs a rank has), or store "
    "smaller pictures (`gpucluster data shard --resize`)",
    "both": "each is fast enough alone: give the loader fewer workers or less to do on the CPUs, and copy batches to "
    "the GPU in the background (pinned memory)",
    "": "no limit is known",
}
_LIMITS = {
    "training": "the training limits",
    "storage": "the storage limits until the nodes have the files in memory",
    "loader": "the loader limits",
    "both": "training and loader slow each other",
    "": "a figure is missing",
}


@dataclass(frozen=True)
class Speeds:
    """Samples per second of all ranks; None if no run measured it."""

    setting: Setting
    """Without its part."""
    unit: str
    training: float | None
    loader: float | None
    """With what the nodes keep of the files in memory."""
    cold: float | None
    """The loader's with files that no node has read; only known for a job with channels."""
    together: float | None

    @property
    def limit(self) -> str:
        """A key of REMEDIES."""
        training, loader, together = self.training, self.loader, self.together
        if training is None or loader is None or together is None:
            return ""
        if self.cold is not None and self.cold < NEAR * min(training, loader):
            return "storage"
        if together >= NEAR * training:
            return "training"
        return "loader" if loader < training else "both"

    def line(self) -> str:
        cold = "" if self.cold is None else f", {_number(self.cold)} from cold files"
        speeds = f"training alone {_number(self.training)} | loader alone {_number(self.loader)}{cold}"
        found = f"{self.setting}: {speeds} | both {_number(self.together)} {self.unit}/s"
        return f"{found}: {_LIMITS[self.limit]}; {REMEDIES[self.limit]}"

    def as_json(self) -> dict[str, Any]:
        return {
            "launcher": self.setting.launcher, "variant": self.setting.variant.name, "nodes": self.setting.nodes,
            "unit": self.unit, "training_per_s": self.training, "loader_per_s": self.loader,
            "cold_loader_per_s": self.cold, "both_per_s": self.together, "limit": self.limit or None,
        }  # fmt: skip


def _number(speed: float | None) -> str:
    return "not measured" if speed is None else f"{speed:,.0f}" if speed >= 100 else f"{speed:.3g}"


def speeds(runs: Sequence[Run]) -> list[Speeds]:
    groups: dict[Setting, list[Run]] = {}
    for run in runs:
        setting = run.setting
        groups.setdefault(Setting(setting.launcher, setting.variant, setting.nodes), []).append(run)
    return [_speeds(setting, own) for setting, own in groups.items()]


def _speeds(setting: Setting, runs: Sequence[Run]) -> Speeds:
    def mean(part: str, name: str = "per_s") -> float | None:
        found = [run.feed[name] for run in runs if run.setting.part == part and name in run.feed]
        return fmean(found) if found else None

    units = [run.feed["unit"] for run in runs if run.feed]
    unit = units[0] if units else "samples"
    return Speeds(setting, unit, mean(RESIDENT), mean(LOADER), mean(LOADER, "cold_per_s"), mean(REAL))


def doubts(runs: Sequence[Run]) -> Iterator[str]:
    for run in runs:
        if run.failed:
            yield f"{run.setting}: {run.ending.sentence(run.job_id)}"
        elif not run.feed:
            wrap = "wrap its loader: `for batch in gpucluster_train.feed.Feed(loader)`"
            yield f"{run.setting}: job {run.job_id} ended before it had passed enough batches, or has no Feed; {wrap}"
