"""Storage: file systems and who reaches them, what stays, what nodes read, what jobs may do in S3."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from test_stacks_roles import actions, flat, resources, statements

from gpucluster.addresses import S3Uri
from gpucluster.config import loads
from gpucluster.errors import ConfigError

Template = dict[str, Any]
Found = dict[str, Any]

CLUSTER = """
name: Stored
region: us-east-1
availability_zone: us-east-1a
partitions:
  - {name: train, instance_types: [p4d.24xlarge], min_nodes: 2, max_nodes: 4}
"""

EVERY_KIND = (
    CLUSTER
    + """
storage:
  - mount: /fsx
    type: fsx-lustre
    throughput_mbps_per_tib: 250
    compression: lz4
    data_repositories:
      - {path: /imagenet, s3: "s3://my-bucket/imagenet", import: [new, changed, deleted], export: [new, changed]}
      - {path: /runs/, s3: "s3://my-bucket/runs", export: [deleted]}
  - {mount: /efs, type: efs}
  - {mount: /ram, type: beegfs-ram, partition: train, gib_per_node: 150}
s3_access:
  - {uri: "s3://my-bucket/imagenet"}
  - {uri: "s3://my-bucket/runs/", access: read-write}
  - {uri: "s3://all-of-it"}
"""
)

BEEGFS = "storage: [{mount: /ram, type: beegfs-ram, partition: train, gib_per_node: 150}]\n"

OF_A_JOB = (
    CLUSTER
    + """
storage:
  - {mount: /job/ram, type: beegfs-ram, partition: train, gib_per_node: 150, scope: job}
"""
)

LUSTRE = (
    CLUSTER
    + """
storage:
  - {mount: /fast, type: fsx-lustre, efa: true, capacity_gib: 9600, metadata_iops: 12000, backup_days: 7,
     on_delete: retain}
  - {mount: /one, type: fsx-lustre, deployment: persistent-1, capacity_gib: 2400}
  - {mount: /scratch, type: fsx-lustre, deployment: scratch-2, capacity_gib: 1200}
  - {mount: /old, type: fsx-lustre, deployment: scratch-1, capacity_gib: 3600}
  - {mount: /plain, type: fsx-lustre}
