"""The process of a cloud: up, down, twice, killed, port in use. Each test has its own server, without instances."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import boto3
import pytest

from localcloud.machines import processes
from localcloud.testing import patience


@pytest.fixture
def environment(tmp_path: Path) -> Iterator[dict[str, str]]:
    variables = {**os.environ, "LOCALCLOUD_ROOT": str(tmp_path)}
    yield variables
    for record in tmp_path.glob("*/cloud.json"):
        _run(variables, "down", "--name", record.parent.name)


def _run(environment: dict[str, str], *arguments: str) -> subprocess.CompletedProcess[str]:
    argv = [sys.executable, "-m", "localcloud", *arguments]
    return subprocess.run(argv, env=environment, capture_output=True, text=True, timeout=90, check=False)


def _up(environment: dict[str, str], port: int, name: str = "default") -> subprocess.CompletedProcess[str]:
    return _run(environment, "up", "--no-boot", "--detach", "--port", str(port), "--name", name)


def _alive(pid: int) -> bool:
    return processes.start_time(pid) is not None


def test_up_then_down_then_down_again(environment: dict[str, str], ports: tuple[int, int]) -> None:
    up = _up(environment, ports[0])
    started = json.loads(up.stdout)
    assert up.returncode == 0
    assert set(started) == {"endpoint_url", "pid", "state_dir", "name"}
    said = _run(environment, "env", "--json").stdout
    keys = {name.lower(): value for name, value in json.loads(said).items() if "KEY" in name}
    sts = boto3.client("sts", endpoint_url=started["endpoint_url"], region_name="us-east-1", **keys)
    assert sts.get_caller_identity()["Account"] == "123456789012"
    status = json.loads(_run(environment, "status", "--json").stdout)
    assert (status["running"], status["pid"], status["instances"]) == (True, started["pid"], [])

    down = _run(environment, "down")
    assert (down.returncode, down.stderr) == (0, "local cloud 'default' ended\n")
    assert not _alive(started["pid"])
    assert not (Path(started["state_dir"]) / "cloud.json").exists()
    again = _run(environment, "down")
    assert (again.returncode, again.stderr) == (0, "nothing is running\n")
    assert json.loads(_run(environment, "status", "--json").stdout)["running"] is False


def test_up_twice_names_the_one_that_runs(environment: dict[str, str], ports: tuple[int, int]) -> None:
    pid = json.loads(_up(environment, ports[0]).stdout)["pid"]
    second = _up(environment, ports[0])
    assert second.returncode == 2
    assert second.stderr.startswith("error: local cloud 'default' runs already")
    assert f"pid {pid}" in second.stderr
    assert second.stderr.count("\n") == 1
    assert _alive(pid)


def test_down_leaves_another_process_with_the_same_pid_alone(environment: dict[str, str], tmp_path: Path) -> None:
    with subprocess.Popen(["sleep", "60"]) as other:
        record = {"name": "default", "id": "0000", "pid": other.pid, "start_time": 1, "port": 1,
                  "endpoint_url": "", "boot": False}  # fmt: skip
        (tmp_path / "default").mkdir()
        (tmp_path / "default/cloud.json").write_text(json.dumps(record))
        assert _run(environment, "down").stderr == "nothing is running\n"
        assert _alive(other.pid)
        other.terminate()


@pytest.mark.parametrize("taken", [0, 1], ids=["api", "tunnel"])
def test_a_port_in_use_is_named_with_its_holder(
    environment: dict[str, str], ports: tuple[int, int], taken: int
) -> None:
    with socket.socket() as holder:
        holder.bind(("127.0.0.1", ports[taken]))
        holder.listen()
        up = _up(environment, ports[0])
    assert up.returncode == 2
    assert up.stderr.startswith(f"error: port {ports[taken]} of 127.0.0.1")
    assert "in use" in up.stderr
    assert taken or f"(pid {os.getpid()})" in up.stderr
    assert up.stderr.count("\n") == 1


def test_a_killed_cloud_can_be_started_again_and_ended(environment: dict[str, str], ports: tuple[int, int]) -> None:
    first = json.loads(_up(environment, ports[0]).stdout)
    os.kill(first["pid"], signal.SIGKILL)
    again = _up(environment, ports[0])
    assert again.returncode == 0, again.stderr
    second = json.loads(again.stdout)
    assert second["pid"] != first["pid"]
    os.kill(second["pid"], signal.SIGKILL)
    assert _run(environment, "down").returncode == 0
    assert not (Path(second["state_dir"]) / "cloud.json").exists()


def test_ctrl_c_in_the_foreground_ends_it_cleanly(environment: dict[str, str], ports: tuple[int, int]) -> None:
    argv = [sys.executable, "-m", "localcloud", "up", "--no-boot", "--port", str(ports[0])]
    with subprocess.Popen(argv, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None and process.stderr is not None
        started = json.loads(process.stdout.readline())
        process.send_signal(signal.SIGINT)
        assert process.wait(30) == 0
        assert process.stderr.read() == ""
    assert not (Path(started["state_dir"]) / "cloud.json").exists()


def test_it_ends_with_the_process_of_while_pid(environment: dict[str, str], ports: tuple[int, int]) -> None:
    with subprocess.Popen(["sleep", "60"]) as patron:
        words = ("--port", str(ports[0]), "--while-pid", str(patron.pid))
        up = _run(environment, "up", "--no-boot", "--detach", *words)
        assert up.returncode == 0, up.stderr
        started = json.loads(up.stdout)
        assert _alive(started["pid"])
        patron.kill()
    deadline = patience.seconds() + 30
    while _alive(started["pid"]):
        assert patience.seconds() < deadline
        time.sleep(0.2)
    assert not (Path(started["state_dir"]) / "cloud.json").exists()


def test_a_verb_that_needs_a_cloud_says_how_to_start_one(environment: dict[str, str]) -> None:
    listed = _run(environment, "fault", "list", "--name", "nobody")
    assert listed.returncode == 2
    assert listed.stderr == "error: no local cloud named 'nobody' runs; start one with `localcloud up --name nobody`\n"


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["up", "--no-boot", "--port", "65535"], "--port must be 1 to 65534"),
        (["up", "--image", "/nowhere"], "--image /nowhere: no root file system there"),
        (["up", "--no-boot", "--while-pid", "4194305"], "--while-pid 4194305: no such process"),
        (["up", "--no-boot", "--wheels", "/nowhere"], "--wheels /nowhere: no such directory"),
        (["fault", "add", "death"], "no local cloud named 'default' runs"),
    ],
)
def test_wrong_arguments_give_one_line_and_exit_code_2(
    environment: dict[str, str], words: list[str], message: str
) -> None:
    done = _run(environment, *words)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith(f"error: {message}")
    assert done.stderr.count("\n") == 1


@pytest.mark.skipif(os.geteuid() != 0, reason="the checkout may be root's alone")
def test_booting_without_root_is_refused_in_one_line(tmp_path: Path) -> None:
    # A user namespace: its user is not root, and still reads a checkout below root's home.
    argv = ["unshare", "--user", sys.executable, "-m", "localcloud", "up", "--detach"]
    tmp_path.chmod(0o777)
    variables = {**os.environ, "LOCALCLOUD_ROOT": str(tmp_path), "HOME": str(tmp_path)}
    up = subprocess.run(argv, env=variables, capture_output=True, text=True, timeout=60, check=False)
    assert up.returncode == 2, up.stderr
    assert "root" in up.stderr
    assert up.stderr.count("\n") == 1
