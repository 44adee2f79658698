"""`gpucluster init --from`: what becomes of ParallelCluster's files."""

from __future__ import annotations

import re
from typing import Any

import pytest

from gpucluster.config import load, loads
from gpucluster.config.parse import parse
from gpucluster.errors import ConfigError, UserError
from gpucluster.parallelcluster.keys import SAID
from gpucluster.parallelcluster.names import head_type, partition_name
from gpucluster.parallelcluster.reading import dotted, leaves
from tests.unit.parallelcluster.files import FOLDER, NAMES, converted, loaded, of, small


@pytest.mark.parametrize("name", NAMES)
def test_no_key_is_lost(name: str) -> None:
    """Every value of the file is a value of ours, or its key is in a comment."""
    made = of(name)
    words = set(re.findall(r"[\w-]+", made.text))
    for path, value in leaves(parse((FOLDER / f"{name}.yaml").read_text(), name).data):
        key = dotted(path).rpartition(".")[2]
        assert key in words or (isinstance(value, str) and value in made.text), dotted(path)
    assert set(made.counts) == set(SAID)


@pytest.mark.parametrize("credentials", [True, False])
@pytest.mark.parametrize("name", NAMES)
def test_a_file_validates_or_says_what_to_fill_in(name: str, credentials: bool) -> None:
    made = of(name, credentials=credentials)
    if made.complete:
        assert not loads(made.text).network.vpc_id or credentials
    else:
        with pytest.raises(ConfigError):
            loads(made.text)
        assert any(each.startswith(("change ", "fill in ")) for each in made.look)


SG = "sg-0123456789abcdef0"
CR = "cr-0123456789abcdef0"
TWO = [{"Name": "a", "InstanceType": "g5.xlarge"}, {"Name": "b", "InstanceType": "p5.48xlarge"}]
COMMENTS: list[tuple[str, dict[str, Any], str]] = [
    (
        "a desktop",
        {"HeadNode__Dcv": {"Enabled": True}},
        "not carried over: HeadNode.Dcv.Enabled (true): there is no remote desktop",
    ),
    ("a key pair", {"HeadNode__Ssh": {"KeyName": "mine"}}, "not needed: HeadNode.Ssh.KeyName (mine)"),
    (
        "an unknown key",
        {"queue__Sauna": 3},
        "not carried over: Scheduling.SlurmQueues.Sauna (3): not known to GpuCluster",
    ),
    (
        "a key of the wrong type",
        {"Scheduling__SlurmSettings": {"ScaledownIdletime": "soon"}},
        "ScaledownIdletime (soon): nothing here uses it",
    ),
    (
        "an AMI",
        {"Image__CustomAmi": "ami-0123456789abcdef0"},
        "Image.CustomAmi: ami-0123456789abcdef0: an AMI made for ParallelCluster",
    ),
    ("a queue's AMI", {"queue__Image": {"CustomAmi": "ami-0123456789abcdef0"}}, "# image: ami-0123456789abcdef0"),
    ("another system", {"Image__Os": "rocky9"}, "Image.Os (rocky9): nodes run Ubuntu 24.04"),
    (
        "a prefix list",
        {"HeadNode__Ssh": {"AllowedIps": "pl-01234567"}},
        "pl-01234567 is not a network that ssh_from can have",
    ),
    (
        "a bucket of a pattern",
        {"HeadNode__Iam": {"S3Access": [{"BucketName": "team-*"}]}},
        "team-*: s3_access names each bucket",
    ),
    (
        "a group of reservations",
        {"queue__CapacityReservationTarget": {"CapacityReservationResourceGroupArn": "arn:aws:x"}},
        "a partition has one reservation",
    ),
    (
        "an Arm queue",
        {"queue__ComputeResources": [*TWO, {"Name": "c", "InstanceType": "hpc7g.16xlarge"}]},
        "hpc7g.16xlarge: its CPUs are Arm",
    ),
    (
        "a queue without nodes",
        {"queue__ComputeResources": [*TWO, {"Name": "c", "InstanceType": "g5.xlarge", "MaxCount": 0}]},
        "MaxCount is 0",
    ),
    ("AWS's own tags", {"Tags": [{"Key": "aws:a", "Value": "b"}]}, "aws:a: its prefix is reserved"),
]


