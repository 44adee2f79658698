"""The record of a cluster on a local cloud, and starting that cloud.

Only the record beside the cluster file makes a cluster local. It is written here and read by
`gpucluster.cluster.aws`.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import urllib.error
import urllib.request
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from gpucluster.errors import GpuClusterError, UsageError

DEFAULT_PORT = 5566
ACCOUNT = "123456789012"
"""The account of every local cloud (`localcloud/clients.py`)."""
HERE = ("127.0.0.1", "localhost")
ENDED = ".ended"
DEFAULT_WHEELS = Path("~/.cache/gpucluster/wheels")


@dataclass(frozen=True)
class Record:
    endpoint_url: str
    localcloud_name: str
    started: bool
    """Whether `up --local` started that cloud: then `down` stops it."""
    secret_access_key: str
    """Each local cloud has its own key."""
    access_key_id: str = "localcloud"


def state_folder(config_file: Path) -> Path:
    """The folder with this command line's data about a cluster: beside its file, with a name that git ignores."""
    return config_file.resolve().parent / ".gpucluster"


def record_path(config_file: Path, cluster: str) -> Path:
    return state_folder(config_file) / f"{cluster}.json"


def read(config_file: Path, cluster: str) -> Record | None:
    try:
        text = record_path(config_file, cluster).read_text(encoding="utf-8")
    except FileNotFoundError:
        return None
    fields = json.loads(text)
    known = {key: fields[key] for key in Record.__dataclass_fields__ if key in fields}
    return Record(**{"secret_access_key": ""} | known)


def write(config_file: Path, cluster: str, record: Record) -> None:
    path = record_path(config_file, cluster)
    path.parent.mkdir(exist_ok=True)
    path.touch(mode=0o600)
    path.chmod(0o600)  # it contains a secret
    path.write_text(json.dumps(asdict(record), indent=2) + "\n", encoding="utf-8")


def environment(record: Record | None, *, region: str) -> dict[str, str | None]:
    """Variables for a program that calls AWS: endpoint, region and keys. None removes a variable: the user's profile
    must not mix with the local cloud's keys."""
    if record is None:
        return {"AWS_REGION": region}
    return {
        "AWS_REGION": region,
        "AWS_ENDPOINT_URL": record.endpoint_url,
        "AWS_ACCESS_KEY_ID": record.access_key_id,
        "AWS_SECRET_ACCESS_KEY": record.secret_access_key,
        "AWS_SESSION_TOKEN": None,
        "AWS_PROFILE": None,
        "AWS_DEFAULT_PROFILE": None,
        **_around_proxy(),
    }


def _around_proxy() -> dict[str, str]:
    """The user's exceptions from a proxy, and this machine. Most programs read the lower case name first."""
    before = os.environ.get("no_proxy") or os.environ.get("NO_PROXY") or ""
    names = dict.fromkeys([*filter(None, before.split(",")), *HERE])
    return dict.fromkeys(("no_proxy", "NO_PROXY"), ",".join(names))


def leave_proxy() -> None:
    """From now on this process, and those that it starts, reach this machine without the user's proxy: no proxy leads
    here, and a local cloud knows its owner by the connection."""
    os.environ.update(_around_proxy())


def forget(config_file: Path, cluster: str) -> None:
    """Records that the local cluster was deleted, so that later commands do not look for it on AWS."""
    record = record_path(config_file, cluster)
    record.replace(record.with_suffix(ENDED))


def ended(config_file: Path, cluster: str) -> bool:
    """Whether the cluster was local and was deleted."""
    return record_path(config_file, cluster).with_suffix(ENDED).exists()


def running_at(endpoint_url: str, *, timeout_s: float = 2.0) -> str | None:
    """The name of the local cloud that answers at the endpoint; None if no local cloud does."""
    leave_proxy()
    try:
        with urllib.request.urlopen(f"{endpoint_url}/_localcloud/status", timeout=timeout_s) as answer:
            name: str = json.load(answer)["name"]
            return name
    except (urllib.error.URLError, OSError, ValueError, KeyError):
        return None


def secret_access_key(name: str) -> str:
    """The key of a running local cloud. Raises its command line's error, since only its owner may read the key."""
    argv = [sys.executable, "-m", "localcloud", "env", "--name", name, "--json"]
    done = subprocess.run(argv, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise _reported(done.returncode, done.stderr.splitlines())
    secret: str = json.loads(done.stdout)["AWS_SECRET_ACCESS_KEY"]
    return secret


def up_argv(*, name: str, port: int, image: Path | None, wheels: Path | None) -> list[str]:
    options = ["--name", name, "--port", str(port)]
    if image:
        options += ["--image", str(image)]
    if wheels:
        options += ["--wheels", str(wheels)]
    return [sys.executable, "-m", "localcloud", "up", *options, "--detach"]


def down_argv(name: str) -> list[str]:
    return [sys.executable, "-m", "localcloud", "down", "--name", name]


def call(command: Sequence[str], *, tell: Callable[[str], None]) -> None:
    """Runs a verb of the local cloud and shows its progress. Raises the verb's error with its exit code."""
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True) as process:
        assert process.stderr is not None
        said = []
        for line in map(str.rstrip, process.stderr):
            said.append(line)
            if not line.startswith("error: "):
                tell(line)
    if process.returncode != 0:
        raise _reported(process.returncode, said)


def _reported(exit_code: int, said: Sequence[str]) -> GpuClusterError:
    errors = [line.removeprefix("error: ") for line in said if line.startswith("error: ")]
    message = (errors or list(said) or ["the local cloud did not start"])[-1]
    return UsageError(message) if exit_code == 2 else GpuClusterError(message)
