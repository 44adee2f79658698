"""Two runs that change one cluster at the same time, from two checkouts and from one: what each of them reports is what
it did. The real CDK command line, whose change set has one name for every run unless it is given another (aws-cdk
issue 9545)."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from gpucluster import updates
from gpucluster.cluster import local_cloud, stack
from tests.cloud.played_head import Head

ROOT = Path(__file__).resolve().parents[2]
NAME = "Shared"
CLUSTER = """
name: Shared
region: us-east-1
head_node: {instance_type: m6i.large, volume_gib: 20, on_delete: delete}
partitions:
  - {name: train, instance_types: [g5.12xlarge], max_nodes: 2}
"""
WIDER = CLUSTER.replace("max_nodes: 2", "max_nodes: 4")
DEBUG = CLUSTER + "  - {name: debug, instance_types: [g5.xlarge], max_nodes: 1}\n"


def checkout(folder: Path, control_plane: Any) -> Path:
    folder.mkdir()
    (folder / "cluster.yaml").write_text(CLUSTER)
    record = local_cloud.Record(control_plane.endpoint_url, "default", False, control_plane.secret)
    local_cloud.write(folder / "cluster.yaml", NAME, record)
    return folder / "cluster.yaml"


def started(file: Path, verb: str, *options: str) -> subprocess.Popen[str]:
    argv = [sys.executable, "-m", "gpucluster.cli", "-c", str(file), verb, *options]
    pipe = subprocess.PIPE
    return subprocess.Popen(argv, cwd=ROOT, text=True, stdin=subprocess.DEVNULL, stdout=pipe, stderr=pipe)


def ended(process: subprocess.Popen[str]) -> subprocess.CompletedProcess[str]:
    out, err = process.communicate(timeout=120)
    return subprocess.CompletedProcess(process.args, process.returncode, out, err)


def deployed(control_plane: Any) -> set[tuple[str, int]]:
    found = updates.read(stack.template_metadata(control_plane.client("cloudformation"), NAME)).config
    return {(each.name, each.max_nodes) for each in found.partitions}


@pytest.fixture
def file(bootstrapped: Any, tmp_path: Path) -> Iterator[Path]:
    found = checkout(tmp_path / "a", bootstrapped)
    yield found
    cloudformation = bootstrapped.client("cloudformation")
    cloudformation.delete_stack(StackName=NAME)
    for _ in stack.follow(cloudformation, NAME, interval_s=0.2):
        pass


def test_of_two_checkouts_none_reports_what_it_did_not_deploy(file: Path, bootstrapped: Any, tmp_path: Path) -> None:
    other = checkout(tmp_path / "b", bootstrapped)
    with Head(bootstrapped, NAME):
        assert ended(started(file, "up")).returncode == 0
        file.write_text(DEBUG)
        other.write_text(WIDER)
        first = started(file, "up")
        time.sleep(1.5)
        second = started(other, "up")
        runs = {"debug": ended(first), "wider": ended(second)}
    said = {name: done.stderr for name, done in runs.items()}
    succeeded = {name for name, done in runs.items() if done.returncode == 0}
    held = {"debug": ("debug", 1), "wider": ("train", 4)}
    assert succeeded, said
    for name in runs:
        assert (held[name] in deployed(bootstrapped)) == (name in succeeded), said
    for name in runs.keys() - succeeded:
        assert runs[name].returncode == 3 and "another run" in said[name], said
        assert "Traceback" not in said[name]
    for name in succeeded:
        assert json.loads(runs[name].stdout.splitlines()[-1])["changed"] is True
