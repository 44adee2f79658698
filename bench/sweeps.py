"""A sweep of 500 elements beside one job: packed here, and unpacked as on the head node, where one sbatch follows."""

from __future__ import annotations

import resource
import subprocess
import tempfile
from pathlib import Path

from bench.figures import Figure
from bench.measure import Measurement, medians
from gpucluster import config
from gpucluster.job import SbatchRequest, load
from gpucluster.layout import Layout, expand
from gpucluster.submission.submit import pack

ROOT = Path(__file__).parents[1]
ELEMENTS = 500
GOAL = ELEMENTS / 10


def figures(runs: int) -> list[Figure]:
    layout = expand(config.load(ROOT / "cluster.yaml"))
    times = medians({"sweep": _ms(layout, {"seed": f"1..{ELEMENTS}"}), "job": _ms(layout, {})}, runs)
    return [
        Figure(
            name=f"sweep of {ELEMENTS}, packed and unpacked",
            unit="ms",
            value=times["sweep"],
            floor=times["job"],
            floor_name="one job",
            goal=GOAL,
            goal_text="a tenth of 500 jobs",
        )
    ]


def _ms(layout: Layout, sweep: dict[str, str]) -> Measurement:
    """CPU time of this process and of tar."""
    flags = {"command": ["python", "train.py"], "sweep": sweep}

    def measure() -> float:
        began = _cpu_s()
        request = SbatchRequest.from_spec(load(layout, None, flags), layout, "/home/ubuntu/jobs/train")
        with tempfile.TemporaryDirectory() as folder:
            unpack = ["tar", "--extract", "--gzip", "--file=-", "--directory", folder]
            subprocess.run(unpack, input=pack(request, {}, None), check=True)
            return (_cpu_s() - began) * 1000

    return measure


def _cpu_s() -> float:
    used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(each.ru_utime + each.ru_stime for each in used)
