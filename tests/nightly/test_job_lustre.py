"""A Lustre file system for jobs: created for the first job, exported, and deleted only after the last."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from bed import Bed, wait_for
from test_file_systems import BUCKET, objects, shell

SUBJECTS = [
    "bootstrap/gpucluster_node/lustre/*",
    "bootstrap/programs/*job-lustre",
    "bootstrap/steps/storage/job_lustre*.sh",
    "bootstrap/steps/storage/lustre_client.sh",
    "gpucluster/cluster/deletion/*",
    "gpucluster/head/job_lustre.py",
    "localcloud/filesystems/*",
]
COVERED_BY = (
    "test_job_lustre_steps.py, test_status_job_lustre.py, test_down_job_lustre.py; Lustre that lives as long as the "
    "cluster, booted, in test_file_systems.py"
)
MOUNT = "/burst"
END = "sudo -n /opt/gpucluster/bin/node-program lustre.for_jobs end"
STATE = "/home/gpucluster/lustre/burst/state.json"
GONE_S = 120


def systems(bed: Bed) -> list[dict[str, Any]]:
    """The state of this mount."""
    name = {"Key": "Name", "Value": f"{bed.status()['cluster']}-burst"}
    return [each for each in bed.client("fsx").describe_file_systems()["FileSystems"] if name in each["Tags"]]


def words(bed: Bed) -> str:
    """The line of `gpucluster status`."""
    (found,) = [each["words"] for each in bed.status()["storage"] if each["path"] == MOUNT]
    return str(found)


def mounted(bed: Bed, on: str = "") -> bool:
    return f" {MOUNT} " in shell(bed, f"{on} cat /proc/mounts")


def job_file(folder: Path, script: str) -> str:
    job = {"command": ["bash", "-ec", script], "launcher": "srun", "nodes": 2, "ntasks_per_node": 1, "preflight": "off"}
    (folder / "job.yaml").write_text(json.dumps(job))
    return str(folder / "job.yaml")


@pytest.fixture(autouse=True)
def cleared(storage: Bed) -> Iterator[None]:
    """Removes what a test leaves, which would disturb the next one."""
    yield
    shell(storage, f"{END} --discard; sudo systemctl start gpucluster-job_lustre")


def test_it_lives_from_the_first_job_to_the_last(storage: Bed, tmp_path: Path) -> None:
    storage.client("s3").put_object(Bucket=BUCKET, Key="burst/in/part", Body=b"from S3\n")
    assert systems(storage) == []
    assert words(storage) == "no job uses it"
    script = (
        f"grep ' {MOUNT} ' /proc/mounts\n"
        f"cat {MOUNT}/in/part >{MOUNT}/out/$SLURM_PROCID\n"
        f"if [ $SLURM_PROCID = 0 ]; then echo scrap >{MOUNT}/scrap; fi"
    )
    job = storage.submit("--follow", job_file(tmp_path, script), timeout_s=500)
    assert job.exit_code == 0, job.told
    (system,) = systems(storage)
    assert system["LustreConfiguration"]["DeploymentType"] == "SCRATCH_2"
    # Files that are not in S3 prevent its deletion.
    reason = wait_for("the reason", lambda: json.loads(shell(storage, f"cat {STATE}"))["reason"], GONE_S)
    assert reason == f"not deleted: 1 of 1 files of {MOUNT} are not in S3, such as {MOUNT}/scrap"
    assert words(storage).endswith(f", {reason}")
    assert [each["FileSystemId"] for each in systems(storage)] == [system["FileSystemId"]]
    assert not any(mounted(storage, f"ssh {node}") for node in job.result["node_list"]), "jobs alone mount it on nodes"
    shell(storage, f"rm {MOUNT}/scrap")
    wait_for("its deletion", lambda: systems(storage) == [], GONE_S)
    wait_for("the head", lambda: json.loads(shell(storage, f"cat {STATE}"))["phase"] == "absent", 60)
    assert not mounted(storage)
    assert objects(storage, "burst/out/") == {f"burst/out/{rank}": b"from S3\n" for rank in (0, 1)}


def test_the_end_of_the_cluster_keeps_what_is_not_in_s3(storage: Bed, tmp_path: Path) -> None:
    job = storage.submit("--follow", job_file(tmp_path, f"touch {MOUNT}/scrap"), timeout_s=500)
    assert job.exit_code == 0, job.told
    (system,) = systems(storage)
    refused = shell(storage, f"{END} 2>&1 || true")
    assert refused.splitlines()[-1] == f"1 of 1 files of {MOUNT} are not in S3, such as {MOUNT}/scrap"
    assert systems(storage)
    assert shell(storage, "systemctl is-active gpucluster-job_lustre").strip() == "active", "the cluster goes on"
    assert shell(storage, f"{END} --discard") == f"{MOUNT}: {system['FileSystemId']} is deleted\n"
    assert systems(storage) == []
