"""Runs steps below a scratch folder, with stand-ins for the commands that change a machine."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from localcloud.testing.patience import stretched, wait_for

BOOTSTRAP = Path(__file__).resolve().parents[3] / "bootstrap"
OWNER = f"{subprocess.getoutput('id -un')}:{subprocess.getoutput('id -gn')}"


def source_of(name: str) -> Path:
    """NAME.sh, a boot step or what steps share."""
    (found,) = (path for room in ("lib", "steps/*", "environments") for path in BOOTSTRAP.glob(f"{room}/{name}.sh"))
    return found


class Machine:
    """A folder with stand-in commands that note how they were called, and steps to run there."""

    def __init__(self, root: Path) -> None:
        self.root, self.bin, self.calls_file = root, root / "bin", root / "calls"
        self.bin.mkdir()
        self.calls_file.touch()
        (root / "bundle").mkdir()

    def command(self, name: str, body: str = "") -> None:
        path = self.bin / name
        path.write_text(f'#!/bin/bash\necho "{name} $*" >>"{self.calls_file}"\n{body}\n')
        path.chmod(0o755)

    def step(self, name: str, body: str) -> None:
        self._copy(name).write_text(body)

    def programs(self, *places: str) -> None:
        """The bundle's programs, with these places of the system below the scratch folder; the bundle is there too."""
        for path in (BOOTSTRAP / "programs").glob("*/*"):
            copy = self.root / "bundle" / path.relative_to(BOOTSTRAP)
            copy.parent.mkdir(parents=True, exist_ok=True)
            copy.write_text(self.below(path.read_text(), *places))
        (self.root / "opt/gpucluster").mkdir(parents=True, exist_ok=True)
        (self.root / "opt/gpucluster/bundle").symlink_to(self.root / "bundle")

    def below(self, text: str, *places: str) -> str:
        """A script whose places of the system are below the scratch folder, and whose files are this user's."""
        named = "|".join(map(re.escape, places))
        return re.sub(rf"(?<![\w/.-])({named})", rf"{self.root}\1", text).replace("root:root", OWNER)

    def calls(self) -> list[str]:
        return self.calls_file.read_text().splitlines()

    def run(self, script: str, *sources: str) -> subprocess.CompletedProcess[str]:
        """Paths of the system that the steps name are below the scratch folder instead."""
        ran = set(re.findall(r"_step (\w+)", script))  # run_step sources its step itself
        files = {name: self._file(name) for name in sources}
        sourced = "\n".join(f"source {file}" for name, file in files.items() if name not in ran)
        path = f"{self.bin}:{os.environ['PATH']}"
        return subprocess.run(
            ["bash", "-c", f"set -euo pipefail\nBUNDLE={self.root}/bundle\n{sourced}\n{script}"],
            capture_output=True,
            text=True,
            env={"PATH": path, "ROOT": str(self.root)},
            timeout=30,
        )

    def _file(self, name: str) -> Path:
        copy = self._copy(name)
        if not copy.exists():
            text = source_of(name).read_text()
            copy.write_text(
                text.replace("/var/lib/gpucluster", f"{self.root}/var").replace("/run/gpucluster", f"{self.root}/run")
            )
        return copy

    def _copy(self, name: str) -> Path:
        known = list(BOOTSTRAP.glob(f"*/{name}.sh")) + list(BOOTSTRAP.glob(f"*/*/{name}.sh"))
        path = self.root / "bundle" / (known[0].relative_to(BOOTSTRAP) if known else f"steps/test/{name}.sh")
        path.parent.mkdir(parents=True, exist_ok=True)
        return path


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    return Machine(tmp_path)


REPORT = 'report_failure() { echo "REPORTED $1"; }'


def test_a_successful_step_is_logged_with_its_time(machine: Machine) -> None:
    machine.step("greet", "step_greet() { echo hello; }")
    done = machine.run(f"{REPORT}\nrun_step greet", "runner", "greet")
    assert done.returncode == 0
    assert "hello" in done.stdout
    assert "step=greet status=ok seconds=0." in done.stdout


