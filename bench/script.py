"""A job's script, rendered in this process by the code that `submit` runs."""

from __future__ import annotations

import shlex
import time
from collections.abc import Callable
from pathlib import Path

from jinja2 import Environment, StrictUndefined

from bench.figures import Figure
from bench.measure import Measurement, medians
from gpucluster import config
from gpucluster.job import SbatchRequest, load
from gpucluster.layout import expand

ROOT = Path(__file__).parents[1]
RENDERS = 500
JOB = {"nodes": 2, "env": {"NCCL_DEBUG": "INFO"}, "launcher": "horovodrun", "command": ["python", "train.py"]}
PLAIN = """\
#!/usr/bin/env bash
#SBATCH --job-name={{ name }}
#SBATCH --nodes={{ nodes }}
{% for variable, value in env.items() %}
export {{ variable }}={{ value | sh }}
{% endfor %}
{{ command }}
"""
GOAL_US = 40.0
PEER_FLOOR_US = 11.0
"""PLAIN's like, where the goal and the figures of the peers come from: submitit took 58 there and torchx 220."""
PEER_US = 58.0


def figures(runs: int) -> list[Figure]:
    layout = expand(config.load(ROOT / "cluster.yaml"))
    request = SbatchRequest.from_spec(load(layout, None, JOB), layout, "/home/ubuntu/jobs/train")
    times = medians(
        {"ours": _each_us(request.materialize), "jinja": _each_us(_plain()), "f-string": _each_us(_f_string)}, runs
    )
    shared = {"name": "one script", "unit": "us", "value": times["ours"]}
    return [
        Figure(
            **shared,  # type: ignore[arg-type]
            floor=times["jinja"],
            floor_name="plain template",
            goal=GOAL_US / PEER_FLOOR_US,
            goal_text=f"{GOAL_US:g} us where the floor is {PEER_FLOOR_US:g}",
            peer=PEER_US / PEER_FLOOR_US,
            peer_name="submitit, published",
        ),
        Figure(**shared, floor=times["f-string"], floor_name="an f-string"),  # type: ignore[arg-type]
    ]


def _each_us(render: Callable[[], str]) -> Measurement:
    def measure() -> float:
        began = time.process_time_ns()
        for _ in range(RENDERS):
            render()
        return (time.process_time_ns() - began) / 1000 / RENDERS

    return measure


def _plain() -> Callable[[], str]:
    """A minimal template: compiled before, a few values, one of them quoted."""
    environment = Environment(undefined=StrictUndefined, trim_blocks=True)
    environment.filters["sh"] = shlex.quote
    template = environment.from_string(PLAIN)
    return lambda: template.render(name="train", nodes=2, env=JOB["env"], command="python train.py")


def _f_string() -> str:
    name, nodes, value = "train", 2, "INFO"
    return (
        f"#!/usr/bin/env bash\n#SBATCH --job-name={name}\n#SBATCH --nodes={nodes}\n"
        f"export NCCL_DEBUG={shlex.quote(value)}\npython train.py\n"
    )
