"""Head and compute node boot from a plain image, whose apt has only a local folder: each installs what it needs."""

from __future__ import annotations

import re
from collections.abc import Iterator

import pytest
from bed import WHEELS, Bed
from test_changes import _FILES, _SERVICES, _said

from localcloud.machines import ami, image

SUBJECTS = [
    "localcloud/machines/image.py",
    "localcloud/machines/plain.sh",
    "localcloud/machines/packages.txt",
    "localcloud/machines/ami/*",
    "bootstrap/user-data.sh.j2",
    "bootstrap/gpucluster_node/aws_api.py",
    "bootstrap/steps/system/name.sh",
    "bootstrap/steps/system/apt_timers.sh",
    "bootstrap/steps/system/packages.sh",
    "bootstrap/lib/apt.sh",
    "bootstrap/steps/slurm/munge.sh",
    "bootstrap/steps/jobs/mpi.sh",
    "bootstrap/steps/slurm/mariadb.sh",
    "bootstrap/steps/slurm/slurmdbd.sh",
    "bootstrap/steps/slurm/slurm_head.sh",
    "bootstrap/steps/slurm/slurm_compute.sh",
    "bootstrap/lib/firewall.sh",
    "bootstrap/steps/system/imds_guard.sh",
    "bootstrap/steps/system/job_firewall.sh",
    "bootstrap/steps/jobs/python_env.sh",
    "bootstrap/environments/environment.sh",
]
COVERED_BY = "test_steps.py, test_software_steps.py"
CLUSTER = """
name: Plain
region: us-east-1
head_node: {instance_type: m6i.large, volume_gib: 20}
partitions:
  - {name: cpu, instance_types: [m6i.xlarge], max_nodes: 1}
"""
LOG = "/var/log/gpucluster/boot.log"


@pytest.fixture(scope="module")
def plain(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Bed]:
    bed = Bed.make(tmp_path_factory.mktemp("plain"))
    bed.config.write_text(CLUSTER)
    wheels = ["--wheels", str(WHEELS)] if WHEELS.is_dir() else []
    try:
        root = image.build(plain=True)
        assert ami.differences(root, ami.UBUNTU, baked=False) == []
        opened = bed.localcloud("up", "--detach", "--port", str(bed.port), "--image", str(root), *wheels)
        assert opened.returncode == 0, opened.stderr
        bed.up()
        yield bed
    finally:
        bed.close()


def test_nodes_install_their_software_at_boot_and_a_second_run_changes_nothing(plain: Bed) -> None:
    job = plain.submit(
        "--nodes", "1", "--gpus-per-node", "0", "--launcher", "srun", "--ntasks-per-node", "2", "--follow", "--",
        "bash", "-c", "mpirun --version; echo rank $RANK of $WORLD_SIZE", timeout_s=420,
    )  # fmt: skip
    assert job.exit_code == 0, job.told + "\n".join(job.log)
    said = {line.partition("] ")[2] for line in job.log}
    assert {"rank 0 of 2", "rank 1 of 2"} <= said
    (node,) = job.result["node_list"]
    for role, where, commands in (
        ("head", [], ("munged", "nft", "slurmctld", "slurmdbd", "mariadbd", "virtualenv")),
        ("compute", ["ssh", node], ("munged", "nft", "slurmd", "mpirun")),
    ):
        look = [*where, "sudo", "bash", "-s"]
        log = _said(plain, look, f"cat {LOG}")
        assert re.search(r"Setting up munge ", log), log
        assert _said(plain, look, f"command -v {' '.join(commands)} | wc -l").strip() == str(len(commands))
        before = _said(plain, look, _FILES + _SERVICES)
        again = _said(plain, look, f"bash /opt/gpucluster/bundle/{role}.sh 2>&1")
        assert "status=failed" not in again and "Setting up" not in again
        assert _said(plain, look, _FILES + _SERVICES) == before


def test_the_packages_come_from_the_image_itself(plain: Bed) -> None:
    """apt has no other source, so the boot needs no network for packages."""
    sources = plain.ssh("cat /etc/apt/sources.list; ls /etc/apt/sources.list.d")
    assert sources.strip() == f"deb [trusted=yes] file:/{image.REPOSITORY} ./"