@pytest.mark.parametrize("mode", [0o600, 0o644])
def test_a_run_that_waits_for_another_one_for_too_long_names_it(machine: Machine, mode: int) -> None:
    """Also if an older version left the lock open to all, and a user holds it."""
    (machine.root / "run.lock").touch(mode)
    hold = "import fcntl, sys; f = open(sys.argv[1]); fcntl.flock(f, fcntl.LOCK_EX); print(flush=True); input()"
    argv = [sys.executable, "-c", hold, str(machine.root / "run.lock")]
    with subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as holder:
        assert holder.stdout and holder.stdout.readline()
        done = machine.run(f"LOCK_LIMIT_S=0.2\n{REPORT}\none_at_a_time\necho runs", "runner", "locks")
        assert holder.stdin
        holder.stdin.close()
    said = f"run.lock is still locked after 0.2 s, by process {holder.pid} of root; end that process"
    assert done.returncode == 1 and f"REPORTED {machine.root}/{said}" in done.stdout
    assert "runs" not in done.stdout
    assert (machine.root / "run.lock").stat().st_mode & 0o777 == 0o600
    done = machine.run(f"LOCK_LIMIT_S=20\n{REPORT}\none_at_a_time\necho runs", "runner", "locks")
    assert done.stdout == "runs\n", done.stderr


FAILURES = {
    "a command of the step": ("step_x() {\n    true\n    ls /nowhere\n}", 3, "ls: cannot access '/nowhere'"),
    "inside a command substitution": ("step_x() {\n    local a\n    a=$(ls /nowhere)\n}", 3, "ls: cannot access"),
    "in a command substitution, not last": (
        "step_x() {\n    local a\n    a=$(inner)\n}\ninner() {\n    ls /nowhere\n    echo late\n}",
        6,
        "ls: cannot access",
    ),
    "in a function of the step": ("step_x() { inner; }\ninner() {\n    ls /nowhere\n}", 3, "ls: cannot access"),
    "in another file": ("step_x() {\n    put_file </nowhere\n}", 2, "/nowhere: No such file"),
    "fail": ("step_x() {\n    fail 'no disk'\n}", 2, "no disk"),
    "in a function with the runner's variables": (
        "step_x() {\n    local name scratch status\n    fail 'no disk'\n}",
        3,
        "no disk",
    ),
    "in another with another name": ("step_x() {\n    local name=y\n    ls /nowhere\n}", 3, "ls: cannot access"),
    "the last line of many": ("step_x() {\n    printf 'first\\nlast\\n\\n' >&2\n    false\n}", 3, "last"),
    "nothing said": ("step_x() {\n    grep -q x /dev/null\n}", 2, "grep -q x /dev/null exited with status 1"),
    "a pipe": ("step_x() {\n    ls /nowhere | cat\n}", 2, "ls: cannot access"),
    "an unset variable": ('step_x() {\n    echo "$nobody"\n}', None, "nobody: unbound variable"),
}


@pytest.mark.parametrize("name", FAILURES)
def test_a_failed_step_says_where_and_why_and_stops(machine: Machine, name: str) -> None:
    body, line, why = FAILURES[name]
    machine.step("x", body)
    machine.step("after", 'step_after() { touch "$ROOT/went-on"; }')
    done = machine.run(f"{REPORT}\nrun_step x\nrun_step after", "runner", "files", "x", "after")
    assert done.returncode == 1
    reported = next(line for line in done.stdout.splitlines() if line.startswith("REPORTED "))
    assert reported.startswith(f"REPORTED step=x line={line or '?'}: ")
    assert why in reported
    assert reported.endswith(" (log /var/log/gpucluster/boot.log)")
    assert "step=x status=failed" in done.stdout
    assert not (machine.root / "went-on").exists()


