"""Containers of a SageMaker job as processes: each with an /opt/ml of its own, and an address of the loopback as its
name."""

from __future__ import annotations

import contextlib
import json
import os
import random
import shutil
import socket
import subprocess
import sys
from pathlib import Path
from typing import Any

PACKAGE = Path(__file__).parents[3] / "gpucluster_job"


def free_port() -> int:
    """The first of five that are free: the hosts meet on those after it. The kernel gives none of these to a client
    (Linux's ip_local_port_range begins at 32768)."""
    for first in random.sample(range(20000, 30000, 5), 100):
        with contextlib.ExitStack() as held, contextlib.suppress(OSError):
            for port in range(first, first + 5):
                held.enter_context(socket.socket()).bind(("", port))
            return first
    raise RuntimeError("no five free ports between 20000 and 30000")


class Job:
    def __init__(self, folder: Path, hosts: int = 1, channels: dict[str, Any] | None = None, path: str = "") -> None:
        self._folder, self._port, self._path = folder, free_port(), path
        self.hosts = [f"127.0.0.{number + 1}" for number in range(hosts)]
        (folder / "tmp").mkdir()
        for host in self.hosts:
            resources = {"current_host": host, "hosts": self.hosts, "network_interface_name": "lo"}
            files = {
                "hyperparameters": {"epochs": "3"},
                "inputdataconfig": channels or {},
                "resourceconfig": resources,
            }
            config = self.base(host) / "input" / "config"
            config.mkdir(parents=True)
            for name, content in files.items():
                (config / f"{name}.json").write_text(json.dumps(content), encoding="utf-8")

    def base(self, host: str = "127.0.0.1") -> Path:
        return self._folder / host

    def start(self, host: str, *words: str, **variables: str) -> subprocess.Popen[str]:
        environment = {
            "PATH": f"{self._path}:{os.environ['PATH']}" if self._path else os.environ["PATH"],
            "TMPDIR": str(self._folder / "tmp"),
            "TRAINING_JOB_NAME": "digits-1",
            "MASTER_PORT": str(self._port),
            "SAGEMAKER_BASE_DIR": str(self.base(host)),
            **variables,
        }
        argv = [sys.executable, "-IS", str(PACKAGE), "sagemaker", *words]
        return subprocess.Popen(argv, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)

    def run(self, *words: str, **variables: str) -> list[tuple[int, str]]:
        """Exit code and log of each host."""
        started = [self.start(host, *words, **variables) for host in self.hosts]
        return [(each.wait(), out) for each, out in [(each, each.communicate(timeout=120)[0]) for each in started]]

    def failure(self, host: str = "127.0.0.1") -> str | None:
        path = self.base(host) / "output" / "failure"
        return path.read_text(encoding="utf-8") if path.exists() else None


def program(folder: Path, text: str) -> list[str]:
    path = folder / "train.py"
    path.write_text(text, encoding="utf-8")
    return ["--", shutil.which("python3") or sys.executable, str(path)]
