"""The settings of a benchmark, as jobs: launchers, sizes and variants of one command. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from typing import Any

from gpucluster.errors import UsageError
from gpucluster.job.spec import JobSpec

SEED = "GPUCLUSTER_SEED"
"""The variable with the seed; `{seed}` in the command is replaced by it too."""
FEED = "GPUCLUSTER_FEED"
"""The variable that makes gpucluster_train.feed measure a part of the training, and then end the program:
gpucluster_train/feed_trial.py."""
FEED_TIME = "0:30:00"
"""The time limit of such a run unless the job has one: a program without a Feed would train to its end."""
PARTS = {"resident": "training alone", "loader": "loader alone", "real": "both"}
"""The variable's values."""


@dataclass(frozen=True)
class Variant:
    """Settings by name. A name in capitals is a variable of the ranks, any other an option of the command."""

    name: str
    options: tuple[str, ...] = ()
    env: tuple[tuple[str, str], ...] = ()


PLAIN = Variant("")
TARGETS = ("slurm", "sagemaker")


@dataclass(frozen=True)
class Setting:
    launcher: str
    variant: Variant
    nodes: int
    part: str = ""
    """With `bench --feed`: what it measures, one of PARTS."""
    target: str = ""
    """One of TARGETS; empty if only the cluster is one."""

    @property
    def way(self) -> str:
        """Target, launcher and variant: what stays the same when the size changes."""
        return f"{self.target} {self.launcher} {self.variant.name}".strip()

    def __str__(self) -> str:
        measured = f", {PARTS[self.part]}" if self.part else ""
        return f"{self.way} on {self.nodes} node{'s' * (self.nodes > 1)}{measured}"


def variant(text: str) -> Variant:
    """`amp=on,NCCL_ALGO=Ring`: `--amp on` after the command, and a variable. `amp=` is `--amp` alone.

    Raises UsageError.
    """
    options, env = list[str](), dict[str, str]()
    for pair in text.split(","):
        name, equals, value = pair.partition("=")
        if not equals or not name.replace("-", "").replace("_", "").isalnum():
            hint = "write amp=on for an option, NCCL_ALGO=Ring for a variable, and --variant again for another value"
            raise UsageError(f"--variant {text}: must be NAME=VALUE[,NAME=VALUE…], got {pair!r}", hint)
        if name == name.upper():
            env[name] = value
        else:
            options += [f"--{name}", value] if value else [f"--{name}"]
    return Variant(text, tuple(options), tuple(env.items()))


def settings(
    launchers: Sequence[str],
    variants: Sequence[Variant],
    nodes: Sequence[int],
    parts: Sequence[str] = ("",),
    targets: Sequence[str] = ("",),
) -> list[Setting]:
    """The plain command goes first; targets change fastest, then parts, then sizes."""
    return [Setting(*each) for each in product(launchers, (PLAIN, *variants), sorted(nodes), parts, targets)]


def flags(given: Mapping[str, Any], setting: Setting) -> dict[str, Any]:
    """The job's flags for `submit`. A run that loses a node does not count, so it is not requeued."""
    env = {**given.get("env", {}), **dict(setting.variant.env)}
    own = {"launcher": setting.launcher, "nodes": setting.nodes, "requeue": False}
    return {**given, **own, **({"env": env} if env else {})}


def as_run(spec: JobSpec, setting: Setting, seed: int) -> JobSpec:
    """The completed spec with the variant and the seed."""
    name = f"{(spec.name or 'bench')[:40]}-{setting.launcher}-{setting.nodes}"
    command = tuple(word.replace("{seed}", str(seed)) for word in (*spec.command, *setting.variant.options))
    env = {SEED: str(seed), **({FEED: setting.part} if setting.part else {}), **spec.env}
    limit = {"time": spec.time or FEED_TIME} if setting.part else {}
    return spec.model_copy(update={"name": name, "command": command, "env": env, **limit})


def order(planned: Sequence[Setting], repeats: int) -> Iterator[Setting]:
    """The order of the runs: round by round, so that changes over time affect all settings equally."""
    return (setting for _ in range(repeats) for setting in planned)