HANGS = {
    "a command": ("step_x() {\n    true\n    sleep 86399\n}", "3", "sleep 86399"),
    "in a command substitution of a function": (
        "step_x() {\n    local a\n    a=$(inner)\n}\ninner() { sleep 86399; }",
        "5",
        "sleep 86399",
    ),
    "below another program": ("step_x() {\n    timeout 86400 sleep 86399\n}", "2", "sleep 86399"),
    "a loop that goes on after a failure": (
        "step_x() {\n    until sleep 86399; do sleep 0.1; done\n}",
        "?",
        "sleep 86399",
    ),
    "a program that ignores SIGTERM": (
        'step_x() {\n    python3 -c "import signal, time; signal.signal(15, signal.SIG_IGN); time.sleep(86399)"\n}',
        "?",
        "time.sleep(86399)",
    ),
}


@pytest.mark.parametrize("name", HANGS)
def test_a_step_that_hangs_is_named_and_ended_with_its_children(machine: Machine, name: str) -> None:
    body, line, what = HANGS[name]
    machine.step("x", body)
    limit_s = round(stretched(1))  # a busy machine needs longer to reach the program that hangs
    script = f"STEP_LIMIT_S={limit_s}\n{REPORT}\nrun_step x\necho went on"
    done = machine.run(script, "runner", "x")
    assert done.returncode == 1
    reported = next(line for line in done.stdout.splitlines() if line.startswith("REPORTED "))
    assert reported.startswith(f"REPORTED step=x line={line}: no end after {limit_s} s, it ran: "), done.stderr
    assert what in reported
    assert "went on" not in done.stdout
    left = ["pgrep", "-f", "[s]leep.86399"]
    wait_for("the end of the step's children", lambda: subprocess.run(left, check=False).returncode == 1, 20, 0.1)


def test_a_process_that_a_step_leaves_with_its_errors_does_not_hang_the_boot(machine: Machine) -> None:
    """Without a limit, run_step would wait for the end of the pipe for ever."""
    machine.step("x", "step_x() { setsid sleep 25 >/dev/null & }")
    done = machine.run(f"STEP_LIMIT_S=1\n{REPORT}\nrun_step x", "runner", "x")
    assert done.returncode == 1
    assert "REPORTED step=x line=?: no end after 1 s: a process that it started has its errors" in done.stdout


def test_a_long_reason_fits_a_tag(machine: Machine) -> None:
    machine.step("x", "step_x() { fail \"$(printf 'e%.0s' {1..900})\"; }")
    done = machine.run(f"{REPORT}\nrun_step x", "runner", "x")
    reported = next(line for line in done.stdout.splitlines() if line.startswith("REPORTED "))
    assert len(reported.removeprefix("REPORTED ")) <= 250


def test_a_step_leaves_no_variable_behind(machine: Machine) -> None:
    machine.step("x", "step_x() { leaked=yes; }")
    done = machine.run(f'{REPORT}\nrun_step x\necho "leaked=${{leaked:-no}}"', "runner", "x")
    assert "leaked=no" in done.stdout


def test_put_file_writes_only_what_differs(machine: Machine) -> None:
    put = f'put_file "$ROOT/etc/x.conf" 0640 {OWNER}'
    path = machine.root / "etc/x.conf"
    machine.run(f"{put} <<<one", "files").check_returncode()
    first = path.stat()
    assert (path.read_text(), first.st_mode & 0o777) == ("one\n", 0o640)
    machine.run(f"{put} <<<one", "files").check_returncode()
    again = path.stat()  # except the access time, because the comparison reads the file
    assert (again.st_ino, again.st_mtime_ns, again.st_ctime_ns) == (first.st_ino, first.st_mtime_ns, first.st_ctime_ns)
    machine.run(f"{put} <<<two", "files").check_returncode()
    assert path.read_text() == "two\n"