@pytest.mark.parametrize(("asked", "comment"), [row[1:] for row in COMMENTS], ids=[row[0] for row in COMMENTS])
def test_what_cannot_be_had_is_a_comment(asked: dict[str, Any], comment: str) -> None:
    made = converted(small(**asked))
    assert made.complete, made.look
    said = " ".join(line.strip().removeprefix("#").strip() for line in made.text.splitlines())
    assert comment.removeprefix("# ") in said, made.text
    assert loads(made.text)


def test_a_comment_stands_once_for_all_queues() -> None:
    assert of("17").text.count("RootVolume.Encrypted") == 1
    assert len(loads(of("17").text).partitions) == 50


def test_the_vpc_has_to_be_filled_in_without_credentials_if_groups_belong_to_it() -> None:
    text = small(queue__Networking={"AdditionalSecurityGroups": [SG]})
    made = converted(text, credentials=False)
    assert not made.complete
    filled = made.text.replace("# vpc_id: vpc-ID", "vpc_id: vpc-01234567").replace(
        "# availability_zone", "availability_zone"
    )
    assert loads(filled).network.vpc_id == "vpc-01234567"


def test_without_credentials_the_lines_for_the_subnet_are_a_comment() -> None:
    made = converted(small(), credentials=False)
    assert made.complete and loads(made.text).network.vpc_id is None
    assert not any("all nodes are in" in each for each in of("13", credentials=False).look)
    assert any("all nodes are in" in each for each in of("13").look)
    assert "# subnet_id: subnet-01234567" in made.text
    reserved = converted(small(queue__CapacityReservationTarget={"CapacityReservationId": CR}), credentials=False)
    assert reserved.complete and f"write availability_zone: that of {CR}; `plan` compares them" in reserved.look
    outside = converted(small(HeadNode__Ssh={"AllowedIps": "192.0.2.0/24"}), credentials=False)
    assert loads(outside.text).network.ssh_from == ("192.0.2.0/24",)


REFUSED = [
    ("", "x.yaml is empty"),
    ("a: [", "not valid YAML"),
    ("just text\n", "no configuration of ParallelCluster"),
    ("region: us-east-1\npartitions: []\nHeadNode: {}\n", "a cluster.yaml of GpuCluster already"),
    ("[global]\ncluster_template = default\n", "a configuration of AWS ParallelCluster 2"),
    ("Build: {ParentImage: a}\nImage: {Name: b}\n", "no configuration of ParallelCluster"),
    ("HeadNode: {}\nScheduling: {Scheduler: awsbatch}\n", "must be slurm, got awsbatch"),
    ("HeadNode: {}\nScheduling: {Scheduler: slurm}\n", "has no queue"),
    ("HeadNode: {}\nScheduling: {SlurmQueues: [{Name: a}]}\n", "has no queue"),
    ("HeadNode: {InstanceType: {{ head }}}\n", "x.yaml:1: this is a template"),
    ("HeadNode: {a: !Ref b}\n", "the tag !Ref is not supported"),
    ("HeadNode: {}\n" + "#" * 1_000_001, "1000014 characters"),
    (small().replace("us-east-1", "REGION"), "Region must be an AWS region, got 'REGION'"),
    (small().replace("Region: us-east-1", ""), "x.yaml has no Region"),
]


@pytest.mark.parametrize(("text", "says"), REFUSED, ids=[row[1] for row in REFUSED])
def test_an_odd_file_gets_a_sentence(text: str, says: str) -> None:
    with pytest.raises(UserError) as caught:
        converted(text, region=None)
    assert says in caught.value.render()


def test_a_region_that_the_file_lacks_is_the_environments() -> None:
    assert loads(of("16", region="eu-west-1").text).region == "eu-west-1"


