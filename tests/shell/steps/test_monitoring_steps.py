"""The steps of samples: what they install, which units they write, and what the prolog tells the sampler."""

from __future__ import annotations

import os
import stat
from pathlib import Path

import pytest
from test_steps import Machine, source_of

SOURCES = ("runner", "files", "services", "node_program", "apt", "monitoring")
VALUES = "PROMETHEUS=on EXPORTS=yes EXPORTER_PORT=300 PROMETHEUS_PORT=301 SAMPLES_DAYS=15d SAMPLES_SIZE=512MB"


class Node(Machine):
    def __init__(self, root: Path) -> None:
        super().__init__(root)
        for name in (
            "files",
            "services",
            "node_program",
            "apt",
            "monitoring",
            "samples",
            "node_exporter",
            "prometheus",
            "monitoring_packages",
        ):
            text = source_of(name).read_text().replace("prometheus:prometheus", "root:root")
            self.step(name, self.below(text, "/opt/", "/etc/", "/var/lib/", "/usr/bin/$", "/usr/sbin/policy-rc.d"))
        self.programs("/opt/", "/run/")
        (self.root / "bundle/gpucluster_node/watch").mkdir(parents=True)
        (self.root / "bundle/gpucluster_node/a.py").touch()
        (self.root / "bundle/gpucluster_node/watch/a.py").touch()
        (self.root / "bundle/fleet.json").touch()
        (self.root / "etc/systemd/system").mkdir(parents=True)
        (self.root / "usr/bin").mkdir(parents=True)
        self.command("systemctl", '[ "$1" != is-active ]')
        self.command("apt-get", f'echo "APT_CONFIG=$APT_CONFIG" >>"{self.calls_file}"')
        self.command("find")
        self.command("chown")

    def boot(self, *steps: str, role: str = "head", values: str = VALUES) -> str:
        ran = "\n".join(f"run_step {step}" for step in steps)
        report = 'report_failure() { echo "REPORTED $1"; }'
        done = self.run(f"ROLE={role} DATA={self.root}/data {values}\n{report}\n{ran}", *SOURCES)
        assert done.returncode == 0 and "REPORTED" not in done.stdout, done.stdout + done.stderr
        return done.stdout

    def unit(self, name: str) -> str:
        return (self.root / "etc/systemd/system" / name).read_text()

    def installs(self) -> list[str]:
        return [call.split("--no-install-recommends ")[1] for call in self.calls() if "--no-install-recommends" in call]


@pytest.fixture
def node(tmp_path: Path) -> Node:
    return Node(tmp_path)


def test_the_head_node_installs_both_packages_and_masks_their_units(node: Node) -> None:
    node.boot("samples", "node_exporter", "prometheus")
    assert node.installs() == ["prometheus-node-exporter", "prometheus"]
    for package in node.installs():
        assert os.readlink(node.root / f"etc/systemd/system/{package}.service") == "/dev/null"
    unit = node.unit("gpucluster-prometheus.service")
    assert "--web.listen-address=127.0.0.1:301 \\\n" in unit
    assert "--storage.tsdb.retention.time=15d --storage.tsdb.retention.size=512MB" in unit
    assert 'device-exclude=^(lo|veth.*|docker.*|br-.*)$$"' in node.unit("gpucluster-node-exporter.service")
    assert "node-program watch.targets 300" in node.unit("gpucluster-targets.service")
    assert not (node.root / "opt/gpucluster/prolog.d").exists()


def test_an_image_with_the_packages_installs_nothing(node: Node) -> None:
    for package in ("prometheus", "prometheus-node-exporter"):
        (node.root / "usr/bin" / package).touch(0o755)
    node.boot("node_exporter", "prometheus")
    assert node.installs() == []
    units = [path.name for path in (node.root / "etc/systemd/system").iterdir()]
    assert sorted(units) == sorted(["gpucluster-node-exporter.service", *HEADS]), "its own units stay as they are"


HEADS = ["gpucluster-prometheus.service", "gpucluster-targets.service"]


def test_a_program_of_that_name_elsewhere_is_not_the_package(node: Node) -> None:
    node.command("prometheus")
    node.boot("prometheus")
    assert node.installs() == ["prometheus"]


def test_a_unit_that_an_administrator_wrote_stays(node: Node) -> None:
    unit = node.root / "etc/systemd/system/prometheus-node-exporter.service"
    unit.write_text("[Service]\n")
    node.boot("node_exporter")
    assert unit.read_text() == "[Service]\n"


def test_a_machine_in_use_does_not_try_for_long_to_install_them(node: Node) -> None:
    """A prolog waits for the lock of this run, and without a route to the internet apt waits for minutes."""
    node.boot("node_exporter", role="compute")
    used = {call for call in node.calls() if call.startswith("APT_CONFIG=")}
    assert used == {f"APT_CONFIG={node.root}/etc/gpucluster/apt-in-short.conf"}
    said = (node.root / "etc/gpucluster/apt-in-short.conf").read_text()
    assert 'Acquire::Retries "1";' in said and 'Acquire::http::Timeout "10";' in said
    node.calls_file.write_text("")
    node.boot("monitoring_packages", role="image")
    assert {call for call in node.calls() if call.startswith("APT_CONFIG=")} == {"APT_CONFIG="}


def test_without_prometheus_nothing_of_it_runs(node: Node) -> None:
    node.boot("node_exporter", "prometheus")
    off = VALUES.replace("PROMETHEUS=on EXPORTS=yes", "PROMETHEUS=off EXPORTS=no")
    node.calls_file.write_text("")
    node.boot("node_exporter", "prometheus", values=off)
    ended = [call.split()[-1] for call in node.calls() if "disable --now" in call]
    assert ended == ["gpucluster-node-exporter", "gpucluster-prometheus", "gpucluster-targets"]


def test_a_compute_node_tells_the_sampler_of_each_job(node: Node) -> None:
    node.boot("samples", role="compute")
    assert "size=16m" in node.unit("run-gpucluster-metrics.mount")
    jobs, metrics = node.root / "run/gpucluster/jobs", node.root / "run/gpucluster/metrics"
    metrics.mkdir(parents=True)
    node.command("mountpoint")
    job = f"SLURM_JOB_ID=7 SLURM_JOB_UID={os.getuid()} SLURM_JOB_GID={os.getgid()} SLURM_JOB_GPUS=0,1"
    work = "SLURM_JOB_WORK_DIR=$'/home/eve/a\\nb/code'"
    program = f"env {job} {work} {node.root}/opt/gpucluster"
    assert node.run(f"{program}/prolog.d/22-samples").returncode == 0
    assert (jobs / "7").read_bytes() == f"{os.getuid()}\0{os.getgid()}\x000,1\0/home/eve/a\nb\0".encode()
    assert stat.S_IMODE((metrics / "7").stat().st_mode) == 0o700 and stat.S_IMODE(jobs.stat().st_mode) == 0o700
    assert node.run(f"{program}/epilog.d/30-samples").returncode == 0
    assert list(jobs.iterdir()) == [] and list(metrics.iterdir()) == []


def test_a_node_that_cannot_tell_the_sampler_runs_the_job(node: Node) -> None:
    node.boot("samples", role="compute")
    (node.root / "run").write_text("in the way")
    assert node.run(f"SLURM_JOB_ID=7 {node.root}/opt/gpucluster/prolog.d/22-samples").returncode == 0