def test_put_file_corrects_the_mode(machine: Machine) -> None:
    path = machine.root / "x"
    path.write_text("one\n")
    path.chmod(0o600)
    machine.run(f'put_file "$ROOT/x" 0644 {OWNER} <<<one', "files").check_returncode()
    assert path.stat().st_mode & 0o777 == 0o644


def test_put_line_adds_it_once(machine: Machine) -> None:
    (machine.root / "fstab").write_text("other\n")
    machine.run('for _ in 1 2; do put_line "$ROOT/fstab" "a b"; done', "files").check_returncode()
    assert (machine.root / "fstab").read_text() == "other\na b\n"


def restarts(machine: Machine) -> int:
    return machine.calls().count("systemctl restart unit")


def test_service_up_restarts_only_after_a_change(machine: Machine) -> None:
    machine.command("systemctl")
    conf = machine.root / "unit.conf"
    conf.write_text("one")
    up = 'service_up unit "$ROOT/unit.conf"; echo "restarted=$RESTARTED"'
    assert "restarted=yes" in machine.run(up, "runner", "services").stdout
    assert restarts(machine) == 1
    assert "restarted=no" in machine.run(up, "runner", "services").stdout
    assert restarts(machine) == 1
    conf.write_text("two")
    assert "restarted=yes" in machine.run(up, "runner", "services").stdout
    assert restarts(machine) == 2


def test_service_up_starts_what_has_stopped(machine: Machine) -> None:
    machine.command("systemctl", '[ "$1" != is-active ]')
    machine.run("service_up unit; service_up unit", "runner", "services").check_returncode()
    assert restarts(machine) == 2


SHOWN = {
    "a file that systemd has not loaded": ("loaded\nno\n", []),
    "a file or a drop-in that changed": ("loaded\nyes\n", ["systemctl daemon-reload"]),
    "a changed drop-in of another unit": ("loaded\nno\n\nloaded\nyes\n", ["systemctl daemon-reload"]),
    "no file": ("not-found\nno\n", ["systemctl daemon-reload"]),
}
"""What `systemctl show --property=LoadState,NeedDaemonReload --value` printed, with systemd 257 on a booted node."""


@pytest.mark.parametrize(("shown", "reloads"), SHOWN.values(), ids=SHOWN)
def test_service_up_reloads_systemd_only_for_what_it_has_not_read(
    machine: Machine, shown: str, reloads: list[str]
) -> None:
    machine.command("systemctl", f"case $1 in is-active|is-enabled) exit 1 ;; show) printf '{shown}' ;; esac")
    all_read(machine)
    drop_in = "/etc/systemd/system/other.service.d/x.conf"
    machine.run(f"service_up unit {drop_in} /etc/unit.conf", "runner", "services").check_returncode()
    assert machine.calls() == [
        "systemctl is-active --quiet unit",
        "systemctl is-enabled --quiet unit",
        "systemctl --quiet --root=/ enable unit",
        "systemctl show --property=LoadState,NeedDaemonReload --value unit other.service",
        *reloads,
        "systemctl restart unit",
    ]


def all_read(machine: Machine) -> Path:
    """The stamp of systemd's last reload, made now."""
    reloaded = machine.root / "var/started/reload"
    reloaded.parent.mkdir(parents=True, exist_ok=True)
    reloaded.touch()
    return reloaded


@pytest.mark.parametrize("unit", ["unit", "unit.service"])
def test_service_up_reloads_systemd_for_a_new_folder_of_drop_ins(machine: Machine, unit: str) -> None:
    """Ubuntu 24.04's systemd shows NeedDaemonReload=no for a unit that it loaded before the folder was made: fixed in
    255.11, https://github.com/systemd/systemd/issues/31752."""
    machine.command("systemctl", "case $1 in is-active) exit 1 ;; show) printf 'loaded\\nno\\n' ;; esac")
    text = machine.below(source_of("services").read_text(), "/etc/")
    machine.step("services", text.replace("/var/lib/gpucluster", f"{machine.root}/var"))
    (machine.root / "etc/systemd/system/unit.service.d").mkdir(parents=True)
    os.utime(all_read(machine), (0, 0))
    up = f"service_up {unit} $UNITS/unit.service.d/x.conf"
    machine.run(f"{up}; {up}", "runner", "services").check_returncode()
    assert machine.calls().count("systemctl daemon-reload") == 1