"""
)


@pytest.fixture(scope="session")
def stored(template_of: Callable[[str], Template]) -> Template:
    return template_of(EVERY_KIND)


@pytest.fixture(scope="session")
def lustre(template_of: Callable[[str], Template]) -> Template:
    return template_of(LUSTRE)


def of_type(template: Template, type_: str) -> Iterator[tuple[str, Found]]:
    return ((id_, each) for id_, each in template["Resources"].items() if each["Type"] == type_)


def one(template: Template, type_: str, start: str) -> Found:
    (found,) = [each for id_, each in of_type(template, type_) if id_.startswith(start)]
    return dict(found)


def lustre_at(template: Template, id_: str) -> Found:
    return one(template, "AWS::FSx::FileSystem", f"Storage{id_}")


def parameter(template: Template, name: str) -> dict[str, Any]:
    """What only CloudFormation knows stands as ${LogicalId}."""
    for _, found in of_type(template, "AWS::SSM::Parameter"):
        if found["Properties"]["Name"] == f"/gpucluster/Stored/{name}":
            value: dict[str, Any] = json.loads(flat(found["Properties"]["Value"]))
            return value
    raise AssertionError(f"no parameter {name}")


def rules(template: Template, direction: str, group: str, peer: str) -> set[tuple[str, int | None, int | None]]:
    """(protocol, first port, last port) of the rules between two groups, named by how their logical ids begin."""
    key = {"Ingress": "SourceSecurityGroupId", "Egress": "DestinationSecurityGroupId"}[direction]
    return {
        (rule["IpProtocol"], rule.get("FromPort"), rule.get("ToPort"))
        for _, found in of_type(template, f"AWS::EC2::SecurityGroup{direction}")
        for rule in [found["Properties"]]
        if _named(rule["GroupId"], group) and _named(rule.get(key), peer)
    }


def _named(reference: Any, start: str) -> bool:
    return isinstance(reference, dict) and reference["Fn::GetAtt"][0].startswith(start)


TCP = {("tcp", 988, 988), ("tcp", 1018, 1023)}
ALL = {("-1", None, None)}


@pytest.mark.parametrize(
    ("mount", "configuration", "capacity_gib"),
    [
        (
            "Fast",
            {
                "DeploymentType": "PERSISTENT_2",
                "PerUnitStorageThroughput": 500,  # the cheapest that 9600 GiB is a step of, with EFA
                "DataCompressionType": "NONE",
                "EfaEnabled": True,
                "MetadataConfiguration": {"Mode": "USER_PROVISIONED", "Iops": 12000},
                "AutomaticBackupRetentionDays": 7,
            },
            9600,
        ),
        (
            "One",
            {
                "DeploymentType": "PERSISTENT_1",
                "PerUnitStorageThroughput": 50,
                "DataCompressionType": "NONE",
                "AutomaticBackupRetentionDays": 0,
            },
            2400,
        ),
        ("Scratch", {"DeploymentType": "SCRATCH_2", "DataCompressionType": "NONE"}, 1200),
        ("Old", {"DeploymentType": "SCRATCH_1", "DataCompressionType": "NONE"}, 3600),
        (
            "Plain",
            {
                "DeploymentType": "PERSISTENT_2",
                "PerUnitStorageThroughput": 125,
                "DataCompressionType": "NONE",
                "MetadataConfiguration": {"Mode": "AUTOMATIC"},
                "AutomaticBackupRetentionDays": 0,
            },
            4800,
        ),
    ],
)
def test_each_deployment_type_has_its_properties(
    lustre: Template, mount: str, configuration: dict[str, Any], capacity_gib: int
) -> None:
    properties = lustre_at(lustre, mount)["Properties"]
    assert properties["LustreConfiguration"] == configuration
    assert (properties["StorageCapacity"], properties["FileSystemTypeVersion"]) == (capacity_gib, "2.15")
    assert properties["SubnetIds"] == [{"Ref": one_subnet(lustre)}]
    assert {"Key": "gpucluster:cluster", "Value": "Stored"} in properties["Tags"]


def one_subnet(template: Template) -> str:
    (found,) = [id_ for id_, _ in of_type(template, "AWS::EC2::Subnet") if "Private" in id_]
    return found


@pytest.mark.parametrize(("mount", "inner"), [("Fast", ALL), ("Plain", TCP), ("Scratch", TCP)])
def test_clients_and_servers_reach_each_other(
    lustre: Template, mount: str, inner: set[tuple[str, int | None, int | None]]
) -> None:
    group = f"Storage{mount}Group"
    assert rules(lustre, "Ingress", group, group) == rules(lustre, "Egress", group, group) == inner
    for nodes, ports in (("NetworkHead", TCP), ("NetworkCompute", inner)):
        assert rules(lustre, "Ingress", group, nodes) == ports
        assert rules(lustre, "Egress", group, nodes) == ports
        assert rules(lustre, "Ingress", nodes, group) == ports
    assert rules(lustre, "Egress", "NetworkCompute", group) == (ALL if inner == ALL else set())


def test_fsx_checks_the_rules_so_they_come_first(lustre: Template) -> None:
    before = set(lustre_at(lustre, "Fast")["DependsOn"])
    made = {
        id_
        for direction in ("Ingress", "Egress")
        for id_, _ in of_type(lustre, f"AWS::EC2::SecurityGroup{direction}")
        if id_.startswith("StorageFast")
    }
    assert made and made <= before


def test_kept_file_systems_keep_their_network(lustre: Template, stored: Template) -> None:
    kept = {id_ for id_, each in lustre["Resources"].items() if each.get("DeletionPolicy") == "RetainExceptOnCreate"}
    kinds = sorted(lustre["Resources"][id_]["Type"].removeprefix("AWS::") for id_ in kept if "Fast" in id_)
    assert kinds == ["EC2::SecurityGroup", "EC2::SecurityGroupEgress", "EC2::SecurityGroupIngress", "FSx::FileSystem"]
    network = {lustre["Resources"][id_]["Type"] for id_ in kept if id_.startswith("NetworkVpc")}
    assert network == {"AWS::EC2::VPC", "AWS::EC2::Subnet"}
    assert not [id_ for id_ in kept if id_.startswith(("StoragePlain", "StorageOne"))]
    assert not [id_ for id_, each in stored["Resources"].items() if "Vpc" in id_ and each.get("DeletionPolicy")]


def test_no_kept_resource_refers_to_a_deleted_one(lustre: Template) -> None:
    """A group whose rules name another group keeps that one from being deleted."""
    resources_ = lustre["Resources"]
    kept = {id_ for id_, each in resources_.items() if each.get("DeletionPolicy") == "RetainExceptOnCreate"}
    everything = set(resources_)
    for id_ in kept:
        named = {other for other in everything if f'"{other}"' in json.dumps(resources_[id_]["Properties"])}
        assert named <= kept, id_


def test_no_replacement_deletes_files(lustre: Template, stored: Template) -> None:
    for template in (lustre, stored):
        for type_ in ("AWS::FSx::FileSystem", "AWS::EFS::FileSystem"):
            assert all(found["UpdateReplacePolicy"] == "Retain" for _, found in of_type(template, type_))
    assert lustre_at(lustre, "Plain")["DeletionPolicy"] == "Delete"


def test_directories_are_kept_in_step_with_s3(stored: Template) -> None:
    links = {
        found["Properties"]["FileSystemPath"]: found["Properties"]
        for _, found in of_type(stored, "AWS::FSx::DataRepositoryAssociation")
    }
    assert links["/imagenet"]["S3"] == {
        "AutoImportPolicy": {"Events": ["NEW", "CHANGED", "DELETED"]},
        "AutoExportPolicy": {"Events": ["NEW", "CHANGED"]},
    }
    assert links["/runs"]["S3"] == {"AutoExportPolicy": {"Events": ["DELETED"]}}
    assert all(link["BatchImportMetaDataOnCreate"] for link in links.values())
    assert [link["DataRepositoryPath"] for link in links.values()] == ["s3://my-bucket/imagenet", "s3://my-bucket/runs"]


def test_links_are_made_one_after_another(stored: Template) -> None:
    """Made in parallel they fail: terraform-provider-aws#24678, aws-parallelcluster#6649."""
    (first, before), (_, after) = of_type(stored, "AWS::FSx::DataRepositoryAssociation")
    assert "DependsOn" not in before
    assert after["DependsOn"] == [first]


