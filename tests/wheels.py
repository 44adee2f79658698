"""Small wheels, and an environment like the cluster's with stand-ins for its packages; its pip is the real one."""

from __future__ import annotations

import subprocess
import sys
import zipfile
from pathlib import Path

import pip

PYTHON = f"python{sys.version_info.major}.{sys.version_info.minor}"


def wheel(folder: Path, name: str, version: str, *requires: str) -> Path:
    """A package with one module, whose `version` is its version."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{name}-{version}-py3-none-any.whl"
    info = f"{name}-{version}.dist-info"
    files = {f"{name}.py": f"version = {version!r}\n", **metadata(info, name, version, "py3-none-any", *requires)}
    with zipfile.ZipFile(path, "w") as archive:
        for each, text in files.items():
            archive.writestr(each, text)
        record = "".join(f"{each},,\n" for each in [*files, f"{info}/RECORD"])
        archive.writestr(f"{info}/RECORD", record)
    return path


def metadata(info: str, name: str, version: str, tag: str, *requires: str) -> dict[str, str]:
    needs = "".join(f"Requires-Dist: {each}\n" for each in requires)
    return {
        f"{info}/METADATA": f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n{needs}",
        f"{info}/WHEEL": f"Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: {tag}\n",
    }


def environment(envs: Path, **packages: str) -> Path:
    """In the head node's layout, with the link that jobs use. `torch` and `numpy` are compiled, the others not."""
    made = envs / "torch-0123"
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(made)], check=True)
    site = made / "lib" / PYTHON / "site-packages"
    (site / "pip").symlink_to(Path(pip.__file__).parent)
    for name, version in packages.items():
        tag = "cp311-cp311-linux_x86_64" if name in ("torch", "numpy") else "py3-none-any"
        (site / f"{name}.py").write_text(f"version = {version!r}\n")
        for path, text in metadata(f"{name}-{version}.dist-info", name, version, tag).items():
            (site / path).parent.mkdir(exist_ok=True)
            (site / path).write_text(text)
    (made / "complete").touch()
    (envs / ".wanted").mkdir()
    (envs / ".wanted" / "torch").symlink_to("../torch-0123")
    (envs / "torch").symlink_to("torch-0123")
    return made