def test_a_reload_that_did_not_end_is_repeated(machine: Machine) -> None:
    machine.command("systemctl", "case $1 in is-active | daemon-reload) exit 1 ;; esac")
    for _ in range(2):
        assert machine.run("service_up unit", "runner", "services").returncode
    assert machine.calls().count("systemctl daemon-reload") == 2


def test_service_up_reloads_systemd_once_after_a_change_of_fstab(machine: Machine) -> None:
    machine.command("systemctl", '[ "$1" != is-active ]')
    machine.run("service_up one; service_up two", "runner", "services").check_returncode()
    assert machine.calls().count("systemctl daemon-reload") == 1


def test_a_service_that_does_not_start_shows_its_programs_output(machine: Machine) -> None:
    machine.command("systemctl", '[ "$1" != restart ]')
    machine.command(
        "journalctl",
        'case "$*" in *_SYSTEMD_UNIT=*) echo "slurm.conf: no such key";; *) echo "Main process exited";; esac',
    )
    machine.step("x", "step_x() {\n    service_up unit /dev/null\n}")
    machine.command("is-newer")
    done = machine.run(f"{REPORT}\nrun_step x", "runner", "files", "services", "x")
    assert "REPORTED step=x line=2: unit does not start: slurm.conf: no such key" in done.stdout


IMAGE = {
    "the image brings its own": ("Key=image\n", "Key=image\n"),
    "an earlier bundle wrote it": ("# written by GpuCluster: old\n", "# written by GpuCluster: new\n"),
    "there is none": (None, "# written by GpuCluster: new\n"),
}


@pytest.mark.parametrize("name", IMAGE)
def test_image_file_does_not_replace_the_images_file(machine: Machine, name: str) -> None:
    before, after = IMAGE[name]
    (machine.root / "bundle/slurm").mkdir()
    (machine.root / "bundle/slurm/image.conf").write_text("# written by GpuCluster: new\n")
    path = machine.root / "image.conf"
    if before:
        path.write_text(before)
    text = source_of("slurm_files").read_text().replace("/etc/slurm/", f"{machine.root}/").replace("root:root", OWNER)
    machine.step("slurm_files", text)
    machine.run("image_file image.conf", "files", "slurm_files").check_returncode()
    assert path.read_text() == after


def test_packages_installs_only_what_is_missing(machine: Machine) -> None:
    for command in ("munged", "nft", "mount.nfs4", "scontrol", "mpirun", "python3"):
        machine.command(command)
    for command in ("slurmd", "slurmctld"):
        machine.command(command, "echo slurm-wlm 23.11.4")
    machine.command("ldconfig", 'echo "libquadmath.so.0 (libc6,x86-64) => /usr/lib/libquadmath.so.0"')
    machine.command("apt-get")
    step = 'ROLE=compute SERVICE_POLICY="$ROOT/policy-rc.d"; step_packages'
    machine.run(step, "apt", "packages").check_returncode()
    assert not [call for call in machine.calls() if call.startswith("apt-get")]
    (machine.bin / "munged").unlink()
    machine.run(step, "apt", "packages").check_returncode()
    assert any("install" in call and call.endswith(" munge") for call in machine.calls())
    machine.command("ldconfig", "echo libc.so.6")
    machine.run(step, "apt", "packages").check_returncode()
    assert any("install" in call and call.endswith(" munge libquadmath0") for call in machine.calls())
    image = step.replace("ROLE=compute", "ROLE=image ACCOUNTING=off")
    machine.run(image, "apt", "packages").check_returncode()
    assert [call for call in machine.calls() if "install" in call][-1].endswith(" mdadm")


