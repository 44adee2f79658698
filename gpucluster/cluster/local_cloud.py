"""Where a cluster lives that is not on AWS, and starting the local cloud for it.

The record beside the cluster file is all that makes a cluster local. It is written here and read by
`gpucluster.cluster.aws`.
"""

from __future__ import annotations

import json
import subprocess
import sys
import urllib.error
import urllib.request
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from gpucluster.errors import GpuClusterError, UsageError

DEFAULT_PORT = 5566
ENDED = ".ended"
DEFAULT_WHEELS = Path("~/.cache/gpucluster/wheels")


@dataclass(frozen=True)
class Record:
    endpoint_url: str
    localcloud_name: str
    started: bool
    """Whether `up --local` started that cloud: then `down` ends it."""
    secret_access_key: str
    """Each cloud has its own."""
    access_key_id: str = "localcloud"


def state_folder(config_file: Path) -> Path:
    """What this command line keeps of a cluster: beside its file, under a name that git ignores."""
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
    path.chmod(0o600)  # it holds a secret
    path.write_text(json.dumps(asdict(record), indent=2) + "\n", encoding="utf-8")


def environment(record: Record | None, *, region: str) -> dict[str, str | None]:
    """For a program that calls AWS: where, and as whom. None takes a variable away: the user's own profile must not mix
    with the local cloud's keys."""
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
        "NO_PROXY": "127.0.0.1,localhost",
        "no_proxy": "127.0.0.1,localhost",
    }


def forget(config_file: Path, cluster: str) -> None:
    """The cluster is no more. That it was here is kept, so that nobody is sent to AWS to look for it."""
    record = record_path(config_file, cluster)
    record.replace(record.with_suffix(ENDED))


def ended(config_file: Path, cluster: str) -> bool:
    """Whether the cluster was here and was taken down."""
    return record_path(config_file, cluster).with_suffix(ENDED).exists()


def running_at(endpoint_url: str, *, timeout_s: float = 2.0) -> str | None:
    """The name of the local cloud that answers there; None where nobody does, or somebody else."""
    try:
        with urllib.request.urlopen(f"{endpoint_url}/_localcloud/status", timeout=timeout_s) as answer:
            name: str = json.load(answer)["name"]
            return name
    except (urllib.error.URLError, OSError, ValueError, KeyError):
        return None


def secret_access_key(name: str) -> str:
    """Of a local cloud that runs. Raises what its command line reports: only who started it may read the key."""
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
    """Runs a verb of the local cloud and tells what it says on the way. Raises what it reports, with its exit code."""
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