def test_fsx_logs_errors_with_s3(stored: Template, lustre: Template) -> None:
    configuration = lustre_at(stored, "Fsx")["Properties"]["LustreConfiguration"]
    group = one(stored, "AWS::Logs::LogGroup", "StorageFsx")["Properties"]
    assert group["LogGroupName"] == "/aws/fsx/Stored/fsx"
    assert group["RetentionInDays"] == 90
    assert configuration["LogConfiguration"]["Level"] == "WARN_ERROR"
    assert flat(configuration["LogConfiguration"]["Destination"]).endswith(":log-group:/aws/fsx/Stored/fsx")
    assert configuration["AutomaticBackupRetentionDays"] == 0, "FSx takes no backups beside links"
    assert not [id_ for id_, _ in of_type(lustre, "AWS::Logs::LogGroup") if id_.startswith("Storage")]


def test_a_retained_file_system_keeps_its_log(template_of: Callable[[str], Template]) -> None:
    """Under a name that the next cluster of this name does not use: CloudFormation fails if a group exists already."""
    text = """
name: Stored
region: us-east-1
partitions: [{name: a, instance_types: [g5.xlarge], max_nodes: 1}]
storage:
  - {mount: /fsx, type: fsx-lustre, on_delete: retain, data_repositories: [{path: /a, s3: "s3://my-bucket/a"}]}
"""
    kept = template_of(text)
    (group,) = [found for id_, found in of_type(kept, "AWS::Logs::LogGroup") if id_.startswith("StorageFsx")]
    assert (group["DeletionPolicy"], group["UpdateReplacePolicy"]) == ("RetainExceptOnCreate", "Retain")
    name = json.dumps(group["Properties"]["LogGroupName"])
    assert "/aws/fsx/Stored/fsx-" in name and "AWS::StackId" in name
    configuration = lustre_at(kept, "Fsx")["Properties"]["LustreConfiguration"]["LogConfiguration"]
    assert "AWS::StackId" in json.dumps(configuration["Destination"])