def test_packages_start_no_services(machine: Machine) -> None:
    """Debian's and Ubuntu's ask policy-rc.d first: 101 is no."""
    policy = machine.root / "policy-rc.d"
    asked = (
        'if [ "$2" != update ]; then "$SERVICE_POLICY" && code=0 || code=$?; echo "policy $code" >>"$ROOT/calls"; fi'
    )
    machine.command("apt-get", asked)
    install = 'export SERVICE_POLICY="$ROOT/policy-rc.d"; without_services install_packages slurmd'
    machine.run(install, "apt").check_returncode()
    assert "policy 101" in machine.calls() and not policy.exists()
    machine.command("apt-get", "exit 100")
    assert machine.run(f"sleep() {{ :; }}; {install}", "runner", "apt").returncode != 0
    assert not policy.exists()
    machine.command("apt-get")
    policy.write_text("#!/bin/sh\nexit 0\n")
    machine.run(install, "apt").check_returncode()
    assert policy.read_text() == "#!/bin/sh\nexit 0\n"


@pytest.fixture
def apt(machine: Machine) -> Machine:
    """With this machine's own apt, which knows the repositories below the scratch folder and nothing else."""
    for folder in ("state/lists/partial", "cache/archives/partial", "etc", "good", "broken"):
        (machine.root / folder).mkdir(parents=True)
    (machine.root / "state/status").touch()
    (machine.root / "good/Packages").write_text("")
    (machine.root / "etc/sources.list").write_text(f"deb [trusted=yes] file:{machine.root}/good ./\n")
    options = {
        "Dir": machine.root,
        "Dir::State": "state",
        "Dir::State::lists": "lists",
        "Dir::State::status": machine.root / "state/status",
        "Dir::Cache": "cache",
        "Dir::Etc": "etc",
        "Dir::Etc::sourcelist": "sources.list",
        "APT::Sandbox::User": "root",
    }
    (machine.root / "apt.conf").write_text("".join(f'{name} "{value}";\n' for name, value in options.items()))
    return machine


UPDATE = (
    'export APT_CONFIG="$ROOT/apt.conf"\nsleep() { echo "slept $1"; eval "${AFTER_SLEEP:-}"; }\nupdate_package_lists'
)


def test_apt_update_waits_for_another_apt(apt: Machine) -> None:
    hold = "import fcntl, sys; f = open(sys.argv[1], 'w'); fcntl.lockf(f, fcntl.LOCK_EX); print(flush=True); input()"
    argv = [sys.executable, "-c", hold, f"{apt.root}/state/lists/lock"]
    with subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as holder:
        assert holder.stdout and holder.stdout.readline()
        done = apt.run(f"AFTER_SLEEP='kill {holder.pid} && command sleep 0.3'\n{UPDATE}", "runner", "apt")
    assert (done.returncode, done.stdout) == (0, "slept 10\n"), done.stderr
    apt.command(
        "apt-get", "echo 'E: Could not get lock /var/lib/apt/lists/lock. It is held by process 7 (x)' >&2; exit 100"
    )
    done = apt.run(UPDATE, "runner", "apt")
    assert done.returncode != 0
    assert done.stderr.startswith("apt-get update: E: Could not get lock")


def test_a_broken_repository_of_the_image_does_not_end_the_boot(apt: Machine) -> None:
    (apt.root / "broken/Release").write_text("Suite: none\n")  # not signed; an expired key is reported in the same way
    with (apt.root / "etc/sources.list").open("a") as sources:
        sources.write(f"deb file:{apt.root}/broken ./\n")
    done = apt.run(UPDATE, "runner", "apt")
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("slept 10") == 2
    assert "warning: not every package list could be updated: E: The repository" in done.stdout
    assert [path for path in (apt.root / "state/lists").iterdir() if path.name.endswith("good_._Packages")]


