"""Environments on the session's cluster: Slurm jobs made each of them once."""

from __future__ import annotations

import json

import pytest
from bed import Bed, wait_for


@pytest.fixture(scope="session")
def cluster(changing: Bed) -> Bed:
    """A separate cluster, not the one that most tests share."""
    return changing


def listed(cluster: Bed) -> dict[str, dict[str, str]]:
    done = cluster.gpucluster("env", "list", "--json")
    assert done.returncode == 0, done.stderr
    return {each["name"]: each for each in json.loads(done.stdout)["environments"]}


def test_an_environment_is_built_once_and_has_the_packages_of_its_lock(cluster: Bed) -> None:
    built = cluster.gpucluster("env", "build", "torch", timeout_s=300)
    assert built.returncode == 0, built.stderr
    assert json.loads(built.stdout.splitlines()[-1]) == {"environments": {"torch": "ready"}}
    wait_for("the end of its job", lambda: not listed(cluster)["torch"]["job"], 60)
    torch = listed(cluster)["torch"]
    assert (torch["state"], torch["partition"]) == ("ready", "train")
    again = cluster.gpucluster("env", "build", "torch")
    assert again.returncode == 0 and "job" not in again.stderr  # nothing to wait for
    checked = cluster.gpucluster("env", "verify", "torch", timeout_s=300)
    assert checked.returncode == 0, checked.stderr + checked.stdout
    assert checked.stdout.startswith("torch: ok: torch==")


def test_jobs_users_cannot_change_an_environment(cluster: Bed) -> None:
    """Root owns it, so that one user's job cannot change another's."""
    assert cluster.gpucluster("env", "build", "torch", timeout_s=300).returncode == 0
    python = listed(cluster)["torch"]["folder"]
    assert cluster.ssh("stat", "--format=%U", python).strip() == "root"
    refused = cluster.gpucluster("ssh", "--", "touch", f"{python}/mine")
    assert refused.returncode != 0 and "Permission denied" in refused.stderr + refused.stdout


def test_a_missing_environment_is_refused(cluster: Bed) -> None:
    done = cluster.gpucluster("env", "build", "jax")
    assert done.returncode == 2
    assert "no environment 'jax' in this cluster" in done.stderr and "there are: horovod, torch" in done.stderr


TRAINED = """
import os, sys, torch
net = torch.nn.Linear(2, 1)
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
net(torch.ones(2)).sum().backward()
optimizer.step()
places = [getattr(each, "__cached__", None) for each in list(sys.modules.values())]
ends = (sys.prefix, sys.base_prefix)  # the interpreter lies in the environment too
ours = [place for place in places if isinstance(place, str) and place.startswith(ends)]
print("modules", len(ours), "compiled here", sum(not os.path.exists(place) for place in ours))
"""


def test_the_environment_of_ranks_is_already_compiled(cluster: Bed) -> None:
    """Ranks may not write there, so they would compile missing files again at every start."""
    job = cluster.submit("--nodes", "1", "--launcher", "srun", "--ntasks-per-node", "1", "--gpus-per-node", "1",
                         "--follow", "--", "python", "-c", TRAINED, timeout_s=300)  # fmt: skip
    assert job.exit_code == 0, job.told
    (words,) = [line.split() for line in job.log if "] modules " in line]
    modules, compiled = int(words[-4]), int(words[-1])
    assert modules > 1000 and compiled < 20
