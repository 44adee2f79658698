"""gpucluster_train in a job: every rank can import it and gets its rank from it."""

from __future__ import annotations

import pytest

PROGRAM = """
import gpucluster_train
me = gpucluster_train.world()
print("I am", me.rank, me.size, me.local_rank, me.launcher, gpucluster_train.__file__)
"""


@pytest.mark.parametrize("launcher", ["torchrun", "horovodrun", "srun"])
@pytest.mark.parametrize("env", [{}, {"PYTHONPATH": "/mine"}])
def test_every_rank_can_import_gpucluster_train(run_job, launcher, env):
    code, _, log, folder = run_job(launcher=launcher, env=env, command=("python", "-c", PROGRAM))
    assert code == 0, log
    printed = sorted(line.partition("I am ")[2] for line in log.splitlines() if "I am " in line)
    library = folder / "lib" / "gpucluster_train" / "__init__.py"
    assert printed == [f"{rank} 4 {rank % 2} {launcher} {library}" for rank in range(4)]
