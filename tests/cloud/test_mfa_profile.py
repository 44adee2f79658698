"""A profile whose role needs an MFA code: asked once, and the CDK command line gets what boto3 found. botocore assumes
the role of the local cloud's STS, and a terminal types the code."""

from __future__ import annotations

import json
import os
import pty
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[2]
CONFIG = """
[profile work]
role_arn = arn:aws:iam::123456789012:role/deployer
mfa_serial = arn:aws:iam::123456789012:mfa/me
source_profile = keys
region = us-east-1
"""
TRUST = {"Effect": "Allow", "Action": "sts:AssumeRole", "Principal": {"AWS": "arn:aws:iam::123456789012:root"}}
PROGRAM = """
import json, os, sys
from pathlib import Path
import boto3
from gpucluster.cluster import aws, cdk
from gpucluster.config import load
file = Path(sys.argv[1])
first, second = aws.connect(load(file), file), aws.connect(load(file), file)
first.account(), second.account()
env = cdk.environment(second.environment(), os.environ)
names = "AWS_PROFILE", "AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN"
keys = {name: env.get(name) for name in names}
Path(sys.argv[2]).write_text(json.dumps(keys))
"""


@pytest.fixture
def home(control_plane: Any, tmp_path: Path) -> Path:
    iam = control_plane.client("iam")
    if "deployer" not in [role["RoleName"] for role in iam.list_roles()["Roles"]]:
        iam.create_role(RoleName="deployer", AssumeRolePolicyDocument=json.dumps({"Statement": [TRUST]}))
    (tmp_path / ".aws").mkdir()
    keys = f"[keys]\naws_access_key_id = localcloud\naws_secret_access_key = {control_plane.secret}\n"
    (tmp_path / ".aws" / "credentials").write_text(keys)
    (tmp_path / ".aws" / "config").write_text(CONFIG)
    (tmp_path / "cluster.yaml").write_text((ROOT / "cluster.yaml").read_text())
    return tmp_path


def environment(home: Path, control_plane: Any) -> dict[str, str]:
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("AWS_", "GPUCLUSTER_"))}
    return kept | {"HOME": str(home), "AWS_PROFILE": "work", "AWS_ENDPOINT_URL": control_plane.endpoint_url}


def in_a_terminal(home: Path, control_plane: Any, *argv: str) -> str:
    """What the program shows; each question for a code gets one."""
    ours, its = pty.openpty()
    process = subprocess.Popen(
        argv, env=environment(home, control_plane), cwd=ROOT, stdin=its, stdout=its, stderr=its, start_new_session=True
    )
    os.close(its)
    shown = ""
    try:
        while chunk := os.read(ours, 1000):
            shown += chunk.decode()
            if chunk.decode().rstrip().endswith(":"):
                os.write(ours, b"123456\n")
    except OSError:  # the program has ended
        pass
    os.close(ours)
    assert process.wait(timeout=60) == 0, shown
    return shown


def test_the_code_is_asked_for_once_and_cdk_gets_the_session(home: Path, control_plane: Any) -> None:
    program = (sys.executable, "-c", PROGRAM, str(home / "cluster.yaml"), str(home / "keys.json"))
    assert in_a_terminal(home, control_plane, *program).count("MFA code") == 1
    keys = json.loads((home / "keys.json").read_text())
    assert keys["AWS_PROFILE"] is None and keys["AWS_SESSION_TOKEN"]
    found = {name.lower(): value for name, value in keys.items() if value}
    assert ":assumed-role/deployer/" in control_plane.client("sts", **found).get_caller_identity()["Arn"]
    assert in_a_terminal(home, control_plane, *program).count("MFA code") == 0  # as the AWS CLI, from its store


def test_without_a_terminal_it_says_so_and_reads_nothing(home: Path, control_plane: Any) -> None:
    argv = [sys.executable, "-m", "gpucluster.cli", "-c", str(home / "cluster.yaml"), "status"]
    with subprocess.Popen(
        argv, cwd=ROOT, env=environment(home, control_plane), text=True, start_new_session=True,
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
    ) as process:  # fmt: skip
        _, said = process.communicate("123456\n", timeout=60)
    assert process.returncode == 3, said
    assert "the profile work asks for an MFA code, and there is no terminal to type it into" in said
    assert "GetPassWarning" not in said and "interrupted" not in said