def test_a_file_is_named_after_its_cluster() -> None:
    assert loads(converted(small(), file="clusters/my-hpc.yaml").text).name == "my-hpc"
    assert loads(converted(small(), file="cluster-config.yaml").text).name == "GpuCluster"


@pytest.mark.parametrize(
    ("queue", "resource", "name"),
    [
        ("GPU_Spot", "", "gpu-spot"),
        ("queue-1", "", "queue1"),
        ("queue-1", "nodes-2", "queue-1-nodes2"),
        ("ps", "", "psx2"),
        ("a" * 30, "", "a" * 20),
        ("compute-of-the-team-12", "", "compute-of-the-team1"),
        ("3d", "", "d"),
        ("queue1", "compute-resource-1", "queue1-c5-xlarge"),
        ("the-longest-queue", "compute-resource-1", "the-longest-queue-co"),
    ],
)
def test_names_of_queues_become_those_of_partitions(queue: str, resource: str, name: str) -> None:
    assert partition_name(queue, [resource, "c5.xlarge"] if resource else [], set()) == name


def test_names_of_partitions_differ() -> None:
    taken: set[str] = set()
    names = [partition_name(each, [], taken) for each in ("A", "a", "a_", "x" * 21, "x" * 22)]
    assert names == ["a", "ax2", "ax3", "x" * 20, "x" * 18 + "x2"]


@pytest.mark.parametrize(
    ("asked", "ours"),
    [
        ("c5.xlarge", "c5.xlarge"),
        ("t2.large", "t3.large"),
        ("t2.micro", "t3.medium"),
        ("m4.xlarge", "m6i.xlarge"),
        ("c6g.xlarge", "c6i.xlarge"),
        ("mac2.metal", "m6i.2xlarge"),
    ],
)
def test_a_head_node_gets_a_type_of_its_kind(asked: str, ours: str) -> None:
    assert head_type(asked) == ours


def test_validate_names_the_command() -> None:
    with pytest.raises(ConfigError) as caught:
        load(FOLDER / "01.yaml")
    assert f"`gpucluster init --from {FOLDER / '01.yaml'}` converts it" in caught.value.render()


PLACEHOLDERS = [
    (
        "the subnet",
        {"queue__Networking": {"SubnetIds": ["${SUBNET}"], "AdditionalSecurityGroups": [SG]}},
        "network.subnet_id",
    ),
    ("a count", {"resource__MaxCount": "${COUNT}"}, "partitions[0].max_nodes"),
    (
        "a block",
        {
            "queue__CapacityType": "CAPACITY_BLOCK",
            "queue__CapacityReservationTarget": {"CapacityReservationId": "${CR}"},
        },
        "reservation_id",
    ),
]


@pytest.mark.parametrize(("asked", "key"), [row[1:] for row in PLACEHOLDERS], ids=[row[0] for row in PLACEHOLDERS])
def test_a_placeholder_that_decides_what_is_bought_has_to_be_filled_in(asked: dict[str, Any], key: str) -> None:
    made = converted(small(**asked))
    assert not made.complete
    with pytest.raises(ConfigError) as caught:
        loads(made.text)
    assert key in caught.value.render()


def test_only_the_part_that_is_refused_is_left_out() -> None:
    made = converted(small(HeadNode__LocalStorage={"RootVolume": {"Size": 500, "Iops": 999999}}))
    assert loaded(made.text)["head_node"]["root_volume"] == {"gib": 500}
    assert "# not carried over: iops: 999999: must be at most" in made.text


def test_what_only_the_user_can_change_is_said_in_the_file() -> None:
    assert "# change this: p3dn.24xlarge cannot run dlami-ubuntu-24.04" in of("05").text


def test_a_disk_that_gp3_makes_better_is_left_to_the_default() -> None:
    made = converted(small(HeadNode__LocalStorage={"RootVolume": {"Size": 40, "Iops": 100, "VolumeType": "gp2"}}))
    assert "root_volume" not in loaded(made.text)["head_node"]
    assert "not needed: HeadNode.LocalStorage.RootVolume.Iops (100): root_volume.iops is at least 3000" in made.text
