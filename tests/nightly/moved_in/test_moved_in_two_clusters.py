"""Two clusters in one VPC and one subnet, with names that begin alike and one prefix of roles: each works, neither
reaches the other, and the end of one leaves the other's running job alone."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from functools import cached_property
from typing import Any

import pytest
from bed import Bed, wait_for
from beds import opened
from test_changes import running_job

from tests.cluster.moved_in.there_before import ZONE, Network

SUBJECTS = [
    "gpucluster/cli/down.py",
    "gpucluster/cli/up.py",
    "gpucluster/cluster/deletion/*",
    "gpucluster/cluster/doors.py",
    "gpucluster/cluster/tagged_instances.py",
    "gpucluster/config/door.py",
    "stacks/cluster.py",
    "stacks/bundle.py",
    "stacks/head.py",
    "stacks/network.py",
    "stacks/role_names.py",
    "stacks/roles.py",
    "stacks/monitoring/*",
    "bootstrap/gpucluster_node/dns.py",
    "bootstrap/gpucluster_node/fleet.py",
    "bootstrap/gpucluster_node/head/heads.py",
    "bootstrap/gpucluster_node/head/release.py",
    "bootstrap/steps/slurm/munge.sh",
    "bootstrap/steps/system/dns.sh",
]
COVERED_BY = "test_stacks_grants.py: what a role may reach, its name; test_doors.py; test_moved_in_scripts.py boots one"
NAMES = ("Team", "Team-two")
PREFIX = "org-"
ONE = ("--nodes", "1", "--ntasks-per-node", "1", "--launcher", "srun", "--preflight", "off")


class Cluster:
    """One of the two. Its folder has its own cluster file."""

    def __init__(self, bed: Bed, name: str, network: Network) -> None:
        self.name, self.told = name, dict[str, Any]()
        folder = bed.folder / name
        folder.mkdir()
        self.bed = replace(bed, folder=folder, python="/home/plain", _remotes={})
        config = {
            "name": name,
            "region": "us-east-1",
            "availability_zone": ZONE,
            "network": {"vpc_id": network.vpc, "subnet_id": network.subnet},
            "head_node": {"instance_type": "m6i.large", "volume_gib": 50, "on_delete": "delete"},
            "partitions": [{"name": "work", "instance_types": ["m6i.large"], "max_nodes": 2}],
            "s3_access": [{"uri": "s3://shared/data"}],
            "security": {"role_prefix": PREFIX},
        }
        self.bed.config.write_text(json.dumps(config))

    def up(self) -> None:
        self.told = self.bed.up()
        python = f"{self.bed.python}/bin"
        self.bed.ssh("sh", "-c", f"sudo mkdir -p {python} && sudo ln -s /usr/bin/python3 {python}/python")

    def instances(self, role: str) -> dict[str, dict[str, Any]]:
        found = self.bed.instances(role).items()
        return {id_: each for id_, each in found if each["tags"]["gpucluster:cluster"] == self.name}

    @cached_property
    def head_ip(self) -> str:
        (head,) = self.instances("head").values()
        return str(head["private_ip"])

    def resources(self) -> dict[str, str]:
        """Physical ids of the stack's resources, and their types."""
        pages = self.bed.client("cloudformation").get_paginator("list_stack_resources").paginate(StackName=self.name)
        found = [each for page in pages for each in page["StackResourceSummaries"]]
        return {each["PhysicalResourceId"]: each["ResourceType"] for each in found}

    def on_head(self, command: str) -> str:
        return self.bed.ssh("sudo", "bash", "-c", command)

    def groups(self) -> dict[str, dict[str, Any]]:
        ours = [{"Name": "tag:gpucluster:cluster", "Values": [self.name]}]
        found = self.bed.client("ec2").describe_security_groups(Filters=ours)["SecurityGroups"]
        return {each["GroupId"]: each for each in found}

    def asks_slurm_at(self, address: str) -> bool:
        """Whether the slurmctld at the address answers the head node."""
        edit = f"s/^SlurmctldHost=.*/SlurmctldHost=head({address})/"
        conf = f"rm -rf /tmp/slurm && cp -r /etc/slurm /tmp/slurm && sed -i '{edit}' /tmp/slurm/slurm.conf"
        asks = "SLURM_CONF=/tmp/slurm/slurm.conf timeout 60 squeue >/dev/null 2>&1 && echo yes || echo no"
        return self.on_head(f"{conf} && {asks}").strip() == "yes"

    def refused(self, call: str) -> str:
        """The error code with which AWS answers the head node's call."""
        program = (
            "import boto3, botocore.exceptions as e\n"
            f"try: boto3.client({call}\n"
            "except e.ClientError as error: print(error.response['Error']['Code'])\n"
            "else: print('allowed')"
        )
        shell = 'set -a; . /etc/environment; AWS_DEFAULT_REGION=us-east-1 exec /usr/bin/python3 -c "$0"'
        return self.bed.ssh("sudo", "bash", "-c", shell, program).strip()


class Both:
    def __init__(self, bed: Bed) -> None:
        self.network = Network(bed.client("ec2"))
        self.endpoint = self.network.add_endpoint()
        endpoints = bed.client("ec2").describe_instance_connect_endpoints()["InstanceConnectEndpoints"]
        (self.door,) = endpoints[0]["SecurityGroupIds"]
        self.first, self.second = (Cluster(bed, name, self.network) for name in NAMES)

    @property
    def ways(self) -> tuple[tuple[Cluster, Cluster], tuple[Cluster, Cluster]]:
        return (self.first, self.second), (self.second, self.first)


