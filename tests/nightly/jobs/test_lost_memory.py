"""A node's part of the memory of a job is lost, and Slurm runs the job again."""

from __future__ import annotations

from bed import Bed, wait_for
from test_job_ram import exported, held, log, submit
from test_job_ram import source as source  # puts its files into S3 before any test

SUBJECTS = [
    "bootstrap/beegfs.sh.j2",
    "bootstrap/steps/storage/beegfs*.sh",
    "bootstrap/steps/storage/job_ram.sh",
    "bootstrap/programs/*job-ram",
    "bootstrap/gpucluster_node/beegfs/*",
    "gpucluster*job/*",
    "gpucluster/job_keys.py",
    "templates/job/*",
]
COVERED_BY = (
    "test_job_ram_scripts.py: the lost part is the job's reason; memory that is shared and written back, booted, in "
    "test_job_ram.py"
)


def test_a_lost_server_is_announced_and_the_job_runs_again_with_a_new_one(storage: Bed) -> None:
    job = submit(
        storage,
        """
        if [ "${SLURM_RESTART_COUNT:-0}" = 0 ]; then echo only here >/ram/mine; echo waiting; sleep 600; fi
        [ ! -e /ram/mine ] && echo "anew with $(ls /ram | wc -l) files"
        """,
    )
    folder = job.last["folder"]
    wait_for("both ranks", lambda: log(storage, folder).count("] waiting") == 2, 120)
    storage.ssh("ssh", "train-2", "sudo", "systemctl", "kill", "--signal=KILL", "beegfs-storage")
    said = wait_for("the announcement", lambda: "[ram] lost: " in log(storage, folder) and log(storage, folder), 90)
    assert "[ram] lost: train-2 and its part of /ram; data only in /ram is lost" in said
    wait_for("the second run", lambda: log(storage, folder).count("] anew with 8 files") == 2, 120)
    second = log(storage, folder)
    assert "[ram] warning: nothing is exported: train-2 and its part of /ram are lost" in second
    assert "[ram] run 2 of this job: data that the last run had only in /ram is lost; creating it again" in second
    assert exported(storage, "mine") is None
    wait_for("the end of the epilogs", lambda: held(storage) == "", 60)
