"""A sweep of 500 elements: `gpucluster submit` as a process, beside one job, plain `sbatch --array`, and submitit.

All call the same stand-in for sbatch. Ours connects by SSH to this process, which unpacks the upload and calls it here;
the other two run where sbatch is.
"""

from __future__ import annotations

import os
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path

from bench.figures import Figure
from bench.listing import CREDENTIALS
from bench.measure import Measurement, cpu_ms, medians

ROOT = Path(__file__).parents[1]
ELEMENTS = 500
GOAL_OF_ONE = ELEMENTS / 10
SUBMITIT = "SUBMITIT"
"""The environment variable with the Python of an environment that has submitit."""
# sbatch(1): with --parsable only the number.
SBATCH = """\
#!/bin/sh
case "$1" in
  --parsable) echo 1 ;;
  *) echo "Submitted batch job 1" ;;
esac
"""
MAP_ARRAY = f"""
import sys, submitit

def train(seed):
    print(seed)

executor = submitit.SlurmExecutor(folder=sys.argv[1])
executor.update_parameters(time=60)
jobs = executor.map_array(train, range(1, {ELEMENTS + 1}))
assert len(jobs) == {ELEMENTS}
"""


def figures(runs: int) -> list[Figure]:
    sys.path.insert(0, str(ROOT / "tests/unit/cluster"))
    from ssh_head import running_head  # type: ignore[import-not-found]

    with tempfile.TemporaryDirectory() as name, running_head() as head:
        head.takes = lambda key: True
        folder = Path(name)
        _programs(folder)
        os.environ["PATH"] = f"{folder / 'bin'}:{os.environ['PATH']}"
        door = (head.tunnel_url(), " ".join(head.published.split()[:2]))
        ours = [sys.executable, "-m", "bench.answered", *door, str(folder / "jobs"), "submit"]
        words = ["-c", str(ROOT / "cluster.yaml"), "--python", "/plain", "--workdir", str(folder / "work")]
        program = ["--", "python", "train.py"]
        measured: dict[str, Measurement] = {
            "sbatch": lambda: cpu_ms(["sbatch", f"--array=1-{ELEMENTS}", str(folder / "work" / "train.py")]),
            "one": lambda: cpu_ms([*ours, *words, *program], CREDENTIALS),
            "sweep": lambda: cpu_ms([*ours, *words, "--sweep", f"seed=1..{ELEMENTS}", *program], CREDENTIALS),
        }
        if python := os.environ.get(SUBMITIT):
            measured["submitit"] = lambda: cpu_ms([python, "-c", MAP_ARRAY, str(folder / "submitit")])
        return list(_figures(medians(measured, runs)))


def _figures(times: Mapping[str, float]) -> list[Figure]:
    submitit = times.get("submitit")
    floors = {
        "one": ("one job", GOAL_OF_ONE, "a tenth of 500 jobs"),
        "sbatch": ("sbatch --array, a stand-in", None, ""),
    }
    return [
        Figure(
            name=f"submit of a sweep of {ELEMENTS}",
            unit="ms",
            value=times["sweep"],
            floor=times[key],
            floor_name=name,
            goal=goal,
            goal_text=text,
            peer=submitit / times[key] if submitit else None,
            peer_name="submitit map_array, this run",
        )
        for key, (name, goal, text) in floors.items()
    ]


def _programs(folder: Path) -> None:
    (folder / "bin").mkdir()
    for name, text in {"sbatch": SBATCH, "srun": "#!/bin/sh\n"}.items():  # submitit looks for srun
        (folder / "bin" / name).write_text(text)
        (folder / "bin" / name).chmod(0o755)
    (folder / "work").mkdir()
    (folder / "work" / "train.py").write_text("print()\n")
