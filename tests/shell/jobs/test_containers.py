"""Jobs with a container_image: pyxis's options of srun start every rank inside, with every launcher."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest
from stubbed_jobs import HERE, PROBE, finished, prepare

from gpucluster_job import network

IMAGE = {"container_image": "nvcr.io/nvidia/pytorch:25.01-py3", "container_mounts": ("/fsx:/fsx:ro",)}
# Extends the other stand-in: processes started with pyxis's options have a mark, and no `ip`.
PYXIS = r"""#!/usr/bin/env bash
for word; do
  case $word in
    --container-name=*) export INSIDE=${word#*=} ;;
    --container-image=*) [ ! -e "$STUBS/no-image" ] || { cat "$STUBS/no-image" >&2; exit 1; } ;;
    --*) ;;
    *) break ;;
  esac
done
case " $* " in *"gpucluster_job probe "* | *" bash -c "*) OUTSIDE=1 ;; esac
[ -n "${INSIDE:-${OUTSIDE:-}}" ] || { echo "not inside: $*" >&2; exit 9; }
exec "$STUBS/plain-srun" "$@"
"""


@pytest.fixture
def run(tmp_path):
    def start(no_image=None, python3=None, world=None, task=None, **keys):
        job = prepare(tmp_path, {}, {"command": ("python", "-c", PROBE)} | IMAGE | keys)
        stubs = tmp_path / "stubs"
        (stubs / "srun").rename(stubs / "plain-srun")
        (stubs / "srun").write_text(PYXIS)
        (stubs / "srun").chmod(0o755)
        (stubs / "hostname").write_text('#!/usr/bin/env bash\necho "${HOROVOD_HOSTNAME:-train-1}"\n')
        (stubs / "hostname").chmod(0o755)
        if "preflight" in keys:
            (stubs / "getent").write_text(HERE)
        if python3:
            (stubs / "python3").write_text(f"#!/usr/bin/env bash\n{python3.format(python=sys.executable)}")
            (stubs / "python3").chmod(0o755)
        if task:
            (tmp_path / "job" / "task.json").write_text(json.dumps(task))
        if no_image:
            (stubs / "no-image").write_text(no_image)
        script = (tmp_path / "job" / "job.sbatch").read_text()
        if world:
            rewritten = script.replace("WORLD_SIZE=SLURM_NTASKS", f"WORLD_SIZE={world.partition('=')[0]}")
            script = rewritten.replace("set -euo pipefail\n", f"set -euo pipefail\nexport {world}\n")
        # here containers have the machine's environment
        (tmp_path / "job" / "job.sbatch").write_text(
            script.replace("set -euo pipefail\n", f"set -euo pipefail\nPATH={stubs}:$PATH\n")
        )
        process = subprocess.run(**job, timeout=60, check=False)
        calls = stubs / "calls"
        lines = calls.read_text().splitlines() if calls.exists() else []
        return (*finished(process.returncode, tmp_path / "job")[:3], lines)

    return start


@pytest.mark.parametrize("launcher", ["torchrun", "srun", "horovodrun"])
def test_every_rank_runs_in_the_container(run, tmp_path, launcher):
    code, _, log, calls = run(launcher=launcher)
    assert code == 0, log
    for rank in range(4):
        _, environment = json.loads((tmp_path / str(rank)).read_text())
        assert environment["INSIDE"] == "gpucluster-77"
        assert (environment["RANK"], environment["WORLD_SIZE"]) == (str(rank), "4")
    assert "[container] nvcr.io#nvidia/pytorch:25.01-py3 is on 2 nodes (" in log
    first, *others = [call for call in calls if "--container-name" in call]
    assert "--container-image=nvcr.io#nvidia/pytorch:25.01-py3" in first
    assert first.endswith(" true")
    assert others
    assert not [call for call in others if "--container-image" in call]
    folder = tmp_path / "job"
    for call in (first, *others):
        assert f"--container-mounts={folder}:{folder},/fsx:/fsx:ro --container-workdir={folder}/code " in call


@pytest.mark.parametrize("launcher", ["srun", "horovodrun"])
def test_an_image_without_python_runs_its_ranks(run, tmp_path, launcher):
    """The same with a Python that is too old: then a shell script runs inside."""
    none = '[ -n "$INSIDE" ] || exec {python} "$@"\nexit 127\n'
    # Rank 2 fails after all have printed.
    program = (
        f'echo "in $INSIDE"; [ "$RANK" = 2 ] || exec sleep 3; '
        f'until [ "$(grep -c "] in gpucluster-77" {tmp_path}/job/log.txt)" = 4 ]; do sleep 0.1; done; exit 5'
    )
    code, result, log, _ = run(python3=none, launcher=launcher, command=("bash", "-c", program))
    assert (code, result["failed_rank"], result["failed_node"]) == (5, 2, "train-2"), log
    assert result["reason"] == "its last lines are in the log: the image has no python3"
    assert sum("] in gpucluster-77" in line for line in log.splitlines()) == 4


def test_a_rank_in_a_smaller_world_is_refused_without_python_too(run):
    """Otherwise each rank would train alone."""
    none = '[ -n "$INSIDE" ] || exec {python} "$@"\nexit 127\n'
    printed = ("bash", "-c", "echo ran")
    code, result, log, _ = run(
        python3=none, world="TASKS_IT_SEES=1", launcher="srun", command=printed, preflight="quick"
    )
    assert code == 1, log
    assert "this rank got a world size of 1, expected 2 nodes x 2 ranks = 4" in result["reason"]
    assert "] ran" not in log


@pytest.mark.parametrize(
    ("said", "reason"),
    [
        ("srun: unrecognized option '--container-image=x'\n", "the nodes have no pyxis, which a job with"),
        (
            "slurmstepd: error: pyxis: [ERROR] URL https://nvcr.io/v2 returned error code: 401 Unauthorized\n"
            "srun: error: train-2: task 1: Exited with exit code 1\n",
            "the container image nvcr.io#nvidia/pytorch:25.01-py3 could not be started on the nodes: slurmstepd: error:"
            " pyxis: [ERROR] URL https://nvcr.io/v2 returned error code: 401 Unauthorized",
        ),
    ],
)
def test_an_image_that_cannot_be_downloaded_is_reported_as_the_reason(run, tmp_path, said, reason):
    code, result, log, _ = run(no_image=said)
    assert code == 1, log
    assert result["reason"].startswith(reason)
    assert log.splitlines()[-1] == f"error: {result['reason']}"
    assert not (tmp_path / "0").exists()


def test_the_address_finds_its_interface_without_the_program_ip():
    """It uses this machine's routes, like `ip`."""
    shown = subprocess.run(["ip", "-oneline", "-4", "address"], capture_output=True, text=True, check=True).stdout
    pairs = [(line.split()[1], line.split()[3].partition("/")[0]) for line in shown.splitlines()]
    routed = [(name, address) for name, address in pairs if name != "lo" and not line_is_host(shown, address)]
    for name, address in routed:
        assert network.interface_by_route(address) == name
        assert network.interface_of(address) == name


def line_is_host(shown: str, address: str) -> bool:
    return f" {address}/32 " in shown


def test_the_state_of_a_task_is_mounted_into_the_container(run, tmp_path):
    task, folder = {"label": "a/b", "folder": str(tmp_path / "b"), "state": str(tmp_path / "b/state")}, tmp_path / "job"
    code, _, log, calls = run(launcher="srun", task=task)
    assert code == 0, log
    mounts = f"--container-mounts={folder}:{folder},{task['state']}:{task['state']},/fsx:/fsx:ro "
    assert all(mounts in call for call in calls if "--container-name" in call)
    _, environment = json.loads((tmp_path / "0").read_text())
    assert environment["GPUCLUSTER_STATE"] == task["state"]
