"""Which wheels `make boot` collects, and when it compiles Horovod: the real script, and a Python that touches files."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[3]
PYTHON = r"""#!/bin/bash
# pip, venv and the stand-ins, as far as files go: a wheel is an empty file of its name.
folders=() out='' requirements='' words=()
if [ "$1" = --version ]; then echo "Python 3.11.2"; exit; fi
if [[ $1 == *stand_in_wheels.py ]]; then shift; out=$2; words=("$3"); set -- wheel; else shift; fi
if [ "$1" = venv ]; then mkdir -p "$2/bin"; ln -s "$0" "$2/bin/python"; exit; fi
while [ $# -gt 0 ]; do
    case $1 in
    --find-links) folders+=("$2"); shift ;;
    -w | --dest) out=$2; shift ;;
    -r) requirements=$(cat "$2"); shift ;;
    --dry-run) dry=1 ;;
    horovod==*) echo "$1" >>"$COMPILED"; words+=("$1") ;;
    uv==* | torchvision==*) words+=("$1") ;;
    esac
    shift
done
for pin in $requirements "${words[@]}"; do
    pattern=$(tr - _ <<<"${pin%%==*}")-${pin##*==}
    if [ -n "${dry:-}" ]; then
        for folder in "${folders[@]}"; do compgen -G "$folder/$pattern-*.whl" >/dev/null && continue 2; done
        exit 1
    fi
    [ -z "$out" ] || touch "$out/$pattern-py3-none-any.whl"
done
"""
LOCKS = {
    "torch": "torch==2.13.0\n",
    "horovod": "horovod==0.28.1\ntorch==2.13.0\n",
    "tensorflow": "horovod==0.28.1\ntensorflow==2.15.1\n",
    "tensorflow-cpu": "horovod==0.28.1\ntensorflow-cpu==2.15.1\n",
}


@pytest.fixture
def collect(tmp_path: Path):
    shutil.copytree(ROOT / "bootstrap", tmp_path / "bootstrap", ignore=shutil.ignore_patterns("*.txt", "*.pyc"))
    locks = tmp_path / "bootstrap" / "environments"
    for name, text in LOCKS.items():
        (locks / f"{name}.txt").write_text(text)
    python = tmp_path / "python"
    python.write_text(PYTHON)
    python.chmod(0o755)
    compiled = tmp_path / "compiled"

    def run(out: str, *names: str, **changed: str) -> tuple[set[str], int]:
        """The files in the folder afterwards, and how often Horovod was compiled."""
        for name, text in changed.items():
            (locks / f"{name}.txt").write_text(text)
        compiled.write_text("")
        environment = {**os.environ, "PYTHON": str(python), "COMPILED": str(compiled)}
        environment["HOROVOD_CACHE"] = str(tmp_path / "cache")
        command = ["bash", str(tmp_path / "bootstrap" / "build-wheels.sh"), str(tmp_path / out), *names]
        done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False, timeout=60)
        assert done.returncode == 0, done.stderr
        files = {str(path.relative_to(tmp_path / out)) for path in (tmp_path / out).rglob("*.whl")}
        return files, len(compiled.read_text().splitlines())

    return run


def test_the_demo_needs_one_horovod_and_no_tensorflow(collect) -> None:
    files, compiled = collect("out", "torch", "horovod")
    assert compiled == 1
    assert "horovod/horovod-0.28.1-py3-none-any.whl" in files
    assert not any("tensorflow" in name for name in files)


def test_all_environments_need_two_which_are_found_again(collect) -> None:
    files, compiled = collect("out")
    assert compiled == 2
    assert {"horovod/horovod-0.28.1-py3-none-any.whl", "tensorflow/horovod-0.28.1-py3-none-any.whl"} <= files
    assert collect("out") == (files, 0)
    assert collect("elsewhere") == (files, 0)


def test_another_torch_needs_another_horovod(collect) -> None:
    assert collect("out", "horovod")[1] == 1
    assert collect("out", "horovod", horovod="horovod==0.28.1\ntorch==2.14.0\n")[1] == 1
    assert collect("new", "horovod", horovod=LOCKS["horovod"])[1] == 0


def test_an_unknown_environment_is_refused(tmp_path: Path) -> None:
    command = ["bash", str(ROOT / "bootstrap/build-wheels.sh"), str(tmp_path), "torhc"]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)
    assert (done.returncode, "no environment torhc" in done.stderr) == (2, True)


def test_torchvision_comes_with_a_torch_for_cpus(collect, tmp_path: Path) -> None:
    assert not any("torchvision" in name for name in collect("out", "torch")[0])
    (tmp_path / "out/torch-2.13.0+cpu-cp311.whl").touch()
    assert [name for name in collect("out", "torch")[0] if "torchvision" in name]


def test_another_torchvisions_stand_in_does_not_count(collect, tmp_path: Path) -> None:
    (tmp_path / "out").mkdir()
    for name in ("torch-2.13.0+cpu-cp311.whl", "torchvision-0.27.0+cpu-py3-none-any.whl"):
        (tmp_path / "out" / name).touch()
    assert any("torchvision-0.28.0" in name for name in collect("out", "torch")[0])


def torchvision_of_pypi(folder: Path, torch: str) -> None:
    """Files as in PyPI's wheel of 0.28.0."""
    with zipfile.ZipFile(folder / "torchvision-0.28.0-cp311-cp311-manylinux_2_28_x86_64.whl", "w") as wheel:
        info = "torchvision-0.28.0.dist-info"
        wheel.writestr("torchvision/extension.py", "import torch\n")
        wheel.writestr("torchvision/_C.so", "compiled")
        wheel.writestr("torchvision.libs/libcudart.faf08d9a.so.13", "compiled")
        wheel.writestr(f"{info}/METADATA", f"Name: torchvision\nVersion: 0.28.0\nRequires-Dist: torch (=={torch})\n")
        wheel.writestr(f"{info}/RECORD", "torchvision/_C.so,sha256=x,8\n")


def stand_in(folder: Path) -> subprocess.CompletedProcess[str]:
    command = [
        sys.executable,
        str(ROOT / "bootstrap/stand_in_wheels.py"),
        "torchvision",
        str(folder),
        "torchvision==0.28.0",
    ]
    return subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)