def test_efs_is_mounted_by_nodes_over_tls_alone(stored: Template) -> None:
    system = one(stored, "AWS::EFS::FileSystem", "StorageEfs")
    properties = system["Properties"]
    assert (properties["Encrypted"], properties["ThroughputMode"]) == (True, "elastic")
    assert properties["BackupPolicy"] == {"Status": "ENABLED"}
    assert system["DeletionPolicy"] == "RetainExceptOnCreate"
    allowed, denied = properties["FileSystemPolicy"]["Statement"]
    assert allowed["Condition"] == {"Bool": {"elasticfilesystem:AccessedViaMountTarget": "true"}}
    assert (denied["Effect"], denied["Condition"]) == ("Deny", {"Bool": {"aws:SecureTransport": "false"}})
    (target,) = of_type(stored, "AWS::EFS::MountTarget")
    assert target[1]["Properties"]["SubnetId"] == {"Ref": one_subnet(stored)}
    nfs = {("tcp", 2049, 2049)}
    assert rules(stored, "Ingress", "StorageEfsGroup", "NetworkHead") == nfs
    assert rules(stored, "Ingress", "StorageEfsGroup", "NetworkCompute") == nfs
    group = one(stored, "AWS::EC2::SecurityGroup", "StorageEfsGroup")["Properties"]
    assert "SecurityGroupIngress" not in group
    assert [rule["CidrIp"] for rule in group["SecurityGroupEgress"]] == ["255.255.255.255/32"]


def test_beegfs_has_its_ports_between_head_and_nodes(stored: Template) -> None:
    to_head = rules(stored, "Ingress", "NetworkHead", "NetworkCompute")
    assert {("tcp", 8008, 8008), ("udp", 8008, 8008), ("tcp", 8010, 8010), ("udp", 8004, 8004)} <= to_head
    to_compute = rules(stored, "Ingress", "NetworkCompute", "NetworkHead")
    assert {(protocol, port, port) for protocol in ("tcp", "udp") for port in (8003, 8005)} <= to_compute
    assert ("udp", 8004, 8004) in to_compute


def secrets_of(template: Template, role: str) -> list[str]:
    reading = [s for s in statements(template, role) if "secretsmanager:GetSecretValue" in actions(s)]
    named = [each.removeprefix("${") for statement in reading for each in resources(statement)]
    return [each.split("ConnectionSecret")[0] for each in named if "ConnectionSecret" in each]


def test_servers_read_what_beegfs_is_filled_from(template_of: Callable[[str], Template]) -> None:
    source = 'gib_per_node: 150, source: "s3://my-bucket/imagenet"'
    template = template_of(CLUSTER + BEEGFS.replace("gib_per_node: 150", source))
    reading = [s for s in statements(template, "ComputeRole") if "my-bucket" in str(resources(s))]
    assert [actions(s) for s in reading] == [{"s3:GetObject"}, {"s3:ListBucket"}]
    assert reading[1]["Condition"] == {"StringLike": {"s3:prefix": ["imagenet/*"]}}
    assert not [s for s in statements(template, "HeadRole") if "my-bucket" in str(resources(s))]


