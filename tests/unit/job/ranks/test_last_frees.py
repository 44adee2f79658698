"""A rank of torch on CPUs ends after its threads of Gloo have let go: the entry point of a job, and what it waits for.

Real torch without it: in twelve runs of two ranks that end after a backward pass, with sys.setswitchinterval(1000),
several ranks ended with SIGABRT.
"""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

from gpucluster.job import library

THREAD = """
import ctypes, hashlib, sys, threading
def work():
    ctypes.CDLL(None).prctl(15, NAME, 0, 0, 0)
    started.set()
    hashlib.pbkdf2_hmac("sha256", b"", b"", 200_000)  # runs without Python's lock, as a collective does
    print("let go", flush=True)
started = threading.Event()
threading.Thread(target=work, daemon=True).start()
started.wait()
"""


def run(tmp_path: Path, program: str) -> str:
    """In a process that finds the job's lib/ as its ranks do, with a torch that does what torch's import does."""
    for name, text in library.files().items():
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    (tmp_path / "torch.py").write_text(
        "from importlib.metadata import entry_points\n"
        "for each in entry_points(group='torch.backends'):\n    each.load()()\n"
    )
    environment = {**os.environ, "PYTHONPATH": f"{tmp_path}:{tmp_path / 'lib'}", "TORCH_DEVICE_BACKEND_AUTOLOAD": "1"}
    done = subprocess.run([sys.executable, "-c", program], env=environment, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_a_thread_of_gloo_gets_pythons_lock_before_python_ends(tmp_path: Path) -> None:
    thread = THREAD.replace("NAME", "b'pt_gloo_runloop'")
    assert run(tmp_path, thread) == ""
    assert run(tmp_path, "import torch\n" + thread) == "let go\n"


def test_a_gpucluster_train_of_the_users_own_does_no_harm(tmp_path: Path) -> None:
    """It comes first on the path of their program, and another version may lack the module."""
    (tmp_path / "gpucluster_train").mkdir()
    (tmp_path / "gpucluster_train/__init__.py").touch()
    thread = THREAD.replace("NAME", "b'pt_gloo_runloop'")
    assert run(tmp_path, "import torch\n" + thread) == "let go\n"


def test_another_thread_is_not_waited_for(tmp_path: Path) -> None:
    assert run(tmp_path, "import torch\n" + THREAD.replace("NAME", "b'another'")) == ""


def test_a_thread_that_never_lets_go_holds_a_rank_for_seconds(tmp_path: Path) -> None:
    began = time.monotonic()
    forever = THREAD.replace("NAME", "b'pt_gloo_runloop'").replace("200_000", "10**9")
    assert run(tmp_path, f"import torch\n{forever}") == ""
    assert time.monotonic() - began < 100, "the thread takes half an hour"


def test_every_package_of_a_rank_has_a_name(tmp_path: Path) -> None:
    """transformers asks for the names of all, and fails for one without metadata."""
    assert "gpucluster_last_frees" in run(
        tmp_path, "import importlib.metadata as m; print([each.metadata['Name'] for each in m.distributions()])"
    )
