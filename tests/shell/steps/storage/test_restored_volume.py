"""The data volume of another cluster: its queue and accounts get this cluster's name."""

from __future__ import annotations

from pathlib import Path

import pytest
from test_steps import Machine, source_of


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    found = Machine(tmp_path)
    found.step("renamed", source_of("renamed").read_text().replace("/home/gpucluster", str(tmp_path / "data")))
    (tmp_path / "data/slurm-state").mkdir(parents=True)
    (tmp_path / "data/lustre/fast").mkdir(parents=True)
    found.command("install", 'cp "${@: -2}"')
    found.command("chown")
    return found


def rename(machine: Machine, *, state: str, accounting: str = "off", cluster: str = "New") -> str:
    """The file clustername afterwards."""
    file = machine.root / "data/slurm-state/clustername"
    file.write_text(state)
    script = f"DATA={machine.root}/data ACCOUNTING={accounting} CLUSTER={cluster}\nstep_renamed"
    done = machine.run(script, "runner", "files", "services", "renamed")
    assert done.returncode == 0, done.stderr
    return file.read_text()


@pytest.mark.parametrize(
    ("state", "then"),
    [("old|2077", "new|2077"), ("old", "new"), ("new|2077", "new|2077"), ("", "")],  # 24.11, 23.11
)
def test_slurms_state_gets_the_name_of_this_cluster(machine: Machine, state: str, then: str) -> None:
    assert rename(machine, state=state) == then


@pytest.mark.parametrize(("state", "stays"), [("old|1", False), ("new|1", True)])
def test_another_clusters_file_systems_and_costs_are_forgotten(machine: Machine, state: str, stays: bool) -> None:
    files = [machine.root / "data/spending.json", machine.root / "data/lustre/fast/state.json"]
    for file in files:
        file.write_text("{}")
    rename(machine, state=state)
    assert [file.exists() for file in files] == [stays, stays]


TABLES = "old_job_table old_assoc_usage_day_table"
SQL = """\
RENAME TABLE `old_job_table` TO `new_job_table`;
RENAME TABLE `old_assoc_usage_day_table` TO `new_assoc_usage_day_table`;
UPDATE cluster_table SET name = 'new' WHERE name = 'old';
UPDATE clus_res_table SET cluster = 'new' WHERE cluster = 'old';
"""


MARIADB = """
said=$(cat)
case $said in
    "SHOW TABLES LIKE 'cluster_table'") [ -z "$TABLES" ] || echo cluster_table ;;
    SELECT*) printf '%s\\n' $TABLES ;;
    *) [ -n "$TABLES" ] || { echo "ERROR 1146 (42S02): Table 'slurm_acct_db.cluster_table' doesn't exist" >&2; exit 1; }
       printf '%s\\n' "$said" >"$SAID" ;;
esac
"""


@pytest.mark.parametrize("tables", [TABLES, ""])
def test_the_accounts_get_the_name_of_this_cluster(machine: Machine, tables: str) -> None:
    """tests/nightly/test_restored.py does it in MariaDB. The database is empty if the old cluster had it on RDS."""
    said = machine.root / "said"
    machine.command("mariadb", f"TABLES='{tables}' SAID={said}\n{MARIADB}")
    assert rename(machine, state="old|7", accounting="local") == "new|7"
    assert (said.read_text() if said.exists() else "") == (SQL if tables else "")


@pytest.mark.parametrize(
    ("mount", "data", "state", "refused"),
    [
        ("home", "home/gpucluster", "home/gpucluster/slurm-state", False),
        ("home", "home/gpucluster", "home/slurm-state", True),  # /home was on EFS
        ("srv", "srv", "srv/slurm-state", False),
        ("srv", "srv", "srv/gpucluster/slurm-state", True),  # /home was on the volume
    ],
)
def test_a_volume_of_a_cluster_with_home_elsewhere_is_refused(
    tmp_path: Path, mount: str, data: str, state: str, refused: bool
) -> None:
    machine = Machine(tmp_path)
    machine.step("volume", source_of("volume").read_text())
    (tmp_path / state).mkdir(parents=True)
    done = machine.run(f"VOLUME={tmp_path}/{mount} DATA={tmp_path}/{data}\nrefuse_other_layout", "runner", "volume")
    assert done.returncode == int(refused), done.stderr
    assert ("the same storage as the old one" in done.stderr) is refused
