"""A mirror on this machine from which uv installs a Python 3.11.

uv downloads interpreters from a host that this project's machines may not reach. What it downloads there is an archive
`python/{bin,lib,include}`; here it is made of the Python 3.11 that runs the tests, and uv's own list of downloads
(https://docs.astral.sh/uv/reference/settings/#python-downloads-json-url) names it.
"""

from __future__ import annotations

import hashlib
import json
import platform
import shutil
import sys
import sysconfig
import tarfile
from pathlib import Path

ARCHIVE = "install_only.tar.gz"
LEFT_OUT = ("__pycache__", "config-*", "*-packages", "sitecustomize.py", "test*", "idlelib", "tkinter")


def make(folder: Path, url: str = "") -> Path:
    """Lay archive and list down in `folder`, which is served at `url` if that is given; return the list."""
    tree = folder / "tree/python"
    (tree / "bin").mkdir(parents=True)
    shutil.copy(sys._base_executable, tree / "bin/python3.11")  # type: ignore[attr-defined]
    shutil.copytree(sysconfig.get_path("stdlib"), tree / "lib/python3.11", ignore=shutil.ignore_patterns(*LEFT_OUT))
    shutil.copytree(sysconfig.get_path("include"), tree / "include/python3.11")
    with tarfile.open(folder / ARCHIVE, "w:gz", compresslevel=1) as archive:
        archive.add(tree, "python")
    downloads = folder / "downloads.json"
    downloads.write_text(json.dumps(_downloads(folder / ARCHIVE, url or folder.as_uri())))
    return downloads


def _downloads(archive: Path, url: str) -> dict[str, object]:
    major, minor, patch = platform.python_version_tuple()
    wanted = {
        "name": "cpython",
        "arch": {"family": platform.machine(), "variant": None},
        "os": "linux",
        "libc": "gnu",
        "major": int(major),
        "minor": int(minor),
        "patch": int(patch),
        "prerelease": "",
        "url": f"{url}/{ARCHIVE}",
        "sha256": hashlib.sha256(archive.read_bytes()).hexdigest(),
        "variant": None,
        "build": "1",
    }
    return {f"cpython-{platform.python_version()}-linux-{platform.machine()}-gnu": wanted}
