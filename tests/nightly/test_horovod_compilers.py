"""Horovod compiles with g++ 13, the compiler of Ubuntu 24.04 and so of AWS's image, for each framework.

The headers of each g++ include fewer others than those of the version before, and Horovod relies on some of them. This
machine may have an older g++ (test_horovod_with_cuda.py uses it), so g++ 13 comes from Debian 13 and runs in a chroot.
There is no CUDA and no MPI.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sysconfig
import venv
from pathlib import Path

import pytest
from bed import WHEELS

from localcloud.machines import image

SUBJECTS = [
    "bootstrap/environments/horovod.txt",
    "bootstrap/environments/tensorflow-cpu.txt",
    "bootstrap/environments/cxx17",
    "bootstrap/environments/horovod_wheel.sh",
]
COVERED_BY = (
    "test_horovod_steps.py, test_environment_steps.py: the build's settings; make boot compiles Horovod for CPUs"
)
ROOT = Path(__file__).resolve().parents[2]
LOCKS = ("horovod", "tensorflow-cpu")
COMPILER = "g++-13"
HEADERS = sysconfig.get_path("include")
"""Python's. Debian's own Python has a second folder of them."""
SEEN_INSIDE = (
    "/proc",
    "/dev",
    "/tmp",
    str(Path.home()),
    str(ROOT),
    HEADERS,
    "/usr/include/x86_64-linux-gnu/python3.11",
)
"""The chroot has these folders of this machine, at the same places. /usr is not among them: it would hide g++ 13."""
GXX = f"""#!/bin/sh
exec chroot {{debian}} /bin/sh -c 'cd "$0" && exec {COMPILER} "$@"' "$PWD" "$@"
"""
BUILD = """
set -euo pipefail
for folder in {folders}; do mkdir -p {debian}$folder; mount --rbind $folder {debian}$folder; done
source {root}/bootstrap/environments/horovod_wheel.sh
# The headers of Open MPI and CUDA are not in the chroot. This machine may have CUDA.
mpi_compiles() {{ false; }}
for folder in /usr/local/cuda*; do if [ -d "$folder" ]; then mount -t tmpfs none "$folder"; fi; done
if nvcc=$(command -v nvcc); then
    mkdir {out}/hidden {out}/work && mknod {out}/hidden/nvcc c 0 0  # in an overlay: the file is gone
    mount -t overlay overlay -o lowerdir="${{nvcc%/*}}",upperdir={out}/hidden,workdir={out}/work "${{nvcc%/*}}"
fi
horovod_wheel {python} {lock} {out}
"""


@pytest.fixture(scope="module")
def debian(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Debian 13 with the compiler."""
    folder, host = tmp_path_factory.mktemp("debian") / "root", image.inspect_host()
    options = [f"--aptopt={option.rstrip(';')}" for option in host.apt_options]
    argv = ["mmdebstrap", "--quiet", "--variant=apt", *options, f"--include={COMPILER},make"]
    subprocess.run([*argv, image.SUITE, str(folder), *image.sources(host)], check=True)
    return folder


def _environment(folder: Path, lock: Path) -> Path:
    """The Python of an environment as the step has made it when it compiles Horovod, with the builds for CPUs."""
    venv.create(folder, with_pip=True)
    pip = [str(folder / "bin/python"), "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
    wanted = [line for line in lock.read_text().splitlines() if re.match("[a-zA-Z]", line) and "horovod==" not in line]
    links = ["--find-links", str(WHEELS), "--find-links", str(WHEELS / lock.stem)]
    subprocess.run([*pip, "--no-index", "--no-deps", *links, *wanted], check=True)
    subprocess.run([*pip, "setuptools<81", "wheel", "cmake<4"], check=True)
    return folder / "bin/python"


@pytest.mark.timeout(3600)
@pytest.mark.parametrize("name", LOCKS)
def test_horovod_compiles(debian: Path, name: str, tmp_path: Path) -> None:
    lock = ROOT / f"bootstrap/environments/{name}.txt"
    python = _environment(tmp_path / "environment", lock)
    (tmp_path / "g++").write_text(GXX.format(debian=debian))
    (tmp_path / "g++").chmod(0o755)
    folders = " ".join(each for each in SEEN_INSIDE if Path(each).is_dir())
    script = BUILD.format(folders=folders, debian=debian, root=ROOT, python=python, lock=lock, out=tmp_path)
    kept = {key: value for key, value in os.environ.items() if not key.startswith(("HOROVOD", "CUDA"))}
    argv = ["unshare", "--mount", "bash", "-c", script]
    environment = kept | {"PATH": f"{tmp_path}:{os.environ['PATH']}"}
    done = subprocess.run(argv, env=environment, capture_output=True, text=True, check=False)
    log = done.stdout + done.stderr
    errors = "\n".join(line for line in log.splitlines() if "error: " in line)
    assert done.returncode == 0, f"{errors[:4000]}\n{log[-4000:]}"
    assert list(tmp_path.glob("horovod-*.whl"))
    shutil.rmtree(tmp_path / "environment")  # a gigabyte
