"""The wheel of the local cloud, and a cloud that runs from one, without the checkout."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

from localcloud.testing.ports import two_free_ports

DISTRIBUTION = Path(__file__).resolve().parents[1]
ASK = """
import boto3
ec2 = boto3.client("ec2")
vpc = ec2.create_vpc(CidrBlock="10.0.0.0/16")["Vpc"]["VpcId"]
print(vpc == ec2.describe_vpcs(VpcIds=[vpc])["Vpcs"][0]["VpcId"])
"""


def build(folder: Path) -> Path:
    argv = [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--wheel-dir", str(folder), str(DISTRIBUTION)]
    done = subprocess.run(argv, capture_output=True, text=True, check=False, timeout=600)
    assert done.returncode == 0, done.stderr
    (wheel,) = folder.glob("*.whl")
    return wheel


class Installed:
    """`python` finds the wheel and nothing of the checkout; commands run in an empty folder."""

    def __init__(self, python: Path, folder: Path, **variables: str) -> None:
        self.python = python
        self.folder = folder
        kept = {name: value for name, value in os.environ.items() if not name.startswith(("AWS_", "PYTHON"))}
        self.environment = {**kept, "LOCALCLOUD_ROOT": str(folder / "state"), **variables}
        (folder / "empty").mkdir()

    def run(self, *arguments: str) -> str:
        argv = [str(self.python), *arguments]
        place = {"cwd": self.folder / "empty", "env": self.environment}
        done = subprocess.run(argv, capture_output=True, text=True, check=False, timeout=600, **place)
        assert done.returncode == 0, (argv, done.stderr)
        return done.stdout

    def cloud(self, *arguments: str) -> str:
        return self.run("-m", "localcloud", *arguments)

    def package(self) -> Path:
        return Path(self.run("-c", "import localcloud; print(localcloud.__file__)").strip()).parent

    def lives_and_ends(self) -> None:
        """Starts a cloud, gets its keys, makes an SDK call, and ends it."""
        port = str(two_free_ports()[0])
        started = json.loads(self.cloud("up", "--no-boot", "--detach", "--port", port, "--while-pid", str(os.getpid())))
        try:
            assert started["endpoint_url"] == f"http://127.0.0.1:{port}"
            self.environment |= json.loads(self.cloud("env", "--json"))
            assert self.run("-c", ASK).strip() == "True"
        finally:
            self.cloud("down")
        assert not (self.folder / "state/default/cloud.json").exists()