def test_a_compiler_is_installed_where_horovod_must_be_built(machine: Machine) -> None:
    machine.command("python", 'echo "$ROOT/Python.h"; echo 3.12')
    machine.command("apt-get")
    for command in ("g++", "make"):
        machine.command(command)
    build = 'compiler "$ROOT/bin/python"'
    machine.run(build, "apt", "environment").check_returncode()
    assert machine.calls()[-1].endswith("install -y --no-install-recommends python3.12-dev")
    (machine.root / "Python.h").touch()
    before = machine.calls()
    machine.run(build, "apt", "environment").check_returncode()
    assert not [call for call in machine.calls()[len(before) :] if call.startswith("apt-get")]


def test_the_metadata_guard_can_start_before_the_network(machine: Machine) -> None:
    """cloud-init orders the network before sysinit.target: a unit before the network must not wait for that target."""
    up = 'service_up() { :; }; imds_guard_rules() { :; }; put_file() { echo "== $1"; cat; }; step_imds_guard'
    machine.command("nft")
    unit = machine.run(up, "firewall", "imds_guard").stdout.partition("imds-guard.service")[2].splitlines()
    assert "DefaultDependencies=no" in unit
    assert "WantedBy=sysinit.target" in unit


APT_UNITS = "apt-daily.timer apt-daily-upgrade.timer"


@pytest.mark.parametrize(
    ("role", "after"),
    [
        ("head", f"systemd-run --quiet --on-active=1h systemctl start {APT_UNITS}"),
        ("compute", f"systemctl --quiet --root=/ disable {APT_UNITS}"),
        ("image", None),
    ],
)
def test_a_machine_that_has_booted_does_not_update_itself(machine: Machine, role: str, after: str | None) -> None:
    machine.command("systemctl")
    machine.command("systemd-run")
    step = f'put_file() {{ mkdir -p "${{1%/*}}"; cat >"$1"; }}\nROLE={role}; step_apt_timers; step_apt_timers'
    machine.run(step, "runner", "apt_timers").check_returncode()
    stopped = f"systemctl stop {APT_UNITS} apt-daily.service apt-daily-upgrade.service"
    assert machine.calls() == ["systemctl cat apt-daily.timer", stopped, *([after] if after else [])]


def test_slurms_daemons_are_restarted_without_limit(machine: Machine) -> None:
    """on-failure would not restart a daemon that ends with exit code 0 or by SIGTERM: systemd.service(5). RestartSteps
    is known since systemd 254, and Ubuntu 24.04 has 255; an older one passes over it."""
    machine.run("put_file() { cat; }\nstarts_again slurmctld >$ROOT/unit", "slurm_files").check_returncode()
    text = (machine.root / "unit").read_text()
    assert {"Restart=always", "RestartSec=2", "StartLimitIntervalSec=0"} <= set(text.splitlines())
    for unit, step in (("slurmctld", "slurm_head"), ("slurmd", "slurm_compute"), ("slurmdbd", "slurmdbd")):
        assert f"    starts_again {unit}\n" in source_of(step).read_text()


def test_slurms_tree_stays_as_long_as_the_nodes_are_the_same(machine: Machine) -> None:
    etc, bundle = machine.root / "etc/slurm", machine.root / "bundle/slurm"
    bundle.mkdir(parents=True)
    etc.mkdir(parents=True, exist_ok=True)
    tree, source = etc / "topology.conf", bundle / "topology.conf"
    put = "put_file() { cat >$1; }\n"
    step = (
        put
        + source_of("slurm_head").read_text().replace("/etc/slurm", str(etc))
        + "\nBUNDLE=$ROOT/bundle; put_topology"
    )

    def after() -> str:
        machine.run(step, "controller").check_returncode()
        return tree.read_text() if tree.exists() else ""

    assert after() == ""
    source.write_text("# c: big-[1-4]\nSwitchName=cluster Nodes=big-[1-4]\n")
    assert after() == source.read_text()
    tree.write_text("# c: big-[1-4]\nSwitchName=nn-1 Nodes=big-[1-4]\n")
    assert "nn-1" in after()
    source.write_text("# c: big-[1-8]\nSwitchName=cluster Nodes=big-[1-8]\n")
    assert after() == source.read_text()
    source.unlink()
    assert after() == ""


