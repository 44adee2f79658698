"""The local cloud's FSx and EFS on the nodes of a cluster."""

from __future__ import annotations

from typing import Any

import pytest
from bed import Bed, wait_for

BUCKET = "storage-tests"
TIMEOUT_S = 60


def objects(bed: Bed, prefix: str) -> dict[str, bytes]:
    s3 = bed.client("s3")
    found = s3.list_objects_v2(Bucket=BUCKET, Prefix=prefix).get("Contents", [])
    return {each["Key"]: s3.get_object(Bucket=BUCKET, Key=each["Key"])["Body"].read() for each in found}


def shell(bed: Bed, script: str) -> str:
    """Runs a command on the head node as the jobs' user."""
    return bed.ssh("bash", "-ec", script)


def test_objects_in_s3_can_be_read_through_lustre(storage: Bed) -> None:
    s3 = storage.client("s3")
    for number in range(3):
        s3.put_object(Bucket=BUCKET, Key=f"data/one/{number}.txt", Body=f"sample {number}\n".encode())
    wait_for(
        "the import", lambda: shell(storage, "ls /fsx/data/one || true").split() == ["0.txt", "1.txt", "2.txt"], 30
    )
    released = shell(storage, "lfs hsm_state /fsx/data/one/*")
    assert released.count(": (0x0000000d) released exists archived, archive_id:1") == 3, released
    assert shell(storage, "cat /fsx/data/one/0.txt") == "sample 0\n"
    shell(storage, "lfs hsm_restore /fsx/data/one/1.txt")
    wait_for("the restore", lambda: "NOOP" in shell(storage, "lfs hsm_action /fsx/data/one/1.txt"), 30)
    states = shell(storage, "lfs hsm_state /fsx/data/one/*").splitlines()
    assert [line.split()[1] for line in states] == ["(0x00000009)", "(0x00000009)", "(0x0000000d)"]
    s3.put_object(Bucket=BUCKET, Key="data/one/0.txt", Body=b"another\n")
    s3.delete_object(Bucket=BUCKET, Key="data/one/2.txt")
    wait_for("the deletion", lambda: "2.txt" not in shell(storage, "ls /fsx/data/one"), 30)
    wait_for("the change", lambda: shell(storage, "cat /fsx/data/one/0.txt") == "another\n", 30)


def test_files_are_exported_to_s3_automatically_or_on_request(storage: Bed) -> None:
    shell(storage, "mkdir -p /fsx/results/run /fsx/kept/run; echo 1 >/fsx/results/run/a; echo 2 >/fsx/kept/run/b")
    wait_for("the export", lambda: objects(storage, "results/run/a") == {"results/run/a": b"1\n"}, 30)
    head = storage.client("s3").head_object(Bucket=BUCKET, Key="results/run/a")
    assert head["Metadata"]["file-owner"] == shell(storage, "id -u").strip()
    assert shell(storage, "lfs hsm_state /fsx/kept/run/b").strip() == "/fsx/kept/run/b: (0x00000000)"
    refused = shell(storage, "lfs hsm_archive /fsx/kept/run/b 2>&1 || true")
    assert "Operation not permitted" in refused, "archiving is for root"
    shell(storage, "sudo lfs hsm_archive /fsx/kept/run/b")
    wait_for("the archive", lambda: objects(storage, "kept/run/b") == {"kept/run/b": b"2\n"}, 30)
    assert shell(storage, "lfs hsm_state /fsx/kept/run/b").split()[1] == "(0x00000009)"


def test_tasks_export_and_release_many_files(storage: Bed) -> None:
    fsx = storage.client("fsx")
    (system,) = fsx.describe_file_systems()["FileSystems"]
    shell(storage, "mkdir -p /fsx/kept/many; for i in $(seq 20); do echo $i >/fsx/kept/many/$i; done")

    def done(**given: Any) -> dict[str, Any]:
        wanted = {"Paths": ["/kept/many"], "Report": {"Enabled": False}, **given}
        task = fsx.create_data_repository_task(FileSystemId=system["FileSystemId"], **wanted)["DataRepositoryTask"]

        def ended() -> dict[str, Any] | None:
            (shown,) = fsx.describe_data_repository_tasks(TaskIds=[task["TaskId"]])["DataRepositoryTasks"]
            return None if shown["Lifecycle"] in ("PENDING", "EXECUTING") else shown

        found: dict[str, Any] = wait_for("the task", ended, TIMEOUT_S)
        return found

    exported = done(Type="EXPORT_TO_REPOSITORY")
    assert (exported["Lifecycle"], exported["Status"]["SucceededCount"]) == ("SUCCEEDED", 20)
    assert objects(storage, "kept/many/7") == {"kept/many/7": b"7\n"}
    never_read = {"DurationSinceLastAccess": {"Unit": "DAYS", "Value": 0}}
    assert done(Type="RELEASE_DATA_FROM_FILESYSTEM", ReleaseConfiguration=never_read)["Status"]["SucceededCount"] == 20
    assert "released" in shell(storage, "lfs hsm_state /fsx/kept/many/7")
    assert shell(storage, "cat /fsx/kept/many/7") == "7\n"


def test_head_and_compute_node_share_each_file_system(storage: Bed) -> None:
    """Tests Lustre and EFS on the head node and on a node that a job starts."""
    shell(storage, "mkdir -p /fsx/kept/both /efs/both; echo fsx >/fsx/kept/both/a; echo efs >/efs/both/a")
    script = "cat /fsx/kept/both/a /efs/both/a; echo $SLURMD_NODENAME | tee /fsx/kept/both/b >/efs/both/b"
    done = storage.submit("--nodes", "1", "--launcher", "srun", "--follow", "--", "bash", "-c", script)
    assert done.exit_code == 0, done.log
    written = shell(storage, "cat /fsx/kept/both/b /efs/both/b").split()
    assert written == done.result["node_list"] * 2


@pytest.mark.parametrize(
    ("source", "options", "status", "text"),
    [
        ("$DNS@tcp:/nosuchname", "flock", 2, "Is the filesystem name correct?"),
        ("$DNS@tcp:/$NAME", "flok", 22, "Are the mount options correct?"),
        ("nosuchhost@tcp:/$NAME", "flock", 22, "Can't parse NID"),
    ],
)
def test_a_wrong_mount_fails_with_the_message_of_lustre(
    storage: Bed, source: str, options: str, status: int, text: str
) -> None:
    (system,) = storage.client("fsx").describe_file_systems()["FileSystems"]
    name = system["LustreConfiguration"]["MountName"]
    where = source.replace("$DNS", system["DNSName"]).replace("$NAME", name)
    output = shell(storage, f"sudo mount -t lustre -o {options} {where} /mnt 2>&1 || echo status $?")
    assert text in output and f"status {status}" in output, output
