"""The script of an mpirun job with this machine's Open MPI, of any version, and stand-ins for Slurm's commands."""

from __future__ import annotations

import shutil
import subprocess
import tempfile

import pytest
from stubbed_jobs import alive, finished, prepare, wait_for

HERE = """#!/usr/bin/env bash
[ "$2" = train-1 ] && echo "$ADDRESS STREAM" || echo "10.255.255.2 STREAM"
"""
INTERFACES = """#!/usr/bin/env bash
case "$*" in
  *10.255.255.2*) echo "2: ens5    inet 10.255.255.2/24" ;;
  *) PATH=${PATH#*:} exec ip "$@" ;;
esac
"""


@pytest.fixture
def short_folder():
    """A short path, because Open MPI's sockets are below it and the length of their names is limited."""
    with tempfile.TemporaryDirectory(prefix="ompi") as folder:
        yield folder


def _give_each_node_a_tmp(srun, folder):
    """Two nodes that are one machine would share the daemons' folder, and one daemon removes what the other reads."""
    text = srun.read_text()
    assert text.count("SLURMD_NODENAME=") == 1, text
    srun.write_text(text.replace("SLURMD_NODENAME=", f"TMPDIR=$(mktemp -d -p {folder}) SLURMD_NODENAME="))


@pytest.fixture
def run_for_real(tmp_path, short_folder):
    if not shutil.which("mpirun"):
        pytest.skip("no mpirun on this machine: apt-get install openmpi-bin")

    def run(*command: str, **keys):
        job = prepare(tmp_path, {}, {"launcher": "mpirun", "command": command} | keys)
        (tmp_path / "stubs" / "mpirun").unlink()
        _give_each_node_a_tmp(tmp_path / "stubs" / "srun", short_folder)
        (tmp_path / "stubs" / "getent").write_text(HERE)
        (tmp_path / "stubs" / "ip").write_text(INTERFACES)
        answer = subprocess.run(["hostname", "-I"], capture_output=True, text=True, check=True)
        # Open MPI could mistake these for an allocation
        slurm = {"SLURM_NODELIST": "train-[1-2]", "SLURM_JOBID": "77", "SLURM_TASKS_PER_NODE": "1(x2)"}
        root = {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}
        job["env"] |= {**slurm, **root, "ADDRESS": answer.stdout.split()[0]}
        process = subprocess.run(**job, timeout=60, check=False)
        return finished(process.returncode, tmp_path / "job")

    return run


def test_every_rank_gets_its_rank_and_the_environment(run_for_real, tmp_path):
    program = 'echo "$RANK $LOCAL_RANK $WORLD_SIZE $NODE_RANK"; printf "%s" "$ODD" >"$OUT/odd$RANK"'
    odd = 'it\'s "$PATH" `id` \\ \n two * ünï'
    code, _, log, _ = run_for_real("bash", "-c", program, env={"ODD": odd})
    assert code == 0, log
    assert sorted(log.splitlines()) == [
        "[0 train-1] 0 0 4 0", "[1 train-1] 1 1 4 0", "[2 train-2] 2 0 4 1", "[3 train-2] 3 1 4 1",
    ]  # fmt: skip
    assert [(tmp_path / f"odd{rank}").read_text() for rank in range(4)] == [odd] * 4


def test_a_rank_that_fails_ends_the_others(run_for_real, tmp_path):
    program = 'echo $$ >"$OUT/pid$RANK"; if [ "$RANK" = 2 ]; then echo why; exit 3; fi; exec sleep 60'
    code, result, log, _ = run_for_real("bash", "-c", program)
    assert (code, result["failed_rank"], result["failed_node"], result["reason"]) == (3, 2, "train-2", "why"), log
    for path in tmp_path.glob("pid*"):
        wait_for(lambda path=path: not alive(path.read_text().strip()))
