"""A spot node's two-minute notice: the job gets its signal, runs again elsewhere before the node ends, and says why.

Then EC2 schedules an event for a node: the same. Then a node is lost without notice, and the job runs again at once.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from bed import Bed
from beds import opened

from tests.nightly.power.signalled import Signalled

SUBJECTS = [
    "bootstrap/gpucluster_node/ends.py",
    "bootstrap/gpucluster_node/notices/*",
    "bootstrap/gpucluster_node/power/*",
    "bootstrap/gpucluster_node/scripts.py",
    "bootstrap/gpucluster_node/slurm.py",
    "bootstrap/programs/bin/nodes-joined",
    "bootstrap/steps/jobs/spot_notice.sh",
    "gpucluster_job/ending.py",
    "templates/slurm/slurm.conf.j2",
]
COVERED_BY = (
    "test_node_spot.py, test_node_reconcile.py, test_node_launch.py; a job's reason in test_job_scripts.py; a node "
    "that joins late in test_nodes_joined.py"
)


@pytest.fixture(scope="module")
def spot(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Bed]:
    bed = Bed.make(tmp_path_factory.mktemp("spot"))
    bed.config.write_text(bed.config.read_text().rstrip() + "\n    purchase: spot\n")
    with opened(bed):
        bed.up()
        yield bed


def nodes_of(bed: Bed, job_id: str) -> dict[str, str]:
    """Node -> instance."""
    found = {each["node"]: id_ for id_, each in bed.instances("compute").items()}
    nodes = bed.ssh("squeue", "-h", "-j", job_id, "-o", "%N").strip()
    return {node: found[node] for node in bed.ssh("scontrol", "show", "hostnames", nodes).split()}


def test_a_job_is_requeued_before_ec2_ends_its_node(spot: Bed) -> None:
    job = Signalled.submitted(spot)
    job.wait_until_started(1, 300)
    before = nodes_of(spot, job.job_id)
    node, instance = list(before.items())[1]
    added = spot.localcloud("fault", "add", "interruption", "--instance-id", instance, "--delay-s", "75")
    assert added.returncode == 0, added.stderr
    job.wait_until_started(2, 240)
    assert job.checkpoints() == 2
    assert f"error: {node} was lost: spot: EC2 will terminate it at " in job.text()
    assert node not in nodes_of(spot, job.job_id)

    node, instance = list(nodes_of(spot, job.job_id).items())[1]
    # The head node learns of events once a minute: with fewer seconds it would requeue the job at once.
    event = ("event", "--code", "instance-stop", "--delay-s", "150", "--instance-id", instance)
    added = spot.localcloud("fault", "add", *event)
    assert added.returncode == 0, added.stderr
    job.wait_until_started(3, 300)
    assert job.checkpoints() == 4
    assert f"error: {node} was lost: EC2 plans instance-stop at " in job.text()
    assert instance not in nodes_of(spot, job.job_id).values()

    node, instance = list(nodes_of(spot, job.job_id).items())[1]
    spot.localcloud("fault", "add", "death", "--instance-id", instance)
    job.wait_until_started(4, 110)
    spot.gpucluster("cancel", job.job_id)
