"""A job's data is on Lustre before the job gets nodes, and its output is in S3 before it counts as completed."""

from __future__ import annotations

import json
from pathlib import Path

from bed import Bed, wait_for

BUCKET = "storage-tests"
FILES = 5
PROGRAM = """
set -e
lfs hsm_state /fsx/data/staged/*
cat /fsx/data/staged/* >/fsx/kept/staged/all
ln -sf all /fsx/kept/staged/link
"""


def shell(bed: Bed, script: str) -> str:
    """Runs a command on the head node as the jobs' user."""
    return bed.ssh("bash", "-ec", script)


def objects(bed: Bed, prefix: str) -> dict[str, bytes]:
    s3 = bed.client("s3")
    found = s3.list_objects_v2(Bucket=BUCKET, Prefix=prefix).get("Contents", [])
    return {each["Key"]: s3.get_object(Bucket=BUCKET, Key=each["Key"])["Body"].read() for each in found}


def job_file(folder: Path, **keys: object) -> str:
    job = {"command": ["bash", "-c", PROGRAM], "launcher": "srun", "ntasks_per_node": 1, "preflight": "off"} | keys
    (folder / "job.yaml").write_text(json.dumps(job))
    return str(folder / "job.yaml")


def test_data_is_loaded_before_and_exported_after(storage: Bed, tmp_path: Path) -> None:
    for number in range(FILES):
        storage.client("s3").put_object(Bucket=BUCKET, Key=f"data/staged/{number}", Body=b"%d\n" % number)
    shell(storage, "mkdir -p /fsx/kept/staged")
    wait_for("the import", lambda: len(shell(storage, "ls /fsx/data/staged || true").split()) == FILES, 60)
    assert shell(storage, "lfs hsm_state /fsx/data/staged/*").count("released") == FILES
    channels = {"train": {"source": "/fsx/data/staged"}}
    job = storage.submit("--follow", job_file(tmp_path, channels=channels, exports=["/fsx/kept/staged"]), timeout_s=500)
    assert job.exit_code == 0, job.told
    states = [line for line in job.log if "/fsx/data/staged/" in line and ": (0x" in line]
    assert len(states) == FILES and not any("released" in line for line in states), job.log
    # no polling: it exists when the job has ended
    assert objects(storage, "kept/staged/") == {"kept/staged/all": b"0\n1\n2\n3\n4\n"}
    said = json.loads(shell(storage, f"cat {job.last['folder']}/exports.json"))
    assert said["state"] == "complete"
    assert [(each["path"], each["files"], each["failed"]) for each in said["exports"]] == [("/fsx/kept/staged", 1, 0)]


def test_the_head_finds_files_that_are_only_on_lustre(storage: Bed) -> None:
    """`down` relies on this."""
    shell(storage, "mkdir -p /fsx/kept/alone; echo 1 >/fsx/kept/alone/a")
    found = {
        each["path"]: each
        for each in json.loads(shell(storage, "sudo -n /opt/gpucluster/bin/node-program lustre.unexported"))
    }
    assert set(found) == {"/fsx/data", "/fsx/results", "/fsx/kept"}
    assert "/fsx/kept/alone/a" in found["/fsx/kept"]["first"]
    shell(storage, "rm /fsx/kept/alone/a")


def test_a_job_whose_exports_failed_has_failed(storage: Bed, tmp_path: Path) -> None:
    file = job_file(tmp_path, command=["true"], exports=["/fsx/kept/nothing-there"])
    job = storage.submit("--follow", file, timeout_s=500)
    assert job.exit_code == 4, job.told
    assert job.result["reason"] == "/fsx/kept/nothing-there does not exist"
    listed = json.loads(storage.gpucluster("jobs", "--json").stdout)
    (entry,) = [each for each in listed if each["job_id"] == job.last["job_id"]]
    assert (entry["state"], entry["reason"]) == ("FAILED", "/fsx/kept/nothing-there does not exist")


def test_a_job_whose_data_cannot_be_loaded_waits_with_the_reason(storage: Bed, tmp_path: Path) -> None:
    file = job_file(tmp_path, command=["true"], channels={"train": {"source": "/fsx/data/not-there"}})
    submitted = storage.gpucluster("submit", file)
    job_id = json.loads(submitted.stdout.splitlines()[-1])["job_id"]
    try:
        why = wait_for(
            "the reason", lambda: said if "not-there" in (said := storage.gpucluster("why", job_id).stdout) else "", 60
        )
        assert "its data could not be loaded from S3" in why and "/fsx/data/not-there does not exist" in why
    finally:
        storage.gpucluster("cancel", job_id)
