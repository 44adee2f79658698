"""A GpuCluster on this machine for tests: its own folder, its own local cloud, and every command as users type it."""

from __future__ import annotations

import contextlib
import json
import os
import secrets
import shutil
import signal
import subprocess
import sys
import time
import urllib.request
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import boto3
from botocore.config import Config
from gpucluster_node import names

from gpucluster.cli.reach.ssh import remote_command
from gpucluster.cluster import aws
from gpucluster.config import load
from gpucluster.head.remote import SshRemote
from localcloud import state
from localcloud.testing import cdk_project
from localcloud.testing.patience import seconds, stretched
from localcloud.testing.patience import wait_for as wait_for
from localcloud.testing.ports import two_free_ports
from tests import warm

ROOT = Path(__file__).resolve().parents[2]
WHEELS = Path("~/.cache/gpucluster/wheels").expanduser()
UP_TIMEOUT_S = 420
EPILOG_S = 30


def _node_of(instance: dict[str, Any]) -> str:
    return names.node_of(instance["tags"].get(names.TAG, ""), instance["launch_index"]) or ""


@dataclass(frozen=True)
class Bed:
    folder: Path
    name: str  # of the local cloud
    port: int
    user: str = ""
    """A user of cluster.yaml; default: the administrator."""
    python: str = ""
    """The folder of the jobs' Python; default: an environment, which the first job builds."""
    _remotes: dict[frozenset[str], SshRemote] = field(default_factory=dict, compare=False, repr=False)
    """At most one connection: to the head node with this id."""

    @classmethod
    def make(cls, folder: Path) -> Bed:
        """With the default cluster.yaml; nothing is started."""
        shutil.copy(ROOT / "cluster.yaml", folder / "cluster.yaml")
        return cls(folder, f"test-{secrets.token_hex(3)}", two_free_ports()[0])

    @property
    def config(self) -> Path:
        return self.folder / "cluster.yaml"

    @property
    def endpoint_url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    @property
    def secret(self) -> str:
        """The cloud's record, once it runs."""
        with contextlib.suppress(FileNotFoundError):
            return state.secret(state.state_dir(self.name))
        return ""

    def environment(self) -> dict[str, str]:
        own = {"GPUCLUSTER_CONFIG": str(self.config), "GPUCLUSTER_USER": self.user}
        return {**cdk_project.environment(self.endpoint_url, self.secret), **own}

    def of(self, user: str) -> Bed:
        """The same cluster, for the commands of this user; `ssh` remains the administrator's."""
        return replace(self, user=user)

    def start(self, verb: str, *arguments: str, cwd: Path = ROOT) -> subprocess.Popen[str]:
        """Runs a command in the background, in its own process group, so that it can be interrupted as by Ctrl-C."""
        argv = [sys.executable, "-m", "gpucluster.cli", verb, *arguments]
        return subprocess.Popen(
            argv, env=self.environment() | {"PYTHONPATH": str(ROOT), "PYTHONUNBUFFERED": "1"}, cwd=cwd, text=True,
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, start_new_session=True,
        )  # fmt: skip

    def gpucluster(self, verb: str, *arguments: str, timeout_s: float = 120) -> subprocess.CompletedProcess[str]:
        environment = self.environment() | {"PYTHONPATH": str(ROOT)}
        return warm.gpucluster(verb, *arguments, env=environment, timeout_s=timeout_s)

    def localcloud(self, *words: str, timeout_s: float = 180) -> subprocess.CompletedProcess[str]:
        argv = [sys.executable, "-m", "localcloud", *words, "--name", self.name]
        return subprocess.run(argv, cwd=ROOT, capture_output=True, text=True, timeout=timeout_s, check=False)

    def cdk(self, *words: str, timeout_s: float = UP_TIMEOUT_S) -> subprocess.CompletedProcess[str]:
        argv = [str(cdk_project.CLI), *words, "--output", str(self.folder / "cdk.out")]
        return subprocess.run(
            argv, env=self.environment(), cwd=ROOT, capture_output=True, text=True, timeout=timeout_s, check=False
        )

    def open_cloud(self, while_pid: int | None = 0) -> None:
        """while_pid: the process with which the cloud ends, however it ends; 0: this one; None: none."""
        wheels = ["--wheels", str(WHEELS)] if WHEELS.is_dir() else []
        ends_with = [] if while_pid is None else ["--while-pid", str(while_pid or os.getpid())]
        done = self.localcloud("up", "--detach", "--port", str(self.port), *ends_with, *wheels)
        assert done.returncode == 0, done.stderr

    def up(self, *options: str) -> dict[str, Any]:
        done = self.gpucluster("up", "--local", "--port", str(self.port), *options, timeout_s=UP_TIMEOUT_S)
        assert done.returncode == 0, done.stderr + done.stdout
        result: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
        return result

    def close(self) -> None:
        """Ends everything that belongs to the cloud, by the cloud's id."""
        self._disconnect()
        self.localcloud("down")
        shutil.rmtree(state.state_dir(self.name), ignore_errors=True)

    def ask(self, what: str) -> Any:
        with urllib.request.urlopen(f"{self.endpoint_url}/_localcloud/{what}", timeout=120) as answer:
            return json.load(answer)

    def client(self, service: str) -> Any:
        """Its calls are repeated for minutes, because another test may have them throttled meanwhile."""
        keys = {"aws_access_key_id": "localcloud", "aws_secret_access_key": self.secret}
        patient = Config(retries={"mode": "standard", "total_max_attempts": 20})
        return boto3.client(service, region_name="us-east-1", endpoint_url=self.endpoint_url, config=patient, **keys)

    def instances(self, role: str) -> dict[str, dict[str, Any]]:
        """Instance id -> the cloud's data of it, and its node (empty: none yet); only running instances."""
        return {
            each["instance_id"]: {**each, "node": _node_of(each)}
            for each in self.ask("status")["instances"]
            if each["tags"].get("gpucluster:role") == role and each["state"] in ("pending", "running")
        }

    def instance_of(self, node: str) -> str:
        """The id of the node's newest running instance."""
        found = [id_ for id_, each in self.instances("compute").items() if each["node"] == node]
        return found[-1]

    def fault(self, kind: str, node: str, *options: str) -> str:
        """Adds a fault of the node's instance; returns the rule's id, if the fault is one that stays."""
        done = self.localcloud("fault", "add", kind, "--instance-id", self.instance_of(node), *options)
        assert done.returncode == 0, done.stderr
        return str(json.loads(done.stdout).get("id", ""))

    def launched_since(self, since: float) -> set[str]:
        calls = self.ask(f"calls?since={since}")
        launches = [call for call in calls if call["action"] in ("RunInstances", "CreateFleet") and not call["error"]]
        return {instance_id for call in launches for instance_id in call["instance_ids"]}

    def ssh(self, *command: str, timeout_s: float = 120) -> str:
        """The output of `gpucluster ssh -- COMMAND`, over one connection; the command opens one for each call."""
        done = self._remote().run(remote_command(command), timeout_s=stretched(timeout_s))
        assert done.exit_code == 0, f"{command}: {done.stderr}{done.stdout}"
        return done.stdout

    def _remote(self) -> SshRemote:
        head = frozenset(self.instances("head"))
        if head not in self._remotes:
            self._disconnect()
            self._remotes[head] = SshRemote(aws.connect(load(self.config), self.config).door())
        return self._remotes[head]

    def _disconnect(self) -> None:
        while self._remotes:
            self._remotes.popitem()[1].close()

    def submit(self, *arguments: str, timeout_s: float = 240) -> Submitted:
        own = ("--python", self.python) if self.python else ()
        done = self.gpucluster("submit", *own, *arguments, timeout_s=timeout_s)
        lines = done.stdout.splitlines()
        assert lines and lines[-1].startswith("{"), done.stderr + done.stdout
        submitted = Submitted(done.returncode, lines[:-1], done.stderr, json.loads(lines[-1]))
        if "--follow" in arguments:
            self._await_epilog(submitted.last["job_id"])
        return submitted

    def _await_epilog(self, job_id: str) -> None:
        """Until then Slurm gives the job's nodes to no other job, and launches others instead. Not for long, because a
        job whose node was lost may be COMPLETING for minutes."""
        limit = seconds() + EPILOG_S
        while seconds() < limit and self.ssh("sh", "-c", f"squeue -h -j {job_id} 2>/dev/null || :").strip():
            time.sleep(0.5)

    def status(self) -> dict[str, Any]:
        done = self.gpucluster("status", "--json")
        assert done.returncode == 0, done.stderr
        answer: dict[str, Any] = json.loads(done.stdout)
        return answer


@dataclass(frozen=True)
class Submitted:
    exit_code: int
    log: list[str]
    told: str
    last: dict[str, Any]

    @property
    def result(self) -> dict[str, Any]:
        found: dict[str, Any] = self.last["result"]
        return found


def interrupt(process: subprocess.Popen[str]) -> None:
    """Ctrl-C: the terminal signals the whole group."""
    os.killpg(process.pid, signal.SIGINT)