@pytest.mark.parametrize(
    ("was", "crashes", "reconfigured", "status"),
    [("inactive", 0, 0, 0), ("active", 0, 1, 0), ("active", 1, 2, 0), ("active", 2, 2, 1)],
    ids=["a new head node", "a running one", "slurmctld crashes at it", "and again"],
)
def test_nodes_get_new_files_even_if_slurmctld_crashes_meanwhile(
    machine: Machine, was: str, crashes: int, reconfigured: int, status: int
) -> None:
    """Its exit is what scontrol fails with; systemd starts it again a moment later."""
    machine.command(
        "scontrol",
        'case $1 in ping) if [ -e "$ROOT/down" ]; then rm "$ROOT/down"; else echo "Slurmctld is UP"; fi ;;\n'
        f'*) if [ "$(grep -c reconfigure "$ROOT/calls")" -le {crashes} ]; then touch "$ROOT/down"; exit 1; fi ;; esac',
    )
    machine.command("slurmctld", "echo slurm-wlm 23.11.4")
    machine.command("squeue")
    others = (
        "put_{directory,file,topology,staging,plugstack,cgroup_conf} {slurm_limits,low_port,starts_again,needs_home}"
    )
    stubs = f'for name in {others} power_programs; do eval "$name() {{ :; }}"; done\n'
    stubs += f"fail() {{ return 1; }}\nsystemctl() {{ echo {was}; }}\nservice_up() {{ RESTARTED=yes; }}\n"
    (machine.root / "bundle/slurm").mkdir(parents=True)
    for name in ("slurm", "gres"):
        (machine.root / f"bundle/slurm/{name}.conf").touch()
    step = f"source {source_of('slurm_head')}\n{stubs}DATA=/data; step_slurm_head"
    done = machine.run(step, "controller")
    assert done.returncode == status, done.stderr
    asked = [call.split()[1] for call in machine.calls() if call.startswith("scontrol")]
    assert asked.count("reconfigure") == reconfigured
    assert asked.count("ping") == reconfigured + max(0, reconfigured - 1), "it waits until slurmctld is there"


@pytest.mark.parametrize(("cores", "threads"), [(1, 8), (2, 8), (4, 16), (192, 256)])
def test_home_is_exported_to_every_block_of_the_vpc(machine: Machine, cores: int, threads: int) -> None:
    stubs = f"""
imds_interface() {{ if [ "$1" = vpc-ipv4-cidr-blocks ]; then printf '10.0.0.0/16\n100.64.0.0/16'; fi; }}
nproc() {{ echo {cores}; }}
put_file() {{ echo "$1"; cat; }}
needs_home() {{ :; }}
starts_again() {{ echo "$1 starts again"; }}
service_up() {{ echo "$*"; }}
"""
    done = machine.run(f"{stubs}HOME_ON=head-nfs NFS_PORT=296; step_home_export", "nfs_server", "home_export")
    options = "(rw,sync,no_root_squash,no_subtree_check)"
    assert done.stdout.splitlines() == [
        "/etc/exports.d/gpucluster.exports",
        f"/home 10.0.0.0/16{options} 100.64.0.0/16{options}",
        "/etc/nfs.conf.d/gpucluster.conf",
        "[nfsd]",
        "port=296",
        f"threads={threads}",
        "nfs-mountd starts again",
        "nfs-server /etc/exports.d/gpucluster.exports /etc/nfs.conf.d/gpucluster.conf "
        "/etc/systemd/system/nfs-mountd.service.d/gpucluster-restart.conf",
    ]
