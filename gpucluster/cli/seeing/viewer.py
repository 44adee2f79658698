"""TensorBoard on this machine: an environment of its own, and the program.

If TensorFlow can be imported, TensorBoard reads files through it, and TensorFlow cannot read s3:// any more
(TensorBoard's release notes, 2.6): so it gets an environment without TensorFlow, and the user's stay as they are.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from gpucluster.errors import GpuClusterError, UsageError
from gpucluster.head import forwarding

VERSION = "2.21.0"
"""2.20 imports pkg_resources, which setuptools has had no longer since 81 (TensorBoard's release notes)."""
PACKAGES = (f"tensorboard=={VERSION}", "boto3>=1.40,<2")
"""It reads s3:// with boto3 (tensorboard/compat/tensorflow_stub/io/gfile.py)."""
USUAL_PORT = 6006
START_S = 120.0
_END_S, _POLL_S = 10.0, 0.2
_SHOWN = 3


def python(tell: Callable[[str], None]) -> Path:
    """The environment's Python. Makes the environment the first time. Raises GpuClusterError."""
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "gpucluster"
    folder = cache / f"tensorboard-{VERSION}"
    found = folder / "bin" / "python"
    if found.exists():  # not if this machine's Python that it was made with is gone
        return found
    tell(f"installing TensorBoard {VERSION} into {folder}, once")
    cache.mkdir(parents=True, exist_ok=True)
    made = Path(tempfile.mkdtemp(prefix=f".{folder.name}-", dir=cache))
    try:
        _install(made)
        shutil.rmtree(folder, ignore_errors=True)
        with contextlib.suppress(OSError):  # another one was faster
            made.rename(folder)
    finally:
        shutil.rmtree(made, ignore_errors=True)
    return found


def _install(folder: Path) -> None:
    """A complete environment, or an error: its folder gets its name afterwards."""
    uv, own = shutil.which("uv"), str(folder / "bin" / "python")
    if uv:
        _run([uv, "venv", "--quiet", "--allow-existing", "--python", sys.executable, str(folder)])
        _run([uv, "pip", "install", "--quiet", "--python", own, *PACKAGES])
    else:
        _run([sys.executable, "-m", "venv", str(folder)])
        _run([own, "-m", "pip", "install", "--quiet", *PACKAGES])


def _run(argv: Sequence[str]) -> None:
    done = subprocess.run(argv, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False)
    if done.returncode:
        said = "; ".join((done.stderr or done.stdout).strip().splitlines()[-_SHOWN:]) or f"exit code {done.returncode}"
        hint = "it comes from PyPI: can this machine reach it, or the index of pip's configuration?"
        raise GpuClusterError(f"TensorBoard could not be installed: {said}", hint)


def port(asked: int | None) -> int:
    """The asked one, or the usual one or the next that is free. Raises UsageError."""
    if asked is None:
        return forwarding.first_free(USUAL_PORT) or USUAL_PORT
    if forwarding.taken(asked):
        free = forwarding.first_free(asked + 1)
        raise UsageError(f"port {asked} of this machine is in use", f"the next free port: --port {free}")
    return asked


@contextlib.contextmanager
def shown(program: Path, logs: str, on: int, reload_s: int) -> Iterator[subprocess.Popen[bytes]]:
    """TensorBoard, from when it answers until the end of the block. Only this machine can connect to it. Raises
    GpuClusterError."""
    argv = [str(program), "-m", "tensorboard.main", "serve", f"--logdir={logs}", "--host=127.0.0.1", f"--port={on}"]
    with tempfile.TemporaryFile() as said:
        process = subprocess.Popen(
            [*argv, f"--reload_interval={reload_s}"], stdin=subprocess.DEVNULL, stdout=said, stderr=said
        )
        try:
            until = time.monotonic() + START_S
            while not _answers(on):
                if process.poll() is not None or time.monotonic() > until:
                    said.seek(0)
                    lines = said.read().decode(errors="replace").strip().splitlines()[-_SHOWN:]
                    raise GpuClusterError(f"TensorBoard did not start: {'; '.join(lines) or 'it printed nothing'}")
                time.sleep(_POLL_S)
            yield process
        finally:
            process.terminate()
            try:
                process.wait(_END_S)
            except subprocess.TimeoutExpired:
                process.kill()


def _answers(on: int) -> bool:
    try:
        with socket.create_connection((forwarding.LOOPBACK, on), _POLL_S):
            return True
    except OSError:
        return False
