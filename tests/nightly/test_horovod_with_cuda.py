"""Horovod compiled with CUDA by the project's own steps, for each environment that has it; two ranks on CPUs run it.

Real are the builds for CUDA of torch 2.13 (CUDA 13), torch 2.7.1 (CUDA 12.6) and TensorFlow 2.15.1 (CUDA 12.2), g++,
nvcc 13.0 and 12.4, Open MPI and the library of NCCL. There is no GPU: no kernel runs, and NCCL reduces nothing."""

from __future__ import annotations

import json
import shutil
import subprocess
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path

import pytest

from tests import cuda_toolkit, real_environments
from tests.real_environments import ROOT, Environment, Machine

SUBJECTS = [
    "bootstrap/environments/horovod.txt",
    "bootstrap/environments/horovod-volta.txt",
    "bootstrap/environments/tensorflow.txt",
    "bootstrap/environments/verify.py",
    "bootstrap/environments/cxx17",
    "bootstrap/environments/environment.sh",
    "bootstrap/environments/horovod_wheel.sh",
    "bootstrap/environments/interpreter.sh",
    "tests/cuda_toolkit.py",
    "tests/real_environments.py",
]
COVERED_BY = (
    "test_horovod_steps.py, test_environment_steps.py: the build's settings; make boot compiles Horovod for CPUs"
)

FRAMEWORKS = {"horovod": "PyTorch", "horovod-volta": "PyTorch", "tensorflow": "TensorFlow"}
PROGRAMS = {"PyTorch": "horovod_gradients.py", "TensorFlow": "horovod_gradients_tensorflow.py"}
SECONDS = 3600
each = pytest.mark.parametrize("name", FRAMEWORKS)
pytestmark = pytest.mark.timeout(SECONDS)


@pytest.fixture(scope="module")
def machine(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Machine]:
    folder = tmp_path_factory.mktemp("machine")
    cuda_toolkit.make_13(folder)
    cuda_toolkit.make_12(folder)
    with real_environments.machine(folder, folder) as made:
        yield made


@pytest.fixture(scope="module")
def environments(machine: Machine, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callable[[str], Environment]]:
    folder = tmp_path_factory.mktemp("environments")
    yield cache(lambda name: machine.make(name, folder / name))
    shutil.rmtree(folder)  # gigabytes


@pytest.fixture
def environment(environments: Callable[[str], Environment], name: str) -> Environment:
    return environments(name)


@each
def test_it_is_good_without_a_gpu(environment: Environment) -> None:
    """It imports, with the loader's own search: nothing leads it to NCCL but where it was told to look."""
    assert "built without NCCL" not in environment.log
    done = environment.verify()
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.splitlines()[-1].endswith("horovod: gloo, mpi, nccl")


@each
def test_it_lists_nccl_mpi_and_gloo(environment: Environment, name: str) -> None:
    """horovodrun --check-build, whose lines of a real build are in https://horovod.readthedocs.io/en/stable/install.html."""
    done = environment.run("horovodrun", "--check-build")
    assert done.returncode == 0, done.stderr
    print(done.stdout)
    built = {line.strip()[4:] for line in done.stdout.splitlines() if line.strip().startswith("[X]")}
    # PyTorch is marked in every environment: horovod/torch/__init__.py of 0.28.1 catches that its library is missing.
    assert built - {"PyTorch"} == {FRAMEWORKS[name], "MPI", "Gloo", "NCCL"} - {"PyTorch"}
    assert "PyTorch" in built


@each
def test_libraries_are_looked_for_where_they_stay(environment: Environment) -> None:
    """A folder below /tmp that is gone is one that another user can make."""
    libraries = list((environment.folder / "lib/python3.11/site-packages/horovod").rglob("mpi_lib*.so"))
    assert libraries
    for library in libraries:
        listed = subprocess.run(["readelf", "-d", library], capture_output=True, text=True, check=True).stdout
        (path,) = (line.partition("[")[2].rstrip("]") for line in listed.splitlines() if "RUNPATH" in line)
        assert str(environment.folder / "lib/python3.11/site-packages/nvidia/nccl/lib") in path.split(":")
        assert [part for part in path.split(":") if not Path(part).is_dir()] == []
        assert "libnccl.so.2" in listed
        assert b"HorovodOps" in library.read_bytes(), "NVTX, which CUDA's toolkit has, is not compiled in"


@each
@pytest.mark.parametrize("controller", ["--gloo", "--mpi"])
def test_two_ranks_reduce_on_cpus(environment: Environment, name: str, controller: str) -> None:
    program = ROOT / "tests/cluster/programs" / PROGRAMS[FRAMEWORKS[name]]
    over = ["--mpi-args=--oversubscribe"] if controller == "--mpi" else []
    argv = ["horovodrun", "-np", "2", controller, *over, "-H", "localhost:2", "python", str(program)]
    done = environment.run(*argv)
    assert done.returncode == 0, done.stdout + done.stderr
    said = [json.loads(line[line.index("{") :]) for line in done.stdout.splitlines() if '"weights"' in line]
    assert said == [{"weights": [-9.0] * 5, "size": 2, "mpi": controller == "--mpi"}] * 2
