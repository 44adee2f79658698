"""The bundle of each example, as files to review. `GOLDEN=rewrite` writes them anew."""

from __future__ import annotations

import json
import os
import re
from pathlib import Path

import pytest

from gpucluster import config, render, shipped
from tests import snapshots

ROOT = Path(__file__).resolve().parents[3]
GOLDEN = ROOT / "tests/golden"
CLUSTERS = [ROOT / "cluster.yaml", *sorted((ROOT / "examples").glob("*.yaml"))]
REFERENCE = ROOT / "examples" / f"{snapshots.REFERENCE}.yaml"
VERBATIM = ("lib/", "steps/", "programs/", "environments/", "gpucluster_node/")

BASE = """
name: My-Cluster
region: eu-west-1
partitions:
"""


def bundle(partitions: str, extra: str = "") -> dict[str, str]:
    return render.bundle(config.loads(BASE + partitions + extra))


def lines(text: str, start: str) -> list[str]:
    return [line for line in text.splitlines() if line.startswith(start)]


def rendered(cluster: Path) -> dict[str, str]:
    loaded = config.load(cluster)
    files = {name: text for name, text in render.bundle(loaded).items() if not name.startswith(VERBATIM)}
    return files | {
        "user-data-head.sh": render.user_data(loaded, "head"),
        "user-data-compute.sh": render.user_data(loaded, "compute"),
    }


@pytest.mark.parametrize("cluster", CLUSTERS, ids=lambda path: path.stem)
def test_rendered_files(cluster: Path) -> None:
    files = rendered(cluster)
    if os.environ.get("GOLDEN") == "rewrite":
        reference = rendered(REFERENCE)
        for name, written in ((REFERENCE.stem, reference), (cluster.stem, files)):
            snapshots.write_bundle(GOLDEN, name, reference, written)
    assert files == snapshots.bundle(GOLDEN, cluster.stem), "GOLDEN=rewrite writes the files anew"


@pytest.mark.parametrize("role", ["head", "compute"])
def test_user_data_is_a_stub(role: render.Role) -> None:
    longest = config.loads(
        BASE.replace("My-Cluster", "N" * 40) + "  - {name: train, instance_types: [g5.xlarge], max_nodes: 1}"
    )
    assert len(render.user_data(longest, role).encode()) < 3072, "docs/design.md says so, and EC2 takes 16 KB"


def test_user_data_does_not_change_with_the_cluster() -> None:
    """A change would replace the head node."""
    one = config.loads(BASE + "  - {name: a, instance_types: [g5.xlarge], max_nodes: 1}")
    other = config.loads(BASE + "  - {name: b, instance_types: [p4d.24xlarge], max_nodes: 9}")
    assert render.user_data(one, "head") == render.user_data(other, "head")


def test_a_cluster_has_the_environments_that_it_names() -> None:
    text = BASE + "  - {name: a, instance_types: [g5.xlarge], max_nodes: 1}\n"
    for frameworks in ("torch, horovod", "torch"):
        files = render.bundle(config.loads(text + f"software: {{frameworks: [{frameworks}]}}"))
        locks = [name for name in files if name.startswith("environments/") and name.endswith(".txt")]
        assert locks == [f"environments/{each}.txt" for each in frameworks.split(", ")]


def test_an_environment_is_made_where_the_gpus_are_that_it_is_for() -> None:
    text = BASE + "  - {name: cpus, instance_types: [m6i.large], max_nodes: 1}\n"
    text += "  - {name: new, instance_types: [g5.xlarge], max_nodes: 1}\n"
    text += "  - {name: old, instance_types: [p3.2xlarge], max_nodes: 1, image: ami-0123456789abcdef0}\n"
    files = render.bundle(config.loads(text + "software: {frameworks: [torch, mxnet], cache: s3://mine/envs/}\n"))
    lines = files["environments/partitions"].splitlines()
    assert lines == ["mxnet new 1", "mxnet-cpu cpus 0", "torch new 1", "torch-volta old 1"]
    assert files["environments/cache"] == "s3://mine/envs\n"


