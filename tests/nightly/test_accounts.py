"""Two users at once, on nodes that booted before there were users: neither sees, reads or cancels the other's jobs."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest
from bed import Bed, wait_for
from beds import up_without_environments

SUBJECTS = [
    "bootstrap/lib/controller.sh",
    "bootstrap/programs/bin/accounts",
    "bootstrap/programs/bin/job-firewall",
    "bootstrap/programs/bin/mount-home",
    "bootstrap/programs/bin/user-key",
    "bootstrap/programs/prolog.d/05-users",
    "bootstrap/steps/jobs/ssh_trust.sh",
    "bootstrap/steps/slurm/accounting.sh",
    "bootstrap/steps/slurm/user_limits.sh",
    "bootstrap/steps/system/job_firewall.sh",
    "bootstrap/steps/system/users.sh",
    "gpucluster/account.py",
    "gpucluster/config/users.py",
    "templates/slurm/slurm.conf.j2",
]
COVERED_BY = (
    "test_users_steps.py, and test_user_accounts.py with the system's own tools; test_job_users.py, test_users.py"
)
USERS = "\nusers:\n  - {name: ada}\n  - {name: ben, max_jobs: 1}\n"
WAITS = ["bash", "-c", "id -un; id -u; while [ ! -e $GPUCLUSTER_JOB_DIR/go-on ]; do sleep 1; done"]


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Bed]:
    with up_without_environments(tmp_path_factory.mktemp("accounts")) as bed:
        bed.submit("--nodes", "2", "--launcher", "srun", "--follow", "--", "true")
        bed.config.write_text(bed.config.read_text() + USERS)
        bed.up()
        yield bed


def job_of(bed: Bed) -> str:
    submitted = bed.submit("--nodes", "1", "--launcher", "srun", "--", *WAITS)
    assert submitted.exit_code == 0, submitted.told
    return str(submitted.last["job_id"])


def jobs_of(bed: Bed) -> dict[str, dict[str, Any]]:
    """Those that have not ended."""
    done = bed.gpucluster("jobs", "--json")
    assert done.returncode == 0, done.stderr
    return {row["job_id"]: row for row in json.loads(done.stdout) if row["state"] in ("RUNNING", "PENDING")}


def refused(bed: Bed, *words: str) -> str:
    done = bed.gpucluster(*words)
    assert done.returncode != 0, done.stdout
    return done.stderr


def ran(bed: Bed, *words: str) -> list[str]:
    done = bed.gpucluster(*words)
    assert done.returncode == 0, done.stderr
    return done.stdout.split()


def test_two_users_at_once(shared: Bed) -> None:
    ada, ben = shared.of("ada"), shared.of("ben")
    hers, his, second = job_of(ada), job_of(ben), job_of(ben)
    wait_for("both jobs' start", lambda: [jobs_of(shared)[job]["state"] for job in (hers, his)] == ["RUNNING"] * 2, 120)

    # on nodes that booted before there were users, under the same number as on the head node
    uid = ran(ada, "ssh", "--", "id", "-u")
    log = ("ssh", "--", "cat", f"jobs/by-id/{hers}/log.txt")
    wait_for("her name and number", lambda: {"ada", *uid} <= set(ran(ada, *log)), 60)

    # each sees their own, and the administrator all
    assert set(jobs_of(ada)) == {hers}
    assert set(jobs_of(ben)) == {his, second}
    assert {job: row["user"] for job, row in jobs_of(shared).items()} == {hers: "ada", his: "ben", second: "ben"}
    assert his not in ran(ada, "ssh", "--", "sacct", "--allusers", "--noheader", "--format=jobid")

    # a limit holds for its user
    wait_for("the limit", lambda: jobs_of(ben)[second]["slurm_reason"] == "AssocMaxJobsLimit", 60)

    # neither ends nor reads the other's
    assert f"there is no job {his}" in refused(ada, "cancel", his)
    assert "Access/permission denied" in refused(ada, "ssh", "--", "scancel", his)
    assert f"there is no job {his}" in refused(ada, "logs", his)
    assert "Permission denied" in refused(ada, "ssh", "--", "ls", "/home/ben/jobs")
    assert "Permission denied" in refused(ada, "ssh", "--", "ls", "/home/ubuntu/jobs")
    assert "Permission denied" in refused(ada, "ssh", "--", "touch", "/home/gpucluster/envs/mine")
    assert refused(ada, "ssh", "--", "sudo", "-n", "true")
    assert set(jobs_of(shared)) == {hers, his, second}

    # their own, and the administrator anybody's; while his job ends, the second one would be given a third node
    shared.ssh("scancel", hers, second)
    assert str(his) in " ".join(ran(ben, "cancel", his))
    wait_for("the end of all", lambda: not jobs_of(shared), 60)


def test_a_removed_user_cannot_log_in(shared: Bed) -> None:
    text = shared.config.read_text()
    ben = shared.of("ben")
    assert ran(ben, "ssh", "--", "id", "-un") == ["ben"]
    shared.config.write_text(text.replace("  - {name: ben, max_jobs: 1}\n", ""))
    shared.up()
    assert "'ben' is not a user of the cluster" in refused(ben, "ssh", "--", "true")
    shared.config.write_text(text)
    assert refused(ben, "ssh", "--", "true")
    submits = "setpriv --reuid=ben --regid=ben --clear-groups sbatch --chdir=/tmp --wrap=true"
    assert "Job violates accounting/QOS policy" in shared.ssh("sudo", "sh", "-c", f"{submits} 2>&1 || true")
    assert shared.ssh("stat", "-c", "%U %a", "/home/ben").split() == ["ben", "700"]