def test_torchvision_for_cpus_is_pypis_without_compiled_code(tmp_path: Path) -> None:
    (tmp_path / "torch-2.13.0+cpu-cp311.whl").touch()
    torchvision_of_pypi(tmp_path, torch="2.13.0")
    assert stand_in(tmp_path).returncode == 0
    (made,) = tmp_path.glob("torchvision-*")
    assert made.name == "torchvision-0.28.0+cpu-cp311-cp311-manylinux_2_28_x86_64.whl"
    with zipfile.ZipFile(made) as wheel:
        info = "torchvision-0.28.0+cpu.dist-info"
        assert wheel.namelist() == ["torchvision/extension.py", f"{info}/METADATA", f"{info}/RECORD"]
        assert wheel.read(f"{info}/RECORD").decode().split(",,\n")[:-1] == wheel.namelist()
        assert b"\nVersion: 0.28.0+cpu\n" in wheel.read(f"{info}/METADATA")
        extension = wheel.read("torchvision/extension.py").decode()
    compile(extension, "extension.py", "exec")
    assert extension.startswith("import torch\n") and '("nms", "qnms")' in extension


def test_a_torchvision_for_another_torch_is_refused(tmp_path: Path) -> None:
    (tmp_path / "torch-2.13.0+cpu-cp311.whl").touch()
    torchvision_of_pypi(tmp_path, torch="2.14.1")
    done = stand_in(tmp_path)
    assert done.returncode == 1
    assert done.stderr == "error: torchvision 0.28.0 is for torch 2.14.1: change TORCHVISION in build-wheels.sh\n"


def plan(target: str, *settings: str) -> str:
    """The commands that make would run in a new checkout."""
    command = ["make", "--dry-run", "--no-print-directory", target, "VENV=/nonexistent", *settings]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True, timeout=60).stdout


def test_setup_compiles_nothing_and_asks_for_no_root() -> None:
    commands = plan("setup")
    assert "pip install" in commands
    assert not any(word in commands for word in ("build-wheels", "apt", "system-packages", "localcloud image"))


def test_make_boot_does_everything_that_booting_nodes_needs() -> None:
    commands = plan("boot", "ENVIRONMENTS=torch horovod")
    assert "build-wheels.sh" in commands and "wheels torch horovod" in commands and "localcloud image build" in commands
