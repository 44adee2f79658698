"""The process of a cloud: starts it, in the foreground or the background, and ends it."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import socket
import subprocess
import sys
import threading
import time
import urllib.error
import urllib.request
from dataclasses import dataclass
from pathlib import Path

from localcloud import state
from localcloud.errors import LocalCloudError, UsageError
from localcloud.machines import processes
from localcloud.process import ports

_START_TIMEOUT_S = 60.0
_WATCH_S = 1.0
_END_TIMEOUT_S = 60.0  # guests have 30 s to shut down


@dataclass(frozen=True)
class Options:
    name: str = "default"
    port: int = 5566
    boot: bool = True
    image: Path | None = None
    wheels: Path | None = None
    while_pid: int | None = None
    """The process whose end also ends this one."""
    pace: str = ""
    pace_scale: float = 1.0
    public_endpoints: bool = False


def run(options: Options) -> None:
    """Serves until SIGTERM, SIGINT or the end of `while_pid`; raises UsageError if it cannot start."""
    directory = state.state_dir(options.name)
    refuse_second(options.name)
    state.own(directory)
    stop = _stop_on_signals()
    if options.while_pid is not None:
        _stop_with(options.while_pid, stop)
    with contextlib.closing(ports.listen(options.port)) as listener:
        say_leftovers(directory)
        cloud = _record(options)
        state.write(directory, cloud)
        try:
            _serve(options, cloud, listener, stop)
        finally:
            (directory / "cloud.json").unlink(missing_ok=True)


def _record(options: Options) -> state.Cloud:
    return state.Cloud(
        name=options.name,
        id=state.new_id(),
        pid=os.getpid(),
        start_time=processes.start_time(os.getpid()) or 0,
        port=options.port,
        endpoint_url=f"http://127.0.0.1:{options.port}",
        boot=options.boot,
        pace=options.pace,
        pace_scale=options.pace_scale,
        public_endpoints=options.public_endpoints,
    )


def _serve(options: Options, cloud: state.Cloud, listener: socket.socket, stop: threading.Event) -> None:
    os.environ["MOTO_PORT"] = str(options.port)  # moto reads these at import
    os.environ["MOTO_IAM_LOAD_MANAGED_POLICIES"] = "true"
    from localcloud.process.assembly import RunningCloud

    secret = state.keep_secret(state.state_dir(cloud.name))
    running = RunningCloud(cloud, secret, listener, options.image, options.wheels)
    try:
        print(ready_line(cloud), flush=True)
        stop.wait()
    finally:
        running.close()


def ready_line(cloud: state.Cloud) -> str:
    directory = str(state.state_dir(cloud.name))
    return json.dumps(
        {"endpoint_url": cloud.endpoint_url, "pid": cloud.pid, "state_dir": directory, "name": cloud.name}
    )


def _stop_on_signals() -> threading.Event:
    stop = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: stop.set())
    return stop


def _stop_with(pid: int, stop: threading.Event) -> None:
    started = processes.start_time(pid)

    def watch() -> None:
        while started is not None and not stop.wait(_WATCH_S) and processes.is_running(pid, started):
            pass
        stop.set()

    threading.Thread(target=watch, daemon=True).start()


def refuse_second(name: str) -> None:
    cloud = state.read(state.state_dir(name))
    if cloud and cloud.alive():
        raise UsageError(
            f"local cloud {name!r} runs already at {cloud.endpoint_url} (pid {cloud.pid}); "
            f"end it with `localcloud down --name {name}`, or choose another --name and --port"
        )


def clean_leftovers(directory: Path) -> list[str]:
    """Removes what a dead cloud of this state directory left; returns one phrase for each thing."""
    if not (directory / "cloud.json").exists() and not (directory / "hypervisor.json").exists():
        return []
    from localcloud.machines import leftovers

    removed = leftovers.clean(directory)
    (directory / "cloud.json").unlink(missing_ok=True)
    return removed


def say_leftovers(directory: Path) -> None:
    if removed := clean_leftovers(directory):
        print(f"an earlier cloud did not end well; removed what it left: {', '.join(removed)}", file=sys.stderr)


def detach(arguments: list[str], name: str) -> state.Cloud:
    """Runs `python -m localcloud <arguments>` in the background; returns when its API answers."""
    directory = state.state_dir(name)
    state.own(directory)
    log = directory / "server.log"
    with log.open("ab") as output:
        offset = output.tell()
        process = subprocess.Popen(
            [sys.executable, "-m", "localcloud", *arguments],
            stdin=subprocess.DEVNULL, stdout=output, stderr=output, start_new_session=True,
        )  # fmt: skip
    deadline = time.monotonic() + _START_TIMEOUT_S
    while time.monotonic() < deadline:
        if process.poll() is not None:
            raise _failed(process.returncode, log, offset)
        cloud = state.read(directory)
        if cloud and cloud.pid == process.pid and answers(cloud):
            return cloud
        time.sleep(0.1)
    process.terminate()
    raise LocalCloudError(f"the local cloud did not answer within {_START_TIMEOUT_S:.0f} s; see {log}")


def answers(cloud: state.Cloud) -> bool:
    try:
        with urllib.request.urlopen(f"{cloud.endpoint_url}/_localcloud/status", timeout=5) as response:
            return bool(json.load(response)["pid"] == cloud.pid)
    except (urllib.error.URLError, OSError, ValueError):
        return False


def _failed(code: int, log: Path, offset: int) -> LocalCloudError:
    lines = log.read_bytes()[offset:].decode(errors="replace").splitlines()
    errors = [line.removeprefix("error: ") for line in lines if line.startswith("error: ")]
    if errors:
        return (UsageError if code == UsageError.exit_code else LocalCloudError)(errors[-1])
    return LocalCloudError(f"the local cloud ended with exit code {code} as it started; see {log}")


def end(name: str) -> bool:
    """Ends the process of a cloud; False if none ran. Raises if it does not end even when killed."""
    cloud = state.read(state.state_dir(name))
    if cloud is None or not cloud.alive():
        return False
    for number, patience_s in ((signal.SIGTERM, _END_TIMEOUT_S), (signal.SIGKILL, 10.0)):
        with contextlib.suppress(ProcessLookupError):
            os.kill(cloud.pid, number)
        deadline = time.monotonic() + patience_s
        while time.monotonic() < deadline:
            if not cloud.alive():
                return True
            time.sleep(0.05)
    raise LocalCloudError(f"process {cloud.pid} of local cloud {name!r} does not end")
