"""The location of the files that this package ships besides its modules, and how it was installed.

In a checkout they are at its top. A wheel has them in `gpucluster/_data` (setup.py puts them there), where nothing is
written to: an installation may be read-only, and several clusters share it.
"""

from __future__ import annotations

import os
import shlex
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import unquote, urlsplit

if TYPE_CHECKING:
    from jinja2 import Environment, FileSystemBytecodeCache

_HERE = Path(__file__).resolve().parent
_DATA = _HERE / "_data"

INSTALLED = _DATA.is_dir()
"""From a wheel, without a checkout."""
ROOT = _DATA if INSTALLED else _HERE.parent
"""The copies of bootstrap/, templates/, stacks/, examples/, app.py, cdk.json, package.json."""
CACHE = Path(os.environ.get("XDG_CACHE_HOME") or "~/.cache").expanduser() / "gpucluster"


def package(name: str) -> Path:
    """The folder of one of the project's packages that is copied to the cluster."""
    return _HERE.parent / name


def how_to_install(extra: str) -> str:
    """The command that installs an extra of this package. Never the bare name: in a package index it may be
    somebody else's."""
    return f"pip install '{_origin()}[{extra}]'" if INSTALLED else f"make setup in {ROOT}"


def how_to_install_local_cloud() -> str:
    """The local cloud is a separate distribution, built beside this one."""
    if not INSTALLED:
        return f"make setup in {ROOT}"
    origin = _origin()
    if not origin.endswith(".whl"):
        return f"pip install '{origin}/localcloud'"
    folder, slash, wheel = origin.rpartition("/")
    return f"pip install '{folder}{slash}{wheel.replace('gpucluster-', 'gpucluster_localcloud-')}'"


def _origin() -> str:
    """The wheel or folder that this was installed from, as pip has noted it (PEP 610)."""
    import json
    from importlib.metadata import PackageNotFoundError, distribution

    try:
        found = distribution("gpucluster")
    except PackageNotFoundError:
        return "PATH/OF/gpucluster.whl"
    noted = json.loads(found.read_text("direct_url.json") or "{}")
    url = urlsplit(str(noted.get("url", "")))
    if url.scheme == "file":
        return unquote(url.path)
    return noted.get("url") or f"PATH/OF/gpucluster-{found.version}-py3-none-any.whl"


@cache
def templates(folder: Path) -> Environment:
    """The Jinja environment for templates below this folder."""
    from jinja2 import Environment, FileSystemLoader, StrictUndefined

    environment = Environment(
        loader=FileSystemLoader(folder),
        bytecode_cache=_bytecode(),
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
        autoescape=False,
    )
    environment.filters["sh"] = shlex.quote
    environment.filters["versions"] = lambda each: shlex.join((each.least, each.below, each.installed))
    return environment


def _bytecode() -> FileSystemBytecodeCache | None:
    """Compiled templates in the user's cache: each takes a millisecond to compile. None if nothing can be written
    there."""
    from jinja2 import FileSystemBytecodeCache

    folder = CACHE / "templates"
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError:
        return None
    return FileSystemBytecodeCache(str(folder)) if os.access(folder, os.W_OK) else None