def test_beegfs_of_jobs_needs_nothing_on_the_head(template_of: Callable[[str], Template]) -> None:
    template = template_of(OF_A_JOB)
    opened = rules(template, "Ingress", "NetworkHead", "NetworkCompute")
    assert not [rule for rule in opened if rule[1] and 8000 <= rule[1] <= 8010]
    assert (secrets_of(template, "ComputeRole"), secrets_of(template, "HeadRole")) == (["StorageJobRam"], [])
    found = parameter(template, "storage/job-ram")
    assert found["nodes"] == {"mgmtd": "first of job", "meta": "job", "storage": "job", "client": "job"}
    assert (found["mount"], found["scope"]) == ("/job/ram", "job")


@pytest.mark.parametrize("role", ["HeadRole", "ComputeRole"])
def test_servers_and_clients_read_the_secret(stored: Template, role: str) -> None:
    assert secrets_of(stored, role) == ["StorageRam"]


@pytest.mark.parametrize(
    ("name", "wanted"),
    [
        (
            "storage/fsx",
            {"type": "fsx-lustre", "mount": "/fsx", "efa": False, "version": "2.15"},
        ),
        ("storage/efs", {"type": "efs", "mount": "/efs", "access": "tls"}),
        (
            "storage/ram",
            {
                "type": "beegfs-ram",
                "mount": "/ram",
                "scope": "cluster",
                "partition": "train",
                "gib_per_node": 150,
                "management": "head.stored.internal",
                "nodes": {"mgmtd": "head", "meta": "train-[1-2]", "storage": "train-[1-2]", "client": "all"},
            },
        ),
    ],
)
def test_each_parameter_says_what_nodes_mount(stored: Template, name: str, wanted: dict[str, Any]) -> None:
    found = parameter(stored, name)
    assert {key: found[key] for key in wanted} == wanted


def test_parameters_name_what_cloudformation_made(stored: Template) -> None:
    fsx, efs, ram = (parameter(stored, f"storage/{name}") for name in ("fsx", "efs", "ram"))
    assert fsx["file_system_id"].startswith("${StorageFsxFileSystem")
    assert fsx["dns_name"].endswith(".DNSName}") and fsx["mount_name"].endswith(".LustreMountName}")
    assert efs["dns_name"] == efs["file_system_id"] + ".efs.us-east-1.${AWS::URLSuffix}"
    assert ram["auth_secret_arn"].startswith("${StorageRamConnectionSecret")
    assert (ram["ports"]["mgmtd"], ram["ports"]["storage"]) == (8008, 8003)


def test_jobs_have_a_role_that_nodes_alone_assume(stored: Template) -> None:
    role = one(stored, "AWS::IAM::Role", "StorageJobsRole")["Properties"]
    trusted = role["AssumeRolePolicyDocument"]["Statement"]
    assert all(actions(trust) == {"sts:AssumeRole"} for trust in trusted)
    names = [flat(trust["Principal"]["AWS"]) for trust in trusted]
    assert [name.partition("Role")[0] for name in names] == ["${Compute", "${Head"]
    assert parameter(stored, "jobs")["role_arn"].startswith("${StorageJobsRole")
    for node in ("ComputeRole", "HeadRole"):
        (assume,) = [s for s in statements(stored, node) if "sts:AssumeRole" in actions(s)]
        (assumed,) = resources(assume)
        assert assumed.startswith("${StorageJobsRole")