@pytest.fixture(scope="module")
def both(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Both]:
    with opened(Bed.make(tmp_path_factory.mktemp("two"))) as bed:
        bed.client("s3").create_bucket(Bucket="shared")
        made = Both(bed)
        for cluster in (made.first, made.second):
            cluster.up()
        yield made


def test_each_runs_a_job_on_a_node_of_the_same_name_through_one_endpoint(both: Both) -> None:
    for cluster in (both.first, both.second):
        assert cluster.told["outputs"]["InstanceConnectEndpointId"] == both.endpoint
        job = cluster.bed.submit(*ONE, "--follow", "--", "bash", "-c", "hostname -f; getent hosts head")
        assert job.exit_code == 0, job.told + "\n".join(job.log)
        said = [line.partition("] ")[2] for line in job.log]
        assert f"work-1.{cluster.name.lower()}.internal" in said, said
        assert any(line.split()[0] == cluster.head_ip for line in said if line), said
    listed = both.first.bed.gpucluster("list").stdout
    assert all(name in listed.split() for name in NAMES), listed


def test_no_resource_is_of_both(both: Both) -> None:
    first, second = both.first.resources(), both.second.resources()
    assert not first.keys() & second.keys()
    roles = [id_ for id_, type_ in (first | second).items() if type_ == "AWS::IAM::Role"]
    assert len(roles) >= 6 and all(each.startswith(PREFIX) for each in roles), roles
    for each in ("AWS::SSM::Parameter", "AWS::Logs::LogGroup"):
        counts = [list(found.values()).count(each) for found in (first, second)]
        assert counts[0] == counts[1] > 0, each


def test_neither_admits_the_nodes_of_the_other(both: Both) -> None:
    """The local cloud keeps security groups and does not enforce them, so this reads the rules. The other's Slurm would
    not believe a node that reached it."""
    door = {both.door}
    for mine, other in both.ways:
        rules = [rule for group in mine.groups().values() for rule in group["IpPermissions"]]
        assert rules and not any(rule["IpRanges"] or rule["PrefixListIds"] for rule in rules), rules
        sources = {each["GroupId"] for rule in rules for each in rule["UserIdGroupPairs"]}
        assert sources == mine.groups().keys() | door and not sources & other.groups().keys()
        token = mine.on_head("munge --no-input").strip()
        assert "Success" in mine.on_head(f"unmunge <<<'{token}'")
        assert "Invalid credential" in other.on_head(f"unmunge <<<'{token}' 2>&1 || :")
        assert mine.asks_slurm_at(mine.head_ip) and not mine.asks_slurm_at(other.head_ip)


def test_no_role_reads_launches_or_ends_what_is_the_others(both: Both) -> None:
    for mine, other in both.ways:
        own, theirs = (f'"ssm").get_parameter(Name="/gpucluster/{each.name}/head")' for each in (mine, other))
        assert mine.refused(own) == "allowed" and mine.refused(theirs) == "AccessDeniedException"
        (node,) = other.instances("compute")
        assert mine.refused(f'"ec2").terminate_instances(InstanceIds=["{node}"])') == "UnauthorizedOperation"
        (template, *_) = (id_ for id_, type_ in other.resources().items() if type_ == "AWS::EC2::LaunchTemplate")
        launch = f'"ec2").run_instances(MinCount=1, MaxCount=1, LaunchTemplate={{"LaunchTemplateId": "{template}"}})'
        assert mine.refused(launch) == "UnauthorizedOperation"
        (secret,) = (id_ for id_, type_ in other.resources().items() if type_ == "AWS::SecretsManager::Secret")
        asks = f'"secretsmanager").get_secret_value(SecretId="{secret}")'
        assert mine.refused(asks) == "AccessDeniedException"


def test_the_end_of_one_leaves_the_others_job_running(both: Both) -> None:
    gone, stays = both.first, both.second
    ids = gone.resources()
    with running_job(stays.bed, "work"):
        before = stays.resources()
        done = gone.bed.gpucluster("down", "--yes", timeout_s=420)
        assert done.returncode == 0, done.stderr
        wait_for("the end of its instances", lambda: not gone.instances("compute") | gone.instances("head"), 60)
        assert stays.resources() == before and len(stays.instances("head")) == 1
    iam, ec2 = stays.bed.client("iam"), stays.bed.client("ec2")
    left = {each["RoleName"] for each in iam.list_roles()["Roles"]} & ids.keys()
    left |= {each["GroupId"] for each in ec2.describe_security_groups()["SecurityGroups"]} & ids.keys()
    assert not left
    endpoints = ec2.describe_instance_connect_endpoints()["InstanceConnectEndpoints"]
    assert [each["InstanceConnectEndpointId"] for each in endpoints] == [both.endpoint]
    job = stays.bed.submit("--nodes", "2", *ONE[2:], "--follow", "--", "hostname")
    assert job.exit_code == 0 and {"work-1", "work-2"} == {line.partition("] ")[2] for line in job.log}
    assert stays.bed.up()["changed"] is False
