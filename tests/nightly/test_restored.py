"""A snapshot of a cluster's volume, restored into a new cluster: another name, another zone, a larger volume."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from bed import Bed, wait_for
from beds import up_without_environments
from test_changes import SLURM_SAVES_WITHIN_S

from localcloud.testing.patience import stretched

SUBJECTS = [
    "gpucluster/config/checks/online/snapshots.py",
    "stacks/storage/home.py",
    "bootstrap/gpucluster_node/head/volume.py",
    "bootstrap/programs/bin/mount-home",
    "bootstrap/steps/slurm/accounting.sh",
    "bootstrap/steps/slurm/mariadb.sh",
    "bootstrap/steps/slurm/renamed.sh",
    "bootstrap/steps/storage/volume.sh",
    "localcloud/machines/contents.py",
    "localcloud/machines/volumes.py",
    "templates/slurm/slurm.conf.j2",
]
COVERED_BY = (
    "test_restored_volume.py; test_machines.py: a volume from a snapshot, in a guest; the volume moves to another "
    "head node in test_changes.py"
)
ONE = ("--nodes", "1", "--launcher", "srun")
UNTIL_TOLD = ["bash", "-c", "until [ -e ~/go-on ]; do sleep 1; done; echo told"]


@pytest.fixture(scope="module")
def old(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Bed]:
    with up_without_environments(tmp_path_factory.mktemp("old")) as bed:
        yield bed


def test_files_queue_and_accounts_are_restored_into_a_new_cluster(old: Bed, tmp_path: Path) -> None:
    completed = old.submit(*ONE, "--follow", "--", "echo", "first life").last["job_id"]
    running = old.submit(*ONE, "--", *UNTIL_TOLD).last["job_id"]
    held = old.submit(*ONE, "--sbatch-args=--hold", "--", "echo", "second life").last["job_id"]
    old.ssh("sh", "-c", "echo kept >~/file")
    wait_for("the job's start", lambda: state(old, running) == "RUNNING", 180)
    time.sleep(stretched(SLURM_SAVES_WITHIN_S))
    snapshot = snapshot_of(old)
    old.submit(*ONE, "--", "true")  # after the snapshot, and so unknown to it
    ended = old.gpucluster("down", "--yes", timeout_s=300)
    assert ended.returncode == 0, ended.stderr

    new = restored(old, tmp_path, snapshot)
    assert new.ssh("cat", "/home/ubuntu/file") == "kept\n"
    assert new.ssh("sacctmgr", "-n", "-P", "list", "cluster", "format=cluster") == "restored\n"
    assert recorded(new, completed) == "COMPLETED"
    assert "first life" in new.gpucluster("logs", completed).stdout
    assert new.ssh("squeue", "-h", "-j", held, "-o", "%T %r") == "PENDING JobHeldUser\n"
    next_job = new.submit(*ONE, "--follow", "--", "echo", "third life")
    assert (next_job.exit_code, next_job.last["job_id"]) == (0, str(int(held) + 1))
    new.ssh("touch", "/home/ubuntu/go-on")
    new.ssh("scontrol", "release", held)
    for job in (running, held):
        wait_for(f"the end of job {job}", lambda job=job: recorded(new, job) == "COMPLETED", 420)
    assert "told" in new.gpucluster("logs", running).stdout
    # The file system's size is not checked: some kernels do not let a container change it.
    assert int(new.ssh("sudo", "blockdev", "--getsize64", "/dev/nvme1n1")) == 60 * 2**30
    assert "fatal" not in new.ssh("sudo", "cat", "/var/log/slurm/slurmctld.log", "/var/log/slurm/slurmdbd.log")


def restored(old: Bed, folder: Path, snapshot: str) -> Bed:
    """The new cluster, in the same local cloud."""
    text = old.config.read_text().replace("name: GpuCluster", "name: Restored\navailability_zone: us-east-1b")
    text = text.replace("volume_gib: 50", f"volume_gib: 60\n  snapshot_id: {snapshot}")
    (folder / "cluster.yaml").write_text(text)
    new = replace(old, folder=folder, _remotes={})
    new.up()
    return new


def snapshot_of(bed: Bed) -> str:
    ec2 = bed.client("ec2")
    volumes = ec2.describe_volumes(Filters=[{"Name": "tag-key", "Values": ["gpucluster:home"]}])["Volumes"]
    made: str = ec2.create_snapshot(VolumeId=volumes[0]["VolumeId"])["SnapshotId"]
    ec2.get_waiter("snapshot_completed").wait(SnapshotIds=[made], WaiterConfig={"Delay": 2})
    return made


def state(bed: Bed, job: str) -> str:
    return bed.ssh("squeue", "-h", "-o", "%T", "-j", job).strip()


def recorded(bed: Bed, job: str) -> str:
    return bed.ssh("sacct", "-n", "-X", "-P", "-j", job, "-o", "State").strip()