@pytest.mark.parametrize(
    ("more", "packages", "role"),
    [
        ("software: {cache: s3://mine/envs/}\n", "s3://mine/envs/packages", True),
        ("software: {cache: s3://mine}\n", "s3://mine/packages", True),
        ("software: {cache: s3://mine/envs}\nusers: [{name: ada}]\n", "", False),
        ("", "", False),
    ],
)
def test_packages_are_kept_where_the_cluster_has_one_account(more: str, packages: str, role: bool) -> None:
    files = render.bundle(config.loads(BASE + "  - {name: train, instance_types: [g5.xlarge], max_nodes: 1}\n" + more))
    assert files["environments/packages"] == f"{packages}\n"
    (said,) = lines(files["cluster.sh"], "readonly JOB_CREDENTIALS=")
    assert ("http://127.0.0.1" in said) == role


def test_version_depends_on_every_name_and_byte() -> None:
    versions = [
        render.version(files) for files in ({"a": "b"}, {"a": "c"}, {"b": "b"}, {"a": "b", "c": ""}, {"ab": ""})
    ]
    assert len(set(versions)) == len(versions)
    assert all(re.fullmatch("[0-9a-f]{16}", version) for version in versions)
    assert render.version({"x": "1", "y": "2"}) == render.version({"y": "2", "x": "1"})


def test_everything_that_roles_name_is_in_the_bundle() -> None:
    storage = "storage: [{mount: /fsx, type: fsx-lustre, deployment: scratch-2, capacity_gib: 1200}]\n"
    files = bundle("  - {name: train, instance_types: [g5.xlarge], max_nodes: 1}\n", storage)
    text = "".join(files.values())
    named = set(re.findall(r'"\$BUNDLE/((?:steps|slurm|environments)/[a-z_]+\.\w+)"', text))
    assert named and named <= set(files)


def test_nodes_have_the_minimum_of_their_types() -> None:
    conf = bundle("  - {name: train, instance_types: [g5.48xlarge, p4d.24xlarge], max_nodes: 3}")["slurm/slurm.conf"]
    topology = "Sockets=1 CoresPerSocket=48 ThreadsPerCore=2"
    line = f"NodeName=train-[1-3] CPUs=96 {topology} Port=298 RealMemory=747110 Gres=gpu:8 State=CLOUD"
    assert lines(conf, "NodeName=") == [line]


@pytest.mark.parametrize(
    ("types", "node", "gres"),
    [
        ("g5.12xlarge", "Gres=gpu:a10g:4", "NodeName=train-[1-2] Name=gpu Type=a10g File=/dev/nvidia[0-3]"),
        ("g5.xlarge", "Gres=gpu:a10g:1", "NodeName=train-[1-2] Name=gpu Type=a10g File=/dev/nvidia0"),
        ("g5.xlarge, g6.xlarge", "Gres=gpu:1", "NodeName=train-[1-2] Name=gpu File=/dev/nvidia0"),
        ("m6i.large", None, None),
    ],
)
def test_gpus(types: str, node: str | None, gres: str | None) -> None:
    files = bundle(f"  - {{name: train, instance_types: [{types}], max_nodes: 2}}")
    (line,) = lines(files["slurm/slurm.conf"], "NodeName=")
    assert (f" {node} " in line) if node else ("Gres" not in line)
    assert lines(files["slurm/gres.conf"], "NodeName=") == ([gres] if gres else [])


