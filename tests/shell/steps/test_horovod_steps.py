"""The settings with which Horovod is compiled, and the message if it cannot be compiled."""

from __future__ import annotations

from pathlib import Path

import pytest
from test_steps import BOOTSTRAP, Machine

CXX17 = BOOTSTRAP / "environments/cxx17"
LOGS = Path(__file__).resolve().parents[2] / "data/compiler"
NVCC_13_0 = "75 80 86 87 88 89 90 100 110 103 120 121"
"""In the order in which nvcc 13.0.88 --list-gpu-arch prints them."""
SOURCES = ("runner", "apt", "environments", "horovod_wheel", "environment")


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    machine = Machine(tmp_path)
    (tmp_path / "bundle/environments").mkdir()
    for name in ("horovod", "tensorflow"):
        framework = {"horovod": "torch==2.13.0", "tensorflow": "tensorflow==2.15.1"}[name]
        (tmp_path / f"bundle/environments/{name}.txt").write_text(f"horovod==0.28.1\n{framework}\n")
    (tmp_path / "bundle/environments/partitions").write_text("horovod train 1\ntensorflow train 0\n")
    library = tmp_path / "environment/lib/python3.11/site-packages/nvidia/nccl/lib/libnccl.so.2"
    library.parent.mkdir(parents=True)
    library.touch()
    return machine


def framework(machine: Machine, *, cuda: str, found_by_torch: str = "") -> None:
    """The environment's Python: which CUDA its framework was built for, and which toolkit torch's own search finds."""
    machine.command("python", f'case "$*" in *CUDA_HOME*) echo "{found_by_torch}" ;; *) echo "{cuda}" ;; esac')
    (machine.root / "environment/bin").symlink_to(machine.bin)


def toolkit(machine: Machine, version: str) -> Path:
    nvcc = machine.root / f"cuda/cuda-{version}/bin/nvcc"
    nvcc.parent.mkdir(parents=True)
    nvcc.write_text(f"#!/bin/sh\nprintf 'compute_%s\\n' {NVCC_13_0 if version == '13.0' else '50 60 70 75 80'}\n")
    nvcc.chmod(0o755)
    return nvcc.parents[1]


USE = """
CUDA_ROOT=$ROOT/cuda
use_cuda "$ROOT/environment" "$BUNDLE/environments/%s.txt"
echo "WITHOUT_NCCL=${WITHOUT_NCCL:-}"
env | grep -E '^(HOROVOD|CUDA_HOME)' || true
"""


def test_horovod_goes_through_the_nccl_and_the_cuda_of_its_framework(machine: Machine) -> None:
    """Also on a node without GPUs, which the compiler does not need."""
    framework(machine, cuda="13")
    home = toolkit(machine, "13.0")
    toolkit(machine, "12.9")
    done = machine.run(USE % "horovod", *SOURCES)
    assert done.returncode == 0, done.stderr
    nccl = machine.root / "environment/lib/python3.11/site-packages/nvidia/nccl"
    said = dict(line.split("=", 1) for line in done.stdout.splitlines())
    assert said == {
        "WITHOUT_NCCL": "",
        "HOROVOD_GPU": "CUDA",
        "HOROVOD_GPU_OPERATIONS": "NCCL",
        "HOROVOD_NCCL_LINK": "SHARED",
        "HOROVOD_CUDA_HOME": str(home),
        "CUDA_HOME": str(home),
        "HOROVOD_NCCL_HOME": str(nccl),
        "HOROVOD_BUILD_CUDA_CC_LIST": NVCC_13_0.replace(" ", ","),
    }
    # The linker wants this name, and the folder is where the built Horovod will look: it has to stay.
    assert (nccl / "lib/libnccl.so").resolve() == nccl / "lib/libnccl.so.2"


def test_code_for_gpus_older_than_volta_is_not_made(machine: Machine) -> None:
    framework(machine, cuda="12")
    toolkit(machine, "12.4")
    assert "HOROVOD_BUILD_CUDA_CC_LIST=70,75,80\n" in machine.run(USE % "horovod", *SOURCES).stdout


