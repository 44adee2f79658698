"""Nodes of p4d in EC2's network: the head node asks EC2, ranks are ordered by it, and commands show it."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator

import pytest
from bed import Bed, wait_for
from beds import opened

SUBJECTS = [
    "bootstrap/gpucluster_node/power/switches.py",
    "bootstrap/gpucluster_node/power/topology.py",
    "bootstrap/gpucluster_node/power/reconcile.py",
    "bootstrap/gpucluster_node/slurm.py",
    "gpucluster/following/topology.py",
    "gpucluster/launchers/torchrun.py",
    "gpucluster_job/placement.py",
    "gpucluster_job/torchrun.py",
    "localcloud/ec2/topology.py",
    "bootstrap/steps/slurm/slurm_head.sh",
    "stacks/roles.py",
    "templates/slurm/topology.conf.j2",
]
COVERED_BY = "test_node_topology.py, test_node_switches.py, test_placement.py"
PARTITION = "  - {name: big, instance_types: [p4d.24xlarge], min_nodes: 4, max_nodes: 4}\n"
PROGRAM = 'echo "place $NODE_RANK is $(uname -n | cut -d . -f 1)"; while [ ! -e "$HOME/go-on" ]; do sleep 1; done'
NODES = ["big-1", "big-2", "big-3", "big-4"]


@pytest.fixture(scope="module")
def big(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Bed]:
    bed = Bed.make(tmp_path_factory.mktemp("big"))
    bed.config.write_text(bed.config.read_text().rstrip("\n") + "\n" + PARTITION)
    with opened(bed):
        bed.up()
        yield bed


def places(bed: Bed) -> dict[str, str]:
    """Node -> its Extra."""
    shown = bed.ssh("scontrol", "show", "nodes", "--oneliner")
    return dict(re.findall(r"^NodeName=(\S+) .* Extra=(\S+)", shown, re.MULTILINE))


def running(bed: Bed, *options: str) -> tuple[str, str]:
    """The id and the log of a job of four nodes that runs and waits for the file go-on."""
    bed.ssh("rm", "-f", "go-on")
    words = ("--partition", "big", "--nodes", "4", "--ntasks-per-node", "1", "--preflight", "off", *options)
    job = bed.submit(*words, "--", "bash", "-c", PROGRAM)
    log = f"{job.last['folder']}/log.txt"
    wait_for("four ranks", lambda: bed.ssh("sh", "-c", f"cat {log} 2>/dev/null || :").count("place ") == 4, 500)
    return job.last["job_id"], bed.ssh("cat", log)


def order(log: str) -> list[str]:
    return [node for _, node in sorted(re.findall(r"place (\d+) is (\S+)", log))]


def state(bed: Bed, job_id: str) -> str:
    return bed.ssh("squeue", "-h", "-j", job_id, "-t", "all", "-o", "%T").strip()


def end(bed: Bed, job_id: str) -> None:
    bed.ssh("touch", "go-on")
    wait_for("the job's end", lambda: not bed.ssh("squeue", "-h", "-j", job_id, "-t", "R,CG").strip(), 60)
    assert state(bed, job_id) == "COMPLETED"


def test_places_come_from_ec2_and_are_shown(big: Bed) -> None:
    job_id, log = running(big, "--launcher", "torchrun")
    found = places(big)
    assert sorted(found) == NODES, "before the job's first rank, and for no other partition"
    switches = {place: [node for node in NODES if found[node] == place] for place in found.values()}
    assert sorted(map(len, switches.values())) == [2, 2]
    assert len({place.rpartition("/")[0] for place in switches}) == 1, "they share the placement group's layers"

    shown = big.gpucluster("status", "--topology").stdout
    for place, nodes in switches.items():
        switch = place.rpartition("/")[2]
        assert re.search(rf"{switch}:\n +{nodes[0]}: job {job_id}\n +{nodes[1]}: job {job_id}\n", shown), shown
    report = json.loads(big.gpucluster("status", "--topology", "--json").stdout)["topology"]
    assert report == {"nodes": {n: found[n].split("/") for n in NODES}, "jobs": {job_id: NODES}}
    said = big.gpucluster("why", job_id).stdout
    assert "its 4 nodes are on 2 switches of EC2's network, which meet 1 layer above" in said
    end(big, job_id)


def exchange(bed: Bed) -> None:
    """Other places than EC2's: the first and the third node share a switch, and the second and the fourth."""
    for nodes, switch in (("big-[1,3]", "nn-2a"), ("big-[2,4]", "nn-2b")):
        bed.ssh("sudo", "scontrol", "update", f"nodename={nodes}", f"extra=nn-0a/nn-1a/{switch}")


def test_slurm_gives_a_job_idle_nodes_of_one_switch(big: Bed) -> None:
    """While the third node is busy, Slurm without a tree would give the job the first two."""
    wait_for("the tree of EC2's places", lambda: "nn-" in big.ssh("scontrol", "show", "topology"), 120)
    for place in set(places(big).values()):
        assert f"SwitchName={place.rpartition('/')[2]} Level=0" in big.ssh("scontrol", "show", "topology")
    exchange(big)
    # It changes the tree when it starts, and then at most every ten minutes.
    big.ssh("sudo", "systemctl", "restart", "gpucluster-power")
    wait_for("another tree", lambda: "nn-2b" in big.ssh("scontrol", "show", "topology"), 120)
    shown = big.ssh("scontrol", "show", "topology")
    leaves = dict(re.findall(r"SwitchName=(\S+) Level=0 LinkSpeed=1 Nodes=(\S+)", shown))
    assert leaves == {"nn-2a": "big-[1,3]", "nn-2b": "big-[2,4]", "unknown": "train-[1-4]"}, shown
    words = ("--partition", "big", "--ntasks-per-node", "1", "--launcher", "srun", "--preflight", "off")
    first = big.submit(*words, "--sbatch-args=--nodelist=big-3", "--", "sleep", "300")
    wait_for("the first job", lambda: state(big, first.last["job_id"]) == "RUNNING", 120)
    second = big.submit(*words, "--nodes", "2", "--follow", "--", "true")
    assert second.result["node_list"] == ["big-2", "big-4"]
    off = big.submit("--partition", "train", "--launcher", "srun", "--follow", "--", "true")
    assert off.result["node_list"] == ["train-1"], "nodes that are powered off are in the tree too"
    big.gpucluster("cancel", first.last["job_id"])
    log = big.ssh("sh", "-c", "sudo grep -E 'fatal|error: .*(switch|topology)' /var/log/slurm/slurmctld.log || :")
    assert log == "", log


@pytest.mark.parametrize("launcher", ["torchrun", "mpirun", "horovodrun"])
def test_ranks_are_ordered_by_switch(big: Bed, launcher: str) -> None:
    exchange(big)
    job_id, log = running(big, "--launcher", launcher)
    assert order(log) == ["big-1", "big-3", "big-2", "big-4"]
    end(big, job_id)


def test_a_job_runs_in_slurms_order_without_places(big: Bed) -> None:
    big.ssh("sudo", "scontrol", "update", "nodename=big-[1-4]", "extra=")
    job_id, log = running(big, "--launcher", "mpirun")
    assert order(log) == NODES
    assert "EC2 has not reported any node's place" in big.gpucluster("status", "--topology").stdout
    end(big, job_id)
