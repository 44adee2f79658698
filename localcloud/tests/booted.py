"""A cloud of its own whose machines boot, in a process of its own."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import boto3

from localcloud import state
from localcloud.machines import leftovers, ownership
from localcloud.testing import patience

BOOT_TIMEOUT_S = 60
IMAGE = "/aws/service/canonical/ubuntu/server/24.04/stable/current/amd64/hvm/ebs-gp3/ami-id"


@dataclass
class BootedCloud:
    name: str
    port: int
    options: tuple[str, ...] = ()
    started: dict[str, Any] = field(default_factory=dict)

    def command(self, *words: str) -> subprocess.CompletedProcess[str]:
        argv = [sys.executable, "-m", "localcloud", *words, "--name", self.name]
        return subprocess.run(argv, capture_output=True, text=True, timeout=300, check=False)

    def up(self) -> subprocess.CompletedProcess[str]:
        done = self.command("up", "--detach", "--port", str(self.port), *self.options)
        assert done.returncode == 0, done.stderr
        self.started = json.loads(done.stdout)
        return done

    @property
    def state_dir(self) -> Path:
        return Path(self.started["state_dir"])

    @property
    def id(self) -> str:
        found = ownership.owner(self.state_dir)
        assert found
        return found

    def client(self, service: str) -> Any:
        return boto3.client(
            service, region_name="us-east-1", endpoint_url=self.started["endpoint_url"],
            aws_access_key_id="localcloud", aws_secret_access_key=state.secret(self.state_dir),
        )  # fmt: skip

    def image_id(self) -> str:
        value: str = self.client("ssm").get_parameter(Name=IMAGE)["Parameter"]["Value"]
        return value

    def state(self, instance_id: str) -> str:
        found = self.client("ec2").describe_instances(InstanceIds=[instance_id])["Reservations"]
        return str(found[0]["Instances"][0]["State"]["Name"])

    def console(self, instance_id: str, until: str) -> str:
        deadline, text = patience.seconds() + BOOT_TIMEOUT_S, ""
        while until not in text:
            assert patience.seconds() < deadline, f"{until!r} never came; the console says:\n{text[-3000:]}"
            time.sleep(0.3)
            text = self.client("ec2").get_console_output(InstanceId=instance_id).get("Output", "")
        return text


@contextmanager
def booted(name: str, port: int, *options: str) -> Iterator[BootedCloud]:
    """`port`: the first of ten thousand, of which each process takes another. `options`: of `localcloud up`."""
    cloud = BootedCloud(f"{name}-{os.getpid()}", port + os.getpid() % 10000, options)
    cloud.up()
    yield cloud
    assert cloud.command("down").returncode == 0
    assert leftovers.found(cloud.state_dir) == []
    shutil.rmtree(cloud.state_dir)
