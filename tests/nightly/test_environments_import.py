"""Every lock installed for Python 3.11 and imported, builds for CUDA included, on a machine without a GPU.

Those with Horovod for GPUs are compiled and imported by test_horovod_with_cuda.py."""

from __future__ import annotations

import re
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests import real_environments
from tests.real_environments import Machine

SUBJECTS = [
    "bootstrap/environments/*.txt",
    "bootstrap/environments/verify.py",
    "bootstrap/environments/interpreter.sh",
    "bootstrap/environments/environment.sh",
    "tests/real_environments.py",
    "tests/python_mirror.py",
]
COVERED_BY = (
    "environments for CPUs are made and imported on booted nodes, in test_environments.py and test_training.py; "
    "test_environment_steps.py"
)

WITHOUT = {
    "torch": (),
    "torch-volta": (),
    "mxnet": (),
    "mxnet-cpu": (),
    # The cluster tier imports and runs it, with the Horovod that `make setup` compiles.
    "tensorflow-cpu": ("horovod",),
    # Only AWS has this wheel.
    "smddp": ("smdistributed-dataparallel",),
}


@pytest.fixture(scope="module")
def machine(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Machine]:
    folder = tmp_path_factory.mktemp("machine")
    with real_environments.machine(folder, folder / "no-toolkits") as made:
        yield made


@pytest.mark.timeout(1800)
@pytest.mark.parametrize("name", WITHOUT)
def test_a_lock_installs_and_imports(machine: Machine, tmp_path: Path, name: str) -> None:
    environment = machine.make(name, tmp_path / name, without=WITHOUT[name])
    needs_driver = [*(environment.folder / "lib/python3.11/site-packages/mxnet").glob("libmxnet.so")]
    driver = real_environments.stub_driver(tmp_path / "driver", *needs_driver)
    good = environment.verify(driver)
    assert good.returncode == 0, good.stdout + good.stderr
    python = str(environment.folder / "bin/python")
    interpreter = environment.run(python, "-c", "import sys; print(sys.version_info[:2], sys.base_prefix)").stdout
    assert re.match(rf"\(3, 11\) {environment.folder}/interpreter/cpython-3.11", interpreter)
    shutil.rmtree(environment.folder)


@pytest.mark.timeout(1800)
def test_mxnet_for_gpus_has_what_it_is_built_with(machine: Machine, tmp_path: Path) -> None:
    environment = machine.make("mxnet", tmp_path / "mxnet")
    library = environment.folder / "lib/python3.11/site-packages/mxnet/libmxnet.so"
    has = "has = mx.runtime.Features().is_enabled; print([name for name in ('CUDA', 'CUDNN', 'NCCL') if has(name)])"
    sums = "print(float(mx.nd.ones((2, 3)).sum().asscalar()))"
    python = str(environment.folder / "bin/python")
    driver = real_environments.stub_driver(tmp_path / "driver", library)
    done = environment.run(python, "-c", f"import mxnet as mx; {has}; {sums}", libraries=driver)
    assert done.stdout == "['CUDA', 'CUDNN', 'NCCL']\n6.0\n", done.stderr
    shutil.rmtree(environment.folder)
