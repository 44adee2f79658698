"""Synthesis of the default cluster against that of an empty CDK app, as processes, CDK's engine among them.

And against an app whose only resource is a VPC: the difference between these two floors is what loading the libraries
of EC2 costs, in Python and in Node.js, before anything of ours runs.
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

from bench.figures import Figure
from bench.measure import Measurement, cpu_ms, medians

GOAL = 1.3
OF_VPC = 1.6


def figures(runs: int) -> list[Figure]:
    with tempfile.TemporaryDirectory() as folder:
        apps = {"cluster": ["app.py"], "empty": ["-m", "bench.empty_app"], "vpc": ["-m", "bench.vpc_app"]}
        outputs = {name: Path(folder, name) for name in apps}
        times = medians({name: synthesis(program, outputs[name]) for name, program in apps.items()}, runs)
    figure = {"name": "synth of cluster.yaml", "unit": "ms", "value": times["cluster"]}
    return [
        Figure(
            **figure,  # type: ignore[arg-type]
            floor=times["empty"],
            floor_name="an empty CDK app",
            goal=GOAL,
            goal_text="the empty app and 30 %",
        ),
        Figure(
            **figure,  # type: ignore[arg-type]
            floor=times["vpc"],
            floor_name="a CDK app with a VPC",
            goal=OF_VPC,
            goal_text="the app with a VPC and 60 %",
        ),
    ]


def synthesis(program: list[str], output: Path, config: str = "cluster.yaml") -> Measurement:
    # CDK's validator of templates would add the same seconds to all.
    environment = {"CDK_OUTDIR": str(output), "CDK_VALIDATION": "false", "GPUCLUSTER_CONFIG": config}
    return lambda: cpu_ms([sys.executable, *program], environment)