@pytest.mark.parametrize(
    ("name", "cuda", "without", "says"),
    [
        ("horovod", "", "1", "built without NCCL: its framework was built without CUDA"),
        ("horovod", "13", "1", "built without NCCL: no compiler of CUDA 13 is here"),
        ("tensorflow", "12", "", "built without NCCL: no compiler of CUDA 12 is here"),
    ],
)
def test_without_a_fitting_cuda_horovod_uses_the_network(
    machine: Machine, name: str, cuda: str, without: str, says: str
) -> None:
    """There is a warning only if the cluster's nodes have GPUs."""
    framework(machine, cuda=cuda)
    done = machine.run(USE % name, *SOURCES)
    assert done.returncode == 0, done.stderr
    assert says in done.stdout and f"WITHOUT_NCCL={without}\n" in done.stdout
    assert "HOROVOD_GPU" not in done.stdout
    assert ("warning:" in done.stdout) == bool(without)


def test_torch_is_not_compiled_against_another_cuda(machine: Machine) -> None:
    framework(machine, cuda="13", found_by_torch="/usr/local/cuda")
    toolkit(machine, "12.9")
    done = machine.run(USE % "horovod", *SOURCES)
    assert done.returncode == 1
    assert "torch was built for CUDA 13, but /usr/local/cuda is another version" in done.stderr


@pytest.mark.parametrize("standard", ["-std=c++14", "-std=gnu++14", "-std=c++17"])
def test_horovod_is_compiled_with_the_headers_that_it_forgets_and_cxx17(machine: Machine, standard: str) -> None:
    machine.command("g++")
    machine.run(f"{CXX17} {standard} -g a.cc").check_returncode()
    assert machine.calls() == [
        "g++ -include cstdint -include string -include stdexcept -DOMPI_SKIP_MPICXX -std=c++17 a.cc"
    ]


@pytest.mark.parametrize(
    "arguments",
    [
        "-D__CUDA_ARCH_LIST__=750 -E -x c++ -D__CUDACC__ -std=c++11 a.cu",
        "-D__CUDA_ARCH__=750 -D__CUDA_ARCH_LIST__=750 -c -x c++ -m64 tmp/a.cudafe1.cpp -o tmp/a.o",
    ],
)
def test_nvccs_calls_of_its_host_compiler_are_not_changed(machine: Machine, arguments: str) -> None:
    """Calls of nvcc 13.0.88, shortened. It preprocesses a file first: included twice, a header defines things twice."""
    machine.command("g++")
    machine.run(f"{CXX17} {arguments}").check_returncode()
    assert machine.calls() == [f"g++ {arguments}"]


ERRORS = {
    "horovod-cmake.txt": (
        "/usr/include/x86_64-linux-gnu/c++/12/bits/c++config.h:309:1: error: redefinition of ‘void std::__terminate()’"
    ),
}


@pytest.mark.parametrize("log", ERRORS)
def test_the_compilers_own_error_is_found(machine: Machine, log: str) -> None:
    """In what pip printed when Horovod 0.28.1 was compiled by other means than ours."""
    done = machine.run(f"compile_error {LOGS / log}", *SOURCES)
    assert done.stdout == f"{ERRORS[log]}\n"


def test_the_last_line_of_the_log_says_why_horovod_cannot_be_compiled(machine: Machine) -> None:
    framework(machine, cuda="")
    wheel = (
        f"mpi_compiler() {{ :; }}; compiler() {{ :; }}; horovod_wheel() {{ cat {LOGS}/horovod-cmake.txt; return 1; }}"
    )
    machine.command("python", 'case "$*" in *--no-index*) exit 1 ;; esac')
    done = machine.run(f'{wheel}\ninstall_lock "$ROOT/environment" "$BUNDLE/environments/horovod.txt"', *SOURCES)
    assert done.returncode == 1
    last = done.stderr.splitlines()[-1]
    assert last == f"Horovod cannot be compiled here: {ERRORS['horovod-cmake.txt']}"
