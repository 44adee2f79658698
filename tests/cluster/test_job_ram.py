"""A file system in the memory of a job's nodes: shared while the job runs, written back, and removed after it."""

from __future__ import annotations

import textwrap

import pytest
from bed import Bed, Submitted, wait_for

BUCKET = "storage-tests"
MIB = 2**20
NODES = "--sbatch-args=--nodelist=train-[1-2]"


def submit(bed: Bed, script: str, *more: str) -> Submitted:
    """A rank on each of two nodes."""
    body = textwrap.dedent(script)
    return bed.submit(
        "--nodes", "2", "--ntasks-per-node", "1", "--launcher", "srun", NODES, *more, "--", "bash", "-ec", body,
        timeout_s=300,
    )  # fmt: skip


def log(bed: Bed, folder: str) -> str:
    return bed.ssh("cat", f"{folder}/log.txt")


def exported(bed: Bed, key: str) -> bytes | None:
    s3 = bed.client("s3")
    found = s3.list_objects_v2(Bucket=BUCKET, Prefix=f"jobs/ram/{key}").get("Contents", [])
    return bytes(s3.get_object(Bucket=BUCKET, Key=found[0]["Key"])["Body"].read()) if found else None


def held(bed: Bed) -> str:
    """Mounts and services that nodes still have of it."""
    services = "beegfs-mgmtd beegfs-meta beegfs-storage beegfs-client"
    look = f'findmnt -rno TARGET | grep -E "^/(ram|mnt/beegfs)"; systemctl is-active {services} | grep -v inactive'
    ask = f"for node in train-1 train-2; do ssh $node '{look}'; done || true"
    return bed.ssh("bash", "-c", ask).strip()


@pytest.fixture(scope="module", autouse=True)
def source(storage: Bed) -> None:
    for number in range(8):
        storage.client("s3").put_object(Bucket=BUCKET, Key=f"data/ram/part-{number}", Body=bytes([number]) * MIB)


def test_nodes_share_the_file_system_and_it_is_removed_after_the_job(storage: Bed) -> None:
    job = submit(
        storage,
        """
        if [ "$RANK" = 0 ]; then
          ls /ram | grep -c part-
          cmp /ram/part-7 <(head -c 1048576 /dev/zero | tr '\\0' '\\7') && echo as in S3
          mkdir /ram/out && hostname >/ram/out/from && echo changed >/ram/part-3
          head -c 100M /dev/zero >/ram/out/large
          touch /ram/out/done
        else
          until [ -e /ram/out/done ]; do sleep 0.2; done
          echo "read $(cat /ram/out/from)"
        fi
        findmnt -rno FSTYPE /ram
        """,
        "--follow",
    )
    assert job.exit_code == 0, job.log
    for line in ("[0 train-1] 8", "[0 train-1] as in S3", "[1 train-2] read train-1", "[1 train-2] tmpfs"):
        assert line in job.log
    assert sum(line.startswith("[ram] train-") and " filled with 4 files (4.0 MiB) " in line for line in job.log) == 2
    assert (exported(storage, "out/from"), exported(storage, "part-3")) == (b"train-1\n", b"changed\n")
    assert len(exported(storage, "out/large") or b"") == 100 * MIB
    assert exported(storage, "part-7") is None, "what was only read is not written back"
    wait_for("the end of the epilogs", lambda: held(storage) == "", 60)


def test_a_cancelled_jobs_files_are_written_back_after_it(storage: Bed) -> None:
    job = submit(storage, '[ "$RANK" = 1 ] || echo late >/ram/late; echo written; sleep 600')
    folder = job.last["folder"]
    wait_for("both ranks", lambda: log(storage, folder).count("] written") == 2, 120)
    storage.gpucluster("cancel", job.last["job_id"])
    wait_for("the export", lambda: exported(storage, "late") == b"late\n", 60)
    wait_for(
        "the word of it", lambda: log(storage, folder).splitlines()[-1].startswith("[ram] train-1: exported 1 "), 30
    )
    wait_for("the end of the epilogs", lambda: held(storage) == "", 60)
