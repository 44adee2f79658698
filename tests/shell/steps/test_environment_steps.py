"""An environment is restored, or made and stored, with stand-ins for Python, virtualenv and S3."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from test_steps import BOOTSTRAP, Machine, source_of

STORE = "s3://bucket/envs"


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    machine = Machine(tmp_path)
    recipe = tmp_path / "bundle/environments"
    recipe.mkdir(exist_ok=True)
    (recipe / "torch.txt").write_text("# imports: torch\ntorch==2.13.0\n")
    (recipe / "cache").write_text(f"{STORE}\n")
    (recipe / "partitions").write_text("torch train 1\n")
    (tmp_path / "envs/.wanted").mkdir(parents=True)
    (tmp_path / "envs/.wanted/torch").symlink_to("../torch-0123")
    (tmp_path / "s3").mkdir()
    for name in ("environments", "python_env", "environment"):
        text = source_of(name).read_text()
        machine.step(name, text.replace("/home/gpucluster/envs", f"{tmp_path}/envs"))
    machine.command("python3.11")
    machine.step("interpreter", 'python_3_11() { echo "$ROOT/bin/python3.11"; }')
    # makes an environment that contains only a python, which prints its arguments
    body = 'for last; do :; done; mkdir -p "$last/bin"; cp "${0%/*}/python3.11" "$last/bin/python"'
    machine.command("virtualenv", body)
    return machine


BUCKET = """
cache() {
    local object=$ROOT/s3/${2##*/}
    echo "cache $1 ${2##*/}" >>"$ROOT/calls"
    case $1 in has) [ -e "$object" ] ;; get) cat "$object" ;; put) cat >"$object" ;; esac
}
"""


def build(machine: Machine, also: str = "") -> subprocess.CompletedProcess[str]:
    sources = ("runner", "apt", "environments", "horovod_wheel", "interpreter", "environment")
    return machine.run(f"{BUCKET}\n{also}\nbuild_environment torch", *sources)


def made(machine: Machine) -> bool:
    return any(call.startswith("virtualenv") for call in machine.calls())


def test_an_environment_is_compiled_for_every_caller(machine: Machine) -> None:
    """node-program, which submits the job for it, sets PYTHONDONTWRITEBYTECODE."""
    machine.command("python3.11", 'case $* in *verify.py*) [ -z "${PYTHONDONTWRITEBYTECODE:-}" ] || exit 1;; esac')
    build(machine, "export PYTHONDONTWRITEBYTECODE=1").check_returncode()


def test_an_environment_that_is_not_stored_is_made_checked_and_stored(machine: Machine) -> None:
    build(machine).check_returncode()
    assert made(machine)
    assert (machine.root / "envs/torch").readlink() == Path("torch-0123")
    assert (machine.root / "envs/torch/complete").exists()
    assert any("verify.py" in call for call in machine.calls())
    assert [path.name.partition(".tar")[0] for path in (machine.root / "s3").iterdir()] == ["torch-0123"]


def test_the_next_cluster_restores_a_stored_environment(machine: Machine) -> None:
    build(machine).check_returncode()
    subprocess.run(["rm", "-rf", str(machine.root / "envs/torch-0123"), str(machine.calls_file)], check=True)
    done = build(machine)
    done.check_returncode()
    assert f"restoring torch-0123 from {STORE}/torch-0123.tar" in done.stdout
    assert not made(machine)
    assert (machine.root / "envs/torch/bin/python").exists() and (machine.root / "envs/torch/complete").exists()


def test_a_broken_archive_is_kept_and_the_environment_made_anew(machine: Machine) -> None:
    build(machine).check_returncode()
    (stored,) = (machine.root / "s3").iterdir()
    stored.write_bytes(stored.read_bytes()[:-20])
    subprocess.run(["rm", "-rf", str(machine.root / "envs/torch-0123"), str(machine.calls_file)], check=True)
    done = build(machine)
    done.check_returncode()
    assert "could not be restored: building it anew" in done.stdout
    assert made(machine) and (machine.root / "envs/torch/complete").exists()
    # no node may replace what other clusters restore as root
    assert f"delete it with `aws s3 rm {STORE}/{stored.name}`" in done.stdout
    assert not any(call.startswith("cache put") for call in machine.calls())


def test_the_cache_runs_from_the_heads_recipe_folder(machine: Machine) -> None:
    """Nodes make environments from /home/gpucluster/envs/.recipe, which lacks the bundle's other programs."""
    bundle = machine.root / "bundle"
    (bundle / "gpucluster_node").symlink_to(BOOTSTRAP / "gpucluster_node")
    for name in ("runner", "apt", "horovod_wheel", "machine_environment"):
        machine.step(name, source_of(name).read_text())
    stubs = 'put_file() { mkdir -p "${1%/*}"; cat >"$1"; }\nput_directory() { mkdir -p "$1"; }\nnode_program() { :; }'
    machine.run(f"{stubs}\nstep_python_env", "environments", "python_env").check_returncode()
    recipe = machine.root / "envs/.recipe"
    argv = [
        sys.executable,
        "-I",
        "-B",
        "-c",
        "import sys; sys.path.insert(0, '.'); import gpucluster_node.jobs.environment_cache",
    ]
    done = subprocess.run(argv, cwd=recipe, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")


def test_an_existing_environment_is_not_changed(machine: Machine) -> None:
    build(machine).check_returncode()
    before = machine.calls()
    build(machine).check_returncode()
    assert machine.calls() == before


def test_a_cache_that_cannot_be_written_does_not_fail_the_environment(machine: Machine) -> None:
    done = build(machine, "cache() { return 1; }")
    done.check_returncode()
    assert "warning:" in done.stdout and "could not be stored" in done.stdout
    assert (machine.root / "envs/torch/complete").exists()


def test_an_environment_that_does_not_import_is_not_used(machine: Machine) -> None:
    machine.command("python3.11", 'case $* in *verify.py*) echo "error: import torch: no" >&2; exit 1;; esac')
    done = build(machine)
    assert done.returncode != 0 and "import torch: no" in done.stderr
    assert not (machine.root / "envs/torch-0123/complete").exists()
    assert not (machine.root / "envs/torch").exists()
    assert not list((machine.root / "s3").iterdir())


def test_the_key_depends_on_the_lock_and_on_gpus(machine: Machine) -> None:
    def key() -> str:
        asked = 'environment_key "$BUNDLE/environments/torch.txt"'
        return machine.run(asked, "environments", "python_env").stdout

    keys = [key()]
    partitions = machine.root / "bundle/environments/partitions"
    partitions.write_text("torch train 0\n")
    keys.append(key())
    (machine.root / "bundle/environments/torch.txt").write_text("torch==2.14.0\n")
    keys.append(key())
    assert len(set(keys)) == 3 and all(len(each.strip()) == 16 for each in keys)


def test_mxnet_finds_its_libraries_beside_itself(machine: Machine) -> None:
    packages = machine.root / "env/lib/python3.11/site-packages"
    for path in ("mxnet/libmxnet.so", "nvidia/cublas/lib/libcublas.so.11", "numpy.libs/libquadmath-96.so.0.0.0"):
        (packages / path).parent.mkdir(parents=True, exist_ok=True)
        (packages / path).write_text(path)
    machine.run('link_libraries "$ROOT/env"', "environment").check_returncode()
    assert (packages / "mxnet/libcublas.so.11").read_text() == "nvidia/cublas/lib/libcublas.so.11"
    assert (packages / "mxnet/libquadmath.so.0").read_text() == "numpy.libs/libquadmath-96.so.0.0.0"


@pytest.mark.parametrize(
    ("amazons", "headers", "package", "says"),
    [
        (True, "amazon", "", "with {root}/amazon/openmpi/bin/mpicxx"),
        (False, "there", "", "with {root}/bin/mpicxx"),
        (False, "installed", "libopenmpi-dev", "with {root}/bin/mpicxx"),
        (False, "nowhere", "libopenmpi-dev", "Horovod cannot be built with MPI here: mpicxx finds no mpi.h"),
    ],
)
def test_horovod_is_compiled_with_mpi(machine: Machine, amazons: bool, headers: str, package: str, says: str) -> None:
    machine.command("mpicxx", '[ -e "$ROOT/mpi.h" ]')
    if amazons:
        own = machine.root / "amazon/openmpi/bin/mpicxx"
        own.parent.mkdir(parents=True)
        own.write_text("#!/bin/sh\n")
        own.chmod(0o755)
    if headers == "there":
        (machine.root / "mpi.h").touch()
    text = (machine.root / "bundle/environments/environment.sh").read_text()
    machine.step("environment", text.replace("/opt/amazon", f"{machine.root}/amazon"))
    installs = 'install_packages() { echo "installs $*"; [ "$HEADERS" != installed ] || touch "$ROOT/mpi.h"; }'
    script = f"HEADERS={headers}\n{installs}\nmpi_compiler\necho with $(command -v mpicxx)"
    done = machine.run(script, "runner", "apt", "horovod_wheel", "environment")
    assert ("installs libopenmpi-dev" in done.stdout) == bool(package), done.stdout + done.stderr
    assert says.format(root=machine.root) in done.stdout + done.stderr
    assert (done.returncode == 0) == (headers != "nowhere")


def test_a_horovod_without_nccl_is_not_stored(machine: Machine) -> None:
    done = build(machine, "install_lock() { WITHOUT_NCCL=1; }")
    done.check_returncode()
    assert "not stored: the nodes of another cluster may have that CUDA" in done.stdout
    assert (machine.root / "envs/torch/complete").exists()
    assert not list((machine.root / "s3").iterdir())


def test_the_newest_compiler_of_the_frameworks_cuda_is_used(machine: Machine) -> None:
    for version in ("12.6", "12.10", "13.0"):
        nvcc = machine.root / f"cuda/cuda-{version}/bin/nvcc"
        nvcc.parent.mkdir(parents=True)
        nvcc.touch(0o755)
    script = "CUDA_ROOT=$ROOT/cuda; cuda_home 12; cuda_home 13; cuda_home 11; echo none"
    found = machine.run(script, "environment").stdout.splitlines()
    assert [line.rpartition("-")[2] for line in found] == ["12.10", "13.0", "none"]


@pytest.mark.parametrize(
    ("mpi", "says"), [(True, "horovod: gloo, mpi, no nccl"), (False, "error: horovod: built without mpi")]
)
def test_an_environment_whose_horovod_lacks_mpi_is_not_used(tmp_path: Path, mpi: bool, says: str) -> None:
    package = tmp_path / "horovod"
    package.mkdir()
    (package / "__init__.py").touch()
    built = {"gloo": True, "mpi": mpi, "nccl": False}
    text = "\n".join(f"def {part}_built(): return {there}" for part, there in built.items())
    (package / "torch.py").write_text(text)
    (tmp_path / "lock.txt").write_text("# imports: horovod.torch\n")
    verify = BOOTSTRAP / "environments/verify.py"
    argv = [sys.executable, str(verify), str(tmp_path / "lock.txt")]
    done = subprocess.run(argv, env={"PYTHONPATH": str(tmp_path)}, capture_output=True, text=True, check=False)
    assert (done.returncode == 0) == mpi
    assert says in done.stdout + done.stderr


def test_the_imports_of_ranks_are_compiled_when_the_environment_is_built(tmp_path: Path) -> None:
    """The import also compiles the modules, where a rank may not write."""
    (tmp_path / "torch" / "_dynamo").mkdir(parents=True)
    for folder in ("torch", "torch/_dynamo"):
        (tmp_path / folder / "__init__.py").touch()
    (tmp_path / "torch-2.13.0.dist-info").mkdir()
    (tmp_path / "torch-2.13.0.dist-info" / "METADATA").write_text("Name: torch\nVersion: 2.13.0\n")
    (tmp_path / "lock.txt").write_text("# imports: torch\ntorch==2.13.0\n")
    argv = [sys.executable, str(BOOTSTRAP / "environments/verify.py"), str(tmp_path / "lock.txt")]
    done = subprocess.run(argv, env={"PYTHONPATH": str(tmp_path)}, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    assert [path.parent.name for path in (tmp_path / "torch" / "_dynamo").rglob("*.pyc")] == ["__pycache__"]
