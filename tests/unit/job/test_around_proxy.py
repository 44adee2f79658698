"""What a job's programs reach without the proxy, as the programs themselves decide it."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from urllib.request import proxy_bypass_environment

import pytest
from botocore.utils import should_bypass_proxies
from pip._vendor.requests import utils as requests

from gpucluster_job import around_proxy

NODES = ["train-1", "train-2"]
GETENT = """#!/bin/sh
[ "$*" = "ahostsv4 train-1 train-2" ] || exit 2
printf '%s\\n' '127.0.1.1 STREAM train-1' '10.0.0.17 STREAM train-1' '10.0.0.17 DGRAM' '10.0.0.18 STREAM train-2'
"""
PROGRAMS: dict[str, Callable[[str], bool]] = {
    "urllib": lambda host: bool(proxy_bypass_environment(host)),
    "botocore": lambda host: bool(should_bypass_proxies(f"http://{host}:8000/")),
    "requests": lambda host: bool(requests.should_bypass_proxies(f"http://{host}:8000/", None)),
}


@pytest.fixture(autouse=True)
def on_node(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """With the proxy of an existing VPC, and the names of two nodes."""
    (tmp_path / "getent").write_text(GETENT)
    (tmp_path / "getent").chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    for name in (*around_proxy.PROXIES, *around_proxy.EXCEPTIONS):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("http_proxy", "http://proxy:3128")
    for name in around_proxy.EXCEPTIONS:
        monkeypatch.setenv(name, "localhost,10.0.0.0/24")


@pytest.mark.parametrize("program", PROGRAMS)
@pytest.mark.parametrize("host", ["train-1", "10.0.0.17", "10.0.0.18"])
def test_a_jobs_nodes_are_reached_directly(program: str, host: str, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in around_proxy.variables(NODES, os.environ).items():
        monkeypatch.setenv(name, value)
    assert PROGRAMS[program](host)
    assert not PROGRAMS[program]("train-11.example.com")


def test_some_programs_do_not_understand_a_network() -> None:
    """The reason why each node is in the list. If this fails, a program has learnt it."""
    assert {name: directly("10.0.0.17") for name, directly in PROGRAMS.items()} == {
        "urllib": False,
        "botocore": False,
        "requests": True,
    }


def test_the_exceptions_of_the_nodes_stay() -> None:
    own = "localhost,10.0.0.0/24,train-1,train-2,10.0.0.17,10.0.0.18"
    assert around_proxy.variables(NODES, os.environ) == {"no_proxy": own, "NO_PROXY": own}


def test_without_a_proxy_nothing_is_set() -> None:
    assert around_proxy.variables(NODES, {"no_proxy": "localhost", "http_proxy": ""}) == {}