def test_partitions_idle_times_and_always_on_nodes() -> None:
    conf = bundle(
        "  - {name: train, instance_types: [g5.xlarge], min_nodes: 2, max_nodes: 4, idle_minutes: 5}\n"
        "  - {name: big, instance_types: [p4d.24xlarge], min_nodes: 1, max_nodes: 1}\n",
        "parameter_servers: {max_nodes: 2}\n",
    )["slurm/slurm.conf"]
    assert lines(conf, "SuspendExcNodes=") == ["SuspendExcNodes=train-[1-2],big-1"]
    assert lines(conf, "SuspendTime=") == ["SuspendTime=600"]
    up = "ResumeTimeout=1800 State=UP"
    assert lines(conf, "PartitionName=") == [
        f"PartitionName=train Nodes=train-[1-4] Default=YES MaxTime=INFINITE SuspendTime=300 {up}",
        f"PartitionName=big Nodes=big-1 Default=NO MaxTime=INFINITE SuspendTime=600 {up}",
        f"PartitionName=ps Nodes=ps-[1-2] Default=NO MaxTime=INFINITE SuspendTime=600 {up}",
    ]


@pytest.mark.parametrize(
    ("partition", "has_tree"),
    [
        ("instance_types: [p4d.24xlarge], min_nodes: 2", True),
        ("instance_types: [p4d.24xlarge], min_nodes: 1", False),
        ("instance_types: [g5.48xlarge], min_nodes: 4", False),
    ],
)
def test_slurm_gets_a_tree_of_switches_if_nodes_with_a_known_place_stay_on(partition: str, has_tree: bool) -> None:
    train = "  - {name: train, instance_types: [g5.xlarge], max_nodes: 8}\n"
    files = bundle(f"{train}  - {{name: big, {partition}, max_nodes: 4}}\n")
    assert ("TopologyPlugin=topology/tree" in files["slurm/slurm.conf"]) == has_tree
    nodes = "train-[1-8],big-[1-4]"
    tree = f"# My-Cluster: {nodes}\nSwitchName=cluster Nodes={nodes}\n"
    assert files.get("slurm/topology.conf") == (tree if has_tree else None)
    big = json.loads(files["fleet.json"])["partitions"][1]
    assert big.get("topology", False) == ("p4d" in partition)


@pytest.mark.parametrize(
    ("types", "times"),
    [
        ("g5.xlarge", "ResumeTimeout=1800 State=UP"),
        ("m6i.32xlarge, m6i.metal", "ResumeTimeout=2700 State=UP"),
    ],
)
def test_slurms_time_outs_for_power_up_and_down(types: str, times: str) -> None:
    files = bundle(f"  - {{name: train, instance_types: [{types}], max_nodes: 2}}")
    (line,) = lines(files["slurm/slurm.conf"], "PartitionName=")
    assert line.endswith(f"SuspendTime=600 {times}")
    assert lines(files["slurm/image.conf"], "SuspendTimeout=") == ["SuspendTimeout=120"]
    most = times.split()[0]
    assert lines(files["slurm/slurm.conf"], "ResumeTimeout=") == [most], "the power programs may run for as long"


def test_no_key_stands_in_two_slurm_files() -> None:
    """slurm.conf includes image.conf, and Slurm complains of a key that is set twice."""
    files = bundle("  - {name: train, instance_types: [g5.xlarge], max_nodes: 1}")
    keys = [
        line.partition("=")[0]
        for name in ("slurm/slurm.conf", "slurm/image.conf")
        for line in files[name].splitlines()
        if "=" in line and not line.startswith(("#", "NodeName", "PartitionName"))
    ]
    assert len(keys) == len(set(keys))
    assert not {"ProctrackType", "TaskPlugin", "JobAcctGatherType", "SlurmdParameters", "SuspendTimeout"} & set(
        line.partition("=")[0] for line in files["slurm/slurm.conf"].splitlines()
    )


def test_quotes_survive_the_header() -> None:
    """Values enter a script once, quoted for the shell."""
    environment = shipped.templates(shipped.ROOT)
    assert environment.from_string("{{ value | sh }}").render(value="it's $(x)") == "'it'\"'\"'s $(x)'"
