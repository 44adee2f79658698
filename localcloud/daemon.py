"""Starting and ending the process of a cloud."""

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

from localcloud import clients, state
from localcloud.errors import LocalCloudError, UsageError


@dataclass(frozen=True)
class Options:
    name: str = "default"
    port: int = 5566
    boot: bool = True
    image: Path | None = None
    wheels: Path | None = None


def run(options: Options) -> None:
    """Serve until SIGTERM or SIGINT; raises UsageError where it cannot start."""
    directory = state.state_dir(options.name)
    refuse_second(options.name)
    listener = _listen(options.port)
    with contextlib.closing(listener):
        _serve(options, directory, listener)


def _serve(options: Options, directory: Path, listener: socket.socket) -> None:
    endpoint_url = f"http://127.0.0.1:{options.port}"
    os.environ["MOTO_PORT"] = str(options.port)  # read by moto at import
    from moto.moto_server.werkzeug_app import DomainDispatcherApplication, create_backend_app

    from localcloud import server

    clients.configure(endpoint_url)
    api = server.serve(server.Application(DomainDispatcherApplication(create_backend_app)), listener)
    cloud = state.Cloud(
        name=options.name,
        id=state.new_id(),
        pid=os.getpid(),
        start_time=state.process_start_time(os.getpid()) or 0,
        port=options.port,
        endpoint_url=endpoint_url,
        boot=options.boot,
    )
    state.write(directory, cloud)
    print(ready_line(cloud), flush=True)
    _wait_for_signal()
    api.shutdown()
    (directory / "cloud.json").unlink(missing_ok=True)


def ready_line(cloud: state.Cloud) -> str:
    directory = str(state.state_dir(cloud.name))
    return json.dumps(
        {"endpoint_url": cloud.endpoint_url, "pid": cloud.pid, "state_dir": directory, "name": cloud.name}
    )


def _wait_for_signal() -> None:
    stop = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: stop.set())
    stop.wait()


def refuse_second(name: str) -> None:
    cloud = state.read(state.state_dir(name))
    if cloud and cloud.alive():
        raise UsageError(
            f"local cloud {name!r} runs already: {cloud.endpoint_url}, pid {cloud.pid}; "
            f"end it with `localcloud down --name {name}` or choose another --name and --port"
        )


def _listen(port: int) -> socket.socket:
    listener = socket.socket()
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listener.bind(("127.0.0.1", port))
    except OSError as error:
        listener.close()
        raise UsageError(f"port {port} of 127.0.0.1 is in use; choose another with --port") from error
    listener.listen(128)
    return listener


def detach(arguments: list[str], name: str, *, timeout_s: float = 60) -> state.Cloud:
    """Run `python -m localcloud <arguments>` in the background; returns when its API answers."""
    directory = state.state_dir(name)
    directory.mkdir(parents=True, exist_ok=True)
    log = directory / "server.log"
    with log.open("ab") as output:
        offset = output.tell()
        process = subprocess.Popen(
            [sys.executable, "-m", "localcloud", *arguments],
            stdin=subprocess.DEVNULL, stdout=output, stderr=output, start_new_session=True,
        )  # fmt: skip
    deadline = time.monotonic() + timeout_s
    while time.monotonic() < deadline:
        if process.poll() is not None:
            raise _failed(process.returncode, log, offset)
        cloud = state.read(directory)
        if cloud and cloud.pid == process.pid and answers(cloud):
            return cloud
        time.sleep(0.1)
    process.terminate()
    raise LocalCloudError(f"the local cloud did not answer within {timeout_s:.0f} s; see {log}")


def answers(cloud: state.Cloud) -> bool:
    try:
        with urllib.request.urlopen(f"{cloud.endpoint_url}/_localcloud/status", timeout=5):
            return True
    except (urllib.error.URLError, OSError):
        return False


def _failed(code: int, log: Path, offset: int) -> LocalCloudError:
    lines = log.read_bytes()[offset:].decode(errors="replace").splitlines()
    errors = [line.removeprefix("error: ") for line in lines if line.startswith("error: ")]
    if errors:
        return (UsageError if code == 2 else LocalCloudError)(errors[-1])
    return LocalCloudError(f"the local cloud ended with exit code {code} as it started; see {log}")


def end(name: str, *, timeout_s: float = 60) -> bool:
    """End the process of a cloud; False where none ran. Raises where it does not end even when killed."""
    cloud = state.read(state.state_dir(name))
    if cloud is None or not cloud.alive():
        return False
    for number, patience_s in ((signal.SIGTERM, timeout_s), (signal.SIGKILL, 10.0)):
        with contextlib.suppress(ProcessLookupError):
            os.kill(cloud.pid, number)
        deadline = time.monotonic() + patience_s
        while time.monotonic() < deadline:
            if not cloud.alive():
                return True
            time.sleep(0.05)
    raise LocalCloudError(f"process {cloud.pid} of local cloud {name!r} does not end")
