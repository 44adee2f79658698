"""CUDA's compiler as /usr/local/cuda-<version> of a GPU node has it, put together from packages.

CUDA 13 is on PyPI as a whole. Of CUDA 12 PyPI lacks nvcc itself, which Debian 13 has (non-free).
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

from localcloud.machines import image

CACHE = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "gpucluster/nightly"
UV = [shutil.which("uv", path=str(Path(sys.executable).parent)) or "uv", "--no-config", "--quiet"]
UV_CACHE = {"UV_CACHE_DIR": str(CACHE / "uv")}

CUDA_12 = (
    "nvidia-cuda-nvcc-cu12==12.4.*",
    "nvidia-cuda-runtime-cu12==12.4.*",
    "nvidia-cuda-cccl-cu12==12.4.*",
    "nvidia-nvtx-cu12==12.4.*",
)
STATIC_12 = ("nvidia-cuda-runtime-cu12==12.9.*",)
"""The runtime to link with: older wheels have it as a shared library alone. Its part for kernels that start kernels,
libcudadevrt.a, is refused by an older nvcc. Horovod has no such kernels: an empty one does."""
NVCC_12 = "nvidia-cuda-toolkit=12.4.*"
GPUS = "(70|75|90)"
"""Horovod has one file for GPUs. Three generations of them show the same as fourteen, in a fraction of the time."""

PROFILE_12 = """\
TOP              = $(_HERE_)/..
CICC_PATH        = $(TOP)/nvvm/bin
NVVMIR_LIBRARY_DIR = $(TOP)/nvvm/libdevice
PATH            += $(CICC_PATH):$(_HERE_):
INCLUDES        +=  "-I$(TOP)/$(_TARGET_DIR_)/include" $(_SPACE_)
LIBRARIES        =+ $(_SPACE_) "-L$(TOP)/$(_TARGET_DIR_)/lib$(_TARGET_SIZE_)"
"""
"""NVIDIA's own, as its packages of CUDA 13 have it; Debian's names Debian's folders."""

NVCC = f"""\
#!/bin/bash
here=$(dirname "$(readlink -f "$0")")
if [ "$*" = --list-gpu-arch ]; then "$here/nvcc-itself" --list-gpu-arch | grep -E '_{GPUS}$'; exit; fi
exec -a "$here/nvcc" "$here/nvcc-itself" "$@"
"""
"""nvcc prints its own name, by which CMake recognises it: otherwise CMake does not pass it the host compiler."""


def install(packages: tuple[str, ...], target: Path) -> Path:
    """From PyPI; return the folder `nvidia`."""
    argv = [*UV, "pip", "install", "--python-version=3.11", "--no-deps", f"--target={target}", *packages]
    subprocess.run([*argv, "--python", sys.executable], env=os.environ | UV_CACHE, check=True)
    return target / "nvidia"


def make_13(root: Path) -> Path:
    """CUDA 13.0 at `root`/cuda-13.0."""
    packages = (
        "nvidia-cuda-nvcc==13.0.*",
        "nvidia-cuda-crt==13.0.*",
        "nvidia-nvvm==13.0.*",
        "nvidia-cuda-runtime==13.0.*",
        "nvidia-nvtx==13.0.*",
    )
    home = root / "cuda-13.0"
    shutil.copytree(install((*packages, "nvidia-cuda-cccl==13.0.*"), root / "pypi-13") / "cu13", home)
    return _finish(home, "libcudart.so.13")


def make_12(root: Path) -> Path:
    """CUDA 12.4 at `root`/cuda-12.4."""
    home, nvidia = root / "cuda-12.4", install(CUDA_12, root / "pypi-12")
    for part in ("cuda_runtime", "cuda_nvcc", "cuda_cccl", "nvtx"):
        shutil.copytree(nvidia / part, home, dirs_exist_ok=True, ignore=shutil.ignore_patterns("__init__.py"))
    static = install(STATIC_12, root / "pypi-12-static") / "cuda_runtime/lib"
    for name in ("libcudart_static.a", "libculibos.a"):
        shutil.copy(static / name, home / "lib")
    subprocess.run(["ar", "rcs", home / "lib/libcudadevrt.a"], check=True)
    debian = _debian(root / "debian", NVCC_12)
    for path in (debian / "usr/lib/nvidia-cuda-toolkit/bin/nvcc", *(debian / "usr/bin").iterdir()):
        if not (home / "bin" / path.name).exists() and not path.is_symlink():
            shutil.copy(path, home / "bin" / path.name)
    shutil.copytree(debian / "usr/lib/nvidia-cuda-toolkit/bin/crt", home / "bin/crt")
    (home / "nvvm/bin").mkdir(exist_ok=True)
    shutil.copy(debian / "usr/lib/nvidia-cuda-toolkit/bin/cicc", home / "nvvm/bin/cicc")
    (home / "bin/nvcc.profile").write_text(PROFILE_12)
    return _finish(home, "libcudart.so.12")


def _finish(home: Path, runtime: str) -> Path:
    """Names that NVIDIA's own packages for Linux have."""
    (home / "lib64").symlink_to("lib")
    (home / "lib/libcudart.so").symlink_to(runtime)
    target = home / "targets/x86_64-linux"
    target.mkdir(parents=True)
    for name in ("include", "lib"):
        (target / name).symlink_to(f"../../{name}")
    (home / "bin/nvcc").rename(home / "bin/nvcc-itself")
    (home / "bin/nvcc").write_text(NVCC)
    (home / "bin/nvcc").chmod(0o755)
    return home


def _debian(folder: Path, package: str) -> Path:
    """The package's files, from the non-free part of Debian 13, which this machine's apt need not know."""
    (folder / "lists/partial").mkdir(parents=True)
    (folder / "cache/archives/partial").mkdir(parents=True)
    host = image.inspect_host()
    (folder / "sources.list").write_text(f"deb [signed-by={image.KEYRING}] {host.mirror} {image.SUITE} non-free\n")
    settings = {
        "Dir::Etc::sourcelist": folder / "sources.list",
        "Dir::Etc::sourceparts": "-",
        "Dir::State::lists": folder / "lists",
        "Dir::Cache": folder / "cache",
        "APT::Sandbox::User": "root",
    }
    apt = ["apt-get", "-qq", *(f"-o{key}={value}" for key, value in settings.items())]
    subprocess.run([*apt, "update"], check=True)
    subprocess.run([*apt, "download", package], cwd=folder, check=True)
    (archive,) = folder.glob("*.deb")
    subprocess.run(["dpkg-deb", "--extract", archive, folder / "unpacked"], check=True)
    return folder / "unpacked"
