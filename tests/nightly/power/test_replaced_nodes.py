"""Nodes are replaced by nodes of another kind: drained on request, or when they are idle."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from bed import Bed, wait_for
from beds import opened
from test_changes import SMALL, instance_of, rewrite, running_job, shown

SUBJECTS = [
    "gpucluster/cluster/draining.py",
    "gpucluster/cluster/deployment.py",
    "gpucluster/updates/*",
    "gpucluster/cli/up.py",
    "gpucluster/cli/changes.py",
    "stacks/partitions.py",
    "bootstrap/gpucluster_node/power/*",
    "bootstrap/gpucluster_node/head/*",
    "bootstrap/steps/system/update.sh",
    "bootstrap/steps/slurm/power.sh",
]
COVERED_BY = (
    "test_draining.py, test_cli_changes.py, test_node_reconcile.py, test_update_plan.py; a node that comes back and a "
    "head node that is replaced, booted, in test_changes.py"
)


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Bed]:
    bed = Bed.make(tmp_path_factory.mktemp("replaced"))
    bed.config.write_text(bed.config.read_text().rstrip("\n") + "\n" + SMALL)
    with opened(bed):
        bed.up()
        yield bed


def test_a_change_that_terminates_nodes_is_refused_unless_they_may_be_drained(running: Bed) -> None:
    """A running job completes; a pending one runs on the new kind of nodes."""
    with running_job(running, "small") as job:
        rewrite(running, "[m6i.large]", "[m6i.xlarge]")
        before = running.ask("status")["instances"]
        refused = running.gpucluster("up")
        assert refused.returncode == 2 and "up --drain" in refused.stderr, refused.stderr
        assert "1 needs partition small drained, head node untouched" in refused.stderr
        assert running.ask("status")["instances"] == before

        draining = running.start("up", "--drain")
        wait_for("the drain", lambda: "drain" in running.ssh("sinfo", "-h", "-p", "small", "-o", "%T"), 60)
        waits = running.submit("--partition", "small", "--launcher", "srun", "--", "true")
        assert running.ssh("squeue", "-h", "-o", "%t", "-j", waits.last["job_id"]).strip() == "PD"
        assert instance_of(running, "small-1")
    told, _ = draining.communicate(timeout=240)
    assert draining.returncode == 0, told
    assert f"waiting for 1 job: {job.last['job_id']} (" in told and "back in service: small-1 small-2" in told
    wait_for("the job that waited", lambda: shown(running, waits.last["job_id"])["JobState"] == "COMPLETED", 120)
    found = instance_of(running, "small-1")
    assert found and found["instance_type"] == "m6i.xlarge"


def test_nodes_of_an_older_template_are_replaced_when_their_jobs_have_ended(running: Bed) -> None:
    with running_job(running, "small"):
        (node,) = running.ssh("squeue", "-h", "-p", "small", "-o", "%N").split()
        old = instance_of(running, node)
        rewrite(running, "[m6i.xlarge]", "[m6i.xlarge], purchase: spot")
        done = running.up()
        assert [each["effect"] for each in done["changes"]] == ["new nodes"]
        wait_for("the drain", lambda: "drng" in running.ssh("sinfo", "-h", "-n", node, "-o", "%t"), 120)
        assert instance_of(running, node) == old
    wait_for("the node's end", lambda: instance_of(running, node) is None, 90)
    wait_for("Slurm's word", lambda: "idle~" in running.ssh("sinfo", "-h", "-n", node, "-o", "%t"), 120)
    again = running.submit("--partition", "small", "--launcher", "srun", "--follow", "--", "true")
    assert again.exit_code == 0, again.told
    new = instance_of(running, again.result["node_list"][0])
    assert old and new and new["instance_id"] != old["instance_id"]