def test_jobs_read_and_write_under_their_prefixes_alone(stored: Template) -> None:
    found = statements(stored, "StorageJobsRole")
    shown = {tuple(sorted(actions(s))): [each.partition(":s3:::")[2] for each in resources(s)] for s in found[-2:]}
    runs = ["my-bucket/runs", "my-bucket/runs/*"]
    assert shown == {
        ("s3:GetObject",): ["my-bucket/imagenet", "my-bucket/imagenet/*", *runs, "all-of-it/*"],
        ("s3:AbortMultipartUpload", "s3:DeleteObject", "s3:PutObject"): runs,
    }
    lists = {resources(s)[0].partition(":s3:::")[2]: s.get("Condition") for s in found[:-2]}
    assert {action for s in found[:-2] for action in actions(s)} == {"s3:ListBucket"}
    assert lists == {
        "my-bucket": {"StringLike": {"s3:prefix": ["imagenet/*", "runs/*"]}},
        "all-of-it": None,
    }
    assert all(each.startswith("arn:${AWS::Partition}:s3:::") for s in found for each in resources(s))


@pytest.mark.parametrize(
    ("uri", "objects", "listed"),
    [
        ("s3://b", ["b/*"], "*"),
        ("s3://b/", ["b/*"], "*"),
        ("s3://b/a/c/", ["b/a/c", "b/a/c/*"], "a/c/*"),
        ("s3://b/what?*$", ["b/what${?}${*}${$}", "b/what${?}${*}${$}/*"], "what${?}${*}${$}/*"),
    ],
)
def test_a_prefix_is_no_pattern(uri: str, objects: list[str], listed: str) -> None:
    from stacks.storage import s3_access

    assert (s3_access.objects(S3Uri.of(uri)), s3_access.listed(S3Uri.of(uri))) == (objects, listed)


def test_a_cluster_without_storage_has_none(template: Template) -> None:
    kinds = {found["Type"] for found in template["Resources"].values()}
    assert not kinds & {"AWS::FSx::FileSystem", "AWS::EFS::FileSystem"}
    assert not [id_ for id_ in template["Resources"] if id_.startswith("StorageJobs")]
    names = [found["Properties"]["Name"] for _, found in of_type(template, "AWS::SSM::Parameter")]
    assert not [name for name in names if "/storage/" in name or name.endswith("/jobs")]


TWINS = {
    "mounts": "storage: [{mount: /scratch1, type: efs}, {mount: /scratch-1, type: efs}]",
    "capitals": "storage: [{mount: /fsx, type: efs}, {mount: /Fsx, type: efs}]",
    "alarms": "storage: [{mount: /fsx, type: fsx-lustre}, {mount: /fsX, type: fsx-lustre}]",
    "role of jobs": "storage: [{mount: /jobs, type: efs}]\ns3_access: [{uri: s3://my-bucket}]",
    "links": "storage: [{mount: /fsx, type: fsx-lustre, data_repositories: "
    "[{path: /in/21k, s3: s3://a-bucket}, {path: /in-21k, s3: s3://b-bucket}]}]",
}


@pytest.mark.parametrize("more", TWINS.values(), ids=TWINS)
def test_mounts_with_the_same_logical_id_are_refused(template_of: Callable[[str], Template], more: str) -> None:
    rules = ["mounts-have-own-names", "fsx-links-have-own-names"]
    with pytest.raises(ConfigError) as refused:
        loads(CLUSTER + more)
    (problem,) = [each for each in refused.value.problems if each.level == "error"]
    assert problem.validator in rules
    with pytest.raises(RuntimeError, match="already a Construct with name"):
        template_of(f"{CLUSTER}{more}\nsilence: {json.dumps(rules)}")


def test_mounts_with_names_of_cdks_constructs(template_of: Callable[[str], Template]) -> None:
    mounts = ("/default", "/group", "/jobs", "/home-disk")
    template = template_of(CLUSTER + f"storage: {json.dumps([{'mount': each, 'type': 'efs'} for each in mounts])}")
    assert len(list(of_type(template, "AWS::EFS::FileSystem"))) == len(mounts)
