"""The jobs' environments as a GPU node makes them: the project's own steps, the builds for CUDA from PyPI, no GPU.

uv fetches Python 3.11 over HTTP from this machine (tests/python_mirror.py). It also installs what is locked, from a
cache that is kept; pip then finds all of it there, and goes on to what has to be compiled.
"""

from __future__ import annotations

import functools
import os
import re
import subprocess
import sys
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

from tests import python_mirror
from tests.cuda_toolkit import UV, UV_CACHE

ROOT = Path(__file__).resolve().parents[1]
SOURCES = (
    *(f"lib/{name}.sh" for name in ("runner", "apt", "environments")),
    *(f"environments/{name}.sh" for name in ("horovod_wheel", "interpreter", "environment")),
)

MAKE = """
set -euo pipefail
for file in {sources}; do source "$BUNDLE/$file"; done
python=$(python_3_11 "$FOLDER")
virtualenv --quiet --python "$python" "$FOLDER"
grep -vE '^(--|#|horovod==)' "$LOCK" >"$FOLDER/wanted.txt"
{uv} pip install --python "$FOLDER/bin/python" --no-deps -r "$FOLDER/wanted.txt"
install_lock "$FOLDER" "$LOCK"
link_libraries "$FOLDER"
"""


@dataclass(frozen=True)
class Environment:
    folder: Path
    lock: Path
    log: str
    """What the steps printed."""

    def run(
        self, *argv: str, libraries: Path | None = None, timeout_s: float = 300
    ) -> subprocess.CompletedProcess[str]:
        """A program of the environment. `libraries`: where the loader looks first."""
        variables = {"PATH": f"{self.folder}/bin:{os.environ['PATH']}", "OMPI_ALLOW_RUN_AS_ROOT": "1"}
        variables |= {"OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1", "HOME": os.environ["HOME"], "CUDA_VISIBLE_DEVICES": ""}
        if libraries:
            variables["LD_LIBRARY_PATH"] = str(libraries)
        return subprocess.run(argv, env=variables, capture_output=True, text=True, timeout=timeout_s, check=False)

    def verify(self, libraries: Path | None = None) -> subprocess.CompletedProcess[str]:
        program = str(ROOT / "bootstrap/environments/verify.py")
        return self.run(str(self.folder / "bin/python"), program, str(self.lock), libraries=libraries)


@dataclass(frozen=True)
class Machine:
    """What a node has: its tools, where uv downloads from, and CUDA's toolkits."""

    tools: Path
    downloads: Path
    toolkits: Path

    def make(self, name: str, folder: Path, *, without: Sequence[str] = ()) -> Environment:
        """`without`: packages and imports that are left out of the lock."""
        lock = folder.parent / "locks" / f"{name}.txt"
        lock.parent.mkdir(exist_ok=True)
        lock.write_text(_less(ROOT / f"bootstrap/environments/{name}.txt", without))
        kept = {key: value for key, value in os.environ.items() if not re.match("PIP_|UV_|CUDA|HOROVOD", key)}
        variables = UV_CACHE | {
            "PATH": f"{self.tools}/bin:{os.environ['PATH']}",
            "PIP_CONFIG_FILE": os.devnull,  # this machine's pip may prefer builds for CPUs
            "PIP_CACHE_DIR": str(Path(UV_CACHE["UV_CACHE_DIR"]).with_name("pip")),
            "UV_NO_CONFIG": "1",
            "UV_PYTHON_DOWNLOADS_JSON_URL": str(self.downloads),
            "CUDA_ROOT": str(self.toolkits),
            "BUNDLE": str(ROOT / "bootstrap"),
            "FOLDER": str(folder),
            "LOCK": str(lock),
        }
        script = MAKE.format(sources=" ".join(SOURCES), uv=" ".join(UV))
        done = subprocess.run(["bash", "-c", script], env=kept | variables, capture_output=True, text=True, check=False)
        log = done.stdout + done.stderr
        assert done.returncode == 0, log[-6000:]
        return Environment(folder, lock, log)


def _less(lock: Path, without: Sequence[str]) -> str:
    lines = [line for line in lock.read_text().splitlines() if line.partition("==")[0] not in without]
    names = "|".join(f"{each.replace('-', '.')}[a-z_.]*" for each in without)
    return "\n".join(re.sub(rf" ({names})(?= |$)", "", line) if names else line for line in lines) + "\n"


@contextmanager
def machine(folder: Path, toolkits: Path) -> Iterator[Machine]:
    tools = folder / "tools"
    subprocess.run([*UV, "venv", "--python", sys.executable, tools], check=True)
    subprocess.run(
        [*UV, "pip", "install", "--python", tools / "bin/python", "virtualenv"], env=os.environ | UV_CACHE, check=True
    )
    handler = functools.partial(SimpleHTTPRequestHandler, directory=str(folder / "mirror"))
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        downloads = python_mirror.make(folder / "mirror", f"http://127.0.0.1:{server.server_port}")
        try:
            yield Machine(tools, downloads, toolkits)
        finally:
            server.shutdown()


def stub_driver(folder: Path, *libraries: Path) -> Path:
    """A libcuda.so.1 that has what these libraries want of the driver, and says that there is no GPU."""
    folder.mkdir(exist_ok=True)
    symbols = set()
    for library in libraries:
        listed = subprocess.run(["nm", "-D", "--undefined-only", library], capture_output=True, text=True, check=True)
        symbols |= set(re.findall(r"\bU (cu[A-Z]\w*)", listed.stdout))
    source = folder / "cuda.c"
    source.write_text("".join(f"int {name}(void) {{ return 100; }}\n" for name in sorted(symbols | {"cuInit"})))
    argv = ["gcc", "-shared", "-fPIC", "-Wl,-soname,libcuda.so.1", "-o", folder / "libcuda.so.1", source]
    subprocess.run(argv, check=True)
    return folder
