"""A pytest plugin: a shared control plane in one process for the session, in which nothing boots."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import urllib.request
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import boto3
import pytest
from botocore.config import Config

from localcloud import state
from localcloud.testing.place import Place, made
from localcloud.testing.ports import two_free_ports


@dataclass(frozen=True)
class ControlPlane:
    endpoint_url: str
    state_dir: Path
    environment: dict[str, str]

    @property
    def secret(self) -> str:
        return state.secret(self.state_dir)

    def client(self, service: str, region: str = "us-east-1", **credentials: str) -> Any:
        """A client with the administrator's or the given credentials. Nothing is retried."""
        keys = credentials or {"aws_access_key_id": "localcloud", "aws_secret_access_key": self.secret}
        once = Config(retries={"total_max_attempts": 1})
        return boto3.client(service, region_name=region, endpoint_url=self.endpoint_url, config=once, **keys)


@pytest.fixture
def ports() -> tuple[int, int]:
    """The ports of an API and of its tunnel: neighbours, both free."""
    return two_free_ports()


@pytest.fixture(scope="session")
def localcloud_command() -> Callable[..., subprocess.CompletedProcess[str]]:
    def run(environment: dict[str, str], *arguments: str) -> subprocess.CompletedProcess[str]:
        argv = [sys.executable, "-m", "localcloud", *arguments]
        return subprocess.run(argv, env=environment, capture_output=True, text=True, timeout=90, check=False)

    return run


@pytest.fixture(scope="session")
def control_plane(
    tmp_path_factory: pytest.TempPathFactory, localcloud_command: Callable[..., subprocess.CompletedProcess[str]]
) -> Iterator[ControlPlane]:
    environment = {**os.environ, "LOCALCLOUD_ROOT": str(tmp_path_factory.mktemp("localcloud"))}
    words = ("--port", str(two_free_ports()[0]), "--while-pid", str(os.getpid()))
    up = localcloud_command(environment, "up", "--no-boot", "--detach", *words)
    assert up.returncode == 0, up.stderr
    started = json.loads(up.stdout)
    yield ControlPlane(started["endpoint_url"], Path(started["state_dir"]), environment)
    down = localcloud_command(environment, "down")
    assert down.returncode == 0, down.stderr


@pytest.fixture(scope="module")
def place(control_plane: ControlPlane) -> Iterator[Place]:
    with made(control_plane) as place:
        yield place


@pytest.fixture
def own(control_plane: Any) -> Iterator[Callable[..., Any]]:
    """Calls the cloud's own routes; faults are removed afterwards."""

    def call(method: str, route: str, body: dict[str, Any] | None = None) -> Any:
        data = json.dumps(body).encode() if body is not None else None
        request = urllib.request.Request(f"{control_plane.endpoint_url}/_localcloud/{route}", data, method=method)
        with urllib.request.urlopen(request, timeout=60) as response:
            return json.load(response)

    yield call
    call("DELETE", "faults")
