"""The step of the jobs' credentials: a service on each node, and users' shells on the head node."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest
from test_steps import OWNER, Machine, source_of

from gpucluster import config, render

CLUSTER = """
name: Test
region: eu-west-1
partitions: [{name: train, instance_types: [g5.12xlarge], max_nodes: 1}]
s3_access: [{uri: s3://some-data}]
"""
URL = "http://127.0.0.1:9911/credentials"
SOURCES = ("runner", "files", "services", "node_program", "job_credentials")
MARK = "home/gpucluster/job-role"
PROFILE = "etc/profile.d/gpucluster-credentials.sh"
UNIT = "etc/systemd/system/gpucluster-credentials.service"
SOCKET = "etc/systemd/system/gpucluster-credentials.socket"


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    machine = Machine(tmp_path)
    for name in ("files", "node_program", "job_credentials"):
        text = source_of(name).read_text().replace("=/etc/", f"={tmp_path}/etc/")
        machine.step(name, machine.below(text.replace("root:root", OWNER), "/opt/", "/home/"))
    machine.programs("/opt/")
    (tmp_path / "bundle/cluster.sh").write_text(render.bundle(config.loads(CLUSTER))["cluster.sh"])
    machine.command("systemctl")
    for module in ("fleet.py", "jobs/credentials.py", "scratch/cache.py"):
        (tmp_path / "bundle/gpucluster_node" / module).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "bundle/gpucluster_node" / module).touch()
    (tmp_path / "bundle/fleet.json").touch()
    return machine


def run(machine: Machine, role: str, *, credentials: str) -> list[str]:
    """Its calls of systemctl."""
    before = len(machine.calls())
    header = f"ROLE={role} JOB_CREDENTIALS={credentials}\nreport_failure() {{ :; }}\n"
    done = machine.run(f"{header}run_step job_credentials", *SOURCES)
    assert done.returncode == 0, done.stderr + done.stdout
    return machine.calls()[before:]


@pytest.mark.parametrize("role", ["head", "compute"])
@pytest.mark.parametrize("credentials", [URL, ""])
def test_every_node_has_the_service(machine: Machine, role: str, credentials: str) -> None:
    """Also without s3_access, because running nodes would not notice when it is added."""
    assert "systemctl restart gpucluster-credentials" in run(machine, role, credentials=credentials)
    assert "node-program jobs.credentials" in (machine.root / UNIT).read_text()
    assert (machine.root / PROFILE).exists() == ((role, credentials) == ("head", URL))


def test_the_role_is_asked_for_in_the_clusters_own_region(machine: Machine) -> None:
    """Older SDKs call us-east-1, which cannot be reached without the internet."""
    run(machine, "compute", credentials=URL)
    machine.command("python3", 'echo "$AWS_DEFAULT_REGION $AWS_STS_REGIONAL_ENDPOINTS $*"')
    program = machine.root / "opt/gpucluster/bin/node-program"
    argv, path = [program, "jobs.credentials"], {"PATH": f"{machine.bin}:/usr/bin:/bin"}
    done = subprocess.run(argv, env=path, capture_output=True, text=True)
    assert done.stdout.strip() == "eu-west-1 regional -m gpucluster_node.jobs.credentials"


def test_systemd_keeps_the_port_and_never_gives_it_up(machine: Machine) -> None:
    """An older version's service has the port itself, and systemd refuses to listen for a service that is active
    (systemd's src/core/socket.c: socket_start: "Socket service %s already active, refusing.")."""
    machine.command("systemctl", "[ $1 != is-active ]")
    calls = run(machine, "head", credentials=URL)
    acts = [call for call in calls if call.split()[1] in ("stop", "restart")]
    assert acts == [
        "systemctl stop gpucluster-credentials.service",
        "systemctl restart gpucluster-credentials.socket",
        "systemctl restart gpucluster-credentials",
    ]
    assert "ListenStream=127.0.0.1:9911" in (machine.root / SOCKET).read_text()
    assert "TriggerLimitIntervalSec=0" in (machine.root / SOCKET).read_text()
    assert "StartLimitIntervalSec=0" in (machine.root / UNIT).read_text()
    machine.command("systemctl")
    again = [call.split()[1] for call in run(machine, "head", credentials=URL)]
    assert not {"stop", "restart"}.intersection(again)


def test_a_second_run_restarts_nothing(machine: Machine) -> None:
    run(machine, "head", credentials=URL)
    assert "systemctl restart gpucluster-credentials" not in run(machine, "head", credentials=URL)


@pytest.mark.parametrize(
    ("changed", "restarts"), [("jobs/credentials.py", True), ("fleet.py", True), ("scratch/cache.py", False)]
)
def test_only_changes_of_its_own_or_shared_modules_restart_a_daemon(
    machine: Machine, changed: str, restarts: bool
) -> None:
    run(machine, "head", credentials=URL)
    (machine.root / "bundle/gpucluster_node" / changed).write_text("# changed\n")
    calls = run(machine, "head", credentials=URL)
    assert ("systemctl restart gpucluster-credentials" in calls) == restarts


def test_without_the_role_shells_no_longer_get_its_credentials(machine: Machine) -> None:
    run(machine, "head", credentials=URL)
    run(machine, "head", credentials="")
    assert not (machine.root / PROFILE).exists()


def test_a_role_that_comes_back_has_another_mark_on_home(machine: Machine) -> None:
    marks = []
    for credentials in (URL, URL, "", URL):
        run(machine, "head", credentials=credentials)
        mark = machine.root / MARK
        marks.append(mark.read_text() if mark.exists() else "")
    first, same, gone, second = marks
    assert first == same and not gone and second not in ("", first)


@pytest.mark.parametrize(
    ("uid", "given", "wanted"),
    [
        (1000, {}, f"{URL} eu-west-1 eu-west-1"),
        (1000, {"AWS_REGION": "us-west-2"}, f"{URL} us-west-2 eu-west-1"),
        (0, {}, ""),
    ],
)
def test_users_shells_get_the_jobs_credentials_and_roots_do_not(
    machine: Machine, uid: int, given: dict[str, str], wanted: str
) -> None:
    run(machine, "head", credentials=URL)
    machine.command("id", f"echo {uid}")
    shown = "echo ${AWS_CONTAINER_CREDENTIALS_FULL_URI:-} ${AWS_REGION:-} ${AWS_DEFAULT_REGION:-}"
    argv = ["sh", "-c", f". {machine.root / PROFILE}; {shown}"]
    done = subprocess.run(argv, env={"PATH": f"{machine.bin}:/usr/bin:/bin"} | given, capture_output=True, text=True)
    assert done.stdout.strip() == wanted
