"""accounting: rds, on a DB instance that really answers, from `up` to `down`."""

from __future__ import annotations

import pytest
from bed import Bed, wait_for

from localcloud import state

SUBJECTS = [
    "localcloud/databases/*",
    "localcloud/databases/rds.py",
    "localcloud/databases/truststore.py",
    "stacks/accounting.py",
    "bootstrap/steps/slurm/mariadb.sh",
    "bootstrap/steps/slurm/slurmdbd.sh",
    "bootstrap/steps/slurm/accounting.sh",
]
COVERED_BY = (
    "test_local_cloud_databases.py, test_stacks_accounting.py, test_accounting_steps.py; accounts on the head node in "
    "test_training.py"
)
# As root on the head node: what the database says to slurmdbd's user over TLS, without it, and with a wrong password.
ASK = """
conf() { sed -n "s/^$1=//p" /etc/slurm/slurmdbd.conf; }
ask() { mariadb -h "$(conf StorageHost)" -u slurm -N -e "$1" "${@:2}" 2>&1; }
export MYSQL_PWD=$(conf StoragePass)
ask "show status like 'Ssl_version'; select count(*) from slurm_acct_db.cluster_table" \
    --ssl-ca=/etc/slurm/rds-ca.pem --ssl-verify-server-cert
ask 'select 1' --skip-ssl
MYSQL_PWD=wrong ask 'select 1'
systemctl is-active mariadb
"""


@pytest.fixture
def bed(empty_cloud: Bed) -> Bed:
    text = empty_cloud.config.read_text()
    empty_cloud.config.write_text(text + "\naccounting: rds\nsoftware: {frameworks: [torch]}\n")
    empty_cloud.up()
    return empty_cloud


def test_rds_keeps_the_records_of_jobs(bed: Bed) -> None:
    assert "train-1" in bed.ssh("srun", "--gpus", "4", "hostname", timeout_s=200)
    said = wait_for("the job's record", lambda: _accounts(bed, "COMPLETED"), 30)
    assert "gres/gpu=4" in said

    asked = bed.ssh("sudo", "bash", "-c", ASK + "true").split("\n")
    assert asked[0].split() == ["Ssl_version", "TLSv1.3"] and asked[1] == "1"
    assert "insecure transport are prohibited" in asked[2]
    assert "Access denied" in asked[3]
    assert asked[4] == "inactive"

    _machine_is_not_the_users(bed)
    down = bed.gpucluster("down", "--yes", timeout_s=120)
    assert down.returncode == 0, down.stderr
    assert not list((state.state_dir(bed.name) / "machines").glob("i-*/upper"))


def _accounts(bed: Bed, word: str) -> str:
    said = bed.ssh("sacct", "-X", "-n", "-o", "jobid,state,alloctres%60")
    return said if word in said else ""


def _machine_is_not_the_users(bed: Bed) -> None:
    """It runs, in a subnet of the database's own, and EC2 knows nothing of it."""
    running = {path.parent.name for path in (state.state_dir(bed.name) / "machines").glob("i-*/upper")}
    pages = bed.client("ec2").describe_instances()["Reservations"]
    shown = {each["InstanceId"] for found in pages for each in found["Instances"]}
    assert len(running - shown) == 1 and shown == {*bed.instances("head"), *bed.instances("compute")}
