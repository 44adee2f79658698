"""FSx for Lustre and EFS of the control plane: rules, answers, updates and deletion."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest
from botocore.exceptions import ClientError

Network = dict[str, str]

PERSISTENT: dict[str, Any] = {
    "DeploymentType": "PERSISTENT_2",
    "PerUnitStorageThroughput": 250,
    "MetadataConfiguration": {"Mode": "AUTOMATIC"},
}


@pytest.fixture(scope="module")
def network(control_plane: Any) -> Iterator[Network]:
    ec2 = control_plane.client("ec2")
    vpc_id = ec2.create_vpc(CidrBlock="10.8.0.0/16")["Vpc"]["VpcId"]
    subnet_id = ec2.create_subnet(VpcId=vpc_id, CidrBlock="10.8.1.0/24")["Subnet"]["SubnetId"]
    ids = {name: _group(ec2, vpc_id, name) for name in ("closed", "lustre", "efa")}
    lustre = {"IpProtocol": "tcp", "FromPort": 988, "ToPort": 1023, "IpRanges": [{"CidrIp": "10.8.0.0/16"}]}
    ec2.authorize_security_group_ingress(GroupId=ids["lustre"], IpPermissions=[lustre])
    itself = {"IpProtocol": "-1", "UserIdGroupPairs": [{"GroupId": ids["efa"]}]}
    ec2.authorize_security_group_ingress(GroupId=ids["efa"], IpPermissions=[itself])
    ec2.authorize_security_group_egress(GroupId=ids["efa"], IpPermissions=[itself])
    control_plane.client("s3").create_bucket(Bucket="training-data")
    yield {"vpc_id": vpc_id, "subnet_id": subnet_id, **ids}
    control_plane.client("s3").delete_bucket(Bucket="training-data")
    for group_id in ids.values():
        ec2.delete_security_group(GroupId=group_id)
    ec2.delete_subnet(SubnetId=subnet_id)
    ec2.delete_vpc(VpcId=vpc_id)


def _group(ec2: Any, vpc_id: str, name: str) -> str:
    return str(ec2.create_security_group(VpcId=vpc_id, GroupName=name, Description=name)["GroupId"])


def make(control_plane: Any, network: Network, *, group: str = "lustre", **given: Any) -> dict[str, Any]:
    wanted = {
        "FileSystemType": "LUSTRE",
        "FileSystemTypeVersion": "2.15",
        "StorageCapacity": 4800,
        "SubnetIds": [network["subnet_id"]],
        "SecurityGroupIds": [network[group]],
        "LustreConfiguration": PERSISTENT,
        **given,
    }
    kept = {name: value for name, value in wanted.items() if value is not None}
    made: dict[str, Any] = control_plane.client("fsx").create_file_system(**kept)["FileSystem"]
    return made


@pytest.fixture
def system(control_plane: Any, network: Network) -> Iterator[dict[str, Any]]:
    made = make(control_plane, network, Tags=[{"Key": "a", "Value": "b"}])
    yield made
    control_plane.client("fsx").delete_file_system(FileSystemId=made["FileSystemId"])


def lustre(**keys: Any) -> dict[str, Any]:
    return {"LustreConfiguration": {name: value for name, value in {**PERSISTENT, **keys}.items() if value is not None}}


def scratch(**keys: Any) -> dict[str, Any]:
    return {"LustreConfiguration": {"DeploymentType": "SCRATCH_2", **keys}}


def test_a_repeated_call_creates_nothing_more(control_plane: Any, network: Network) -> None:
    first, again, other = (make(control_plane, network, ClientRequestToken=token) for token in ("a", "a", "b"))
    assert first["FileSystemId"] == again["FileSystemId"] != other["FileSystemId"]
    with pytest.raises(ClientError, match="IncompatibleParameterError"):
        make(control_plane, network, ClientRequestToken="a", StorageCapacity=7200)
    for made in (first, other):
        control_plane.client("fsx").delete_file_system(FileSystemId=made["FileSystemId"])


REFUSED: list[tuple[dict[str, Any], str, str]] = [
    ({"StorageCapacity": 1300}, "BadRequest", "1200, 2400, or a multiple of 2400"),
    ({"StorageCapacity": 4800, **scratch(DeploymentType="SCRATCH_1")}, "BadRequest", "multiple of 3600"),
    (lustre(DeploymentType="PERSISTENT_3"), "BadRequest", "PERSISTENT_3"),
    (lustre(PerUnitStorageThroughput=300), "InvalidPerUnitStorageThroughput", "125, 250, 500, 1000, got 300"),
    (lustre(PerUnitStorageThroughput=None), "BadRequest", "required for PERSISTENT_2"),
    (scratch(PerUnitStorageThroughput=125), "BadRequest", "not supported for SCRATCH_2"),
    ({"FileSystemTypeVersion": "2.10"}, "BadRequest", "2.10 is not supported"),
    ({"FileSystemTypeVersion": "2.12"}, "BadRequest", "2.12 is not supported with a MetadataConfiguration"),
    ({"FileSystemTypeVersion": "2.16"}, "BadRequest", "2.10, 2.12, 2.15"),
    (lustre(MetadataConfiguration={"Mode": "AUTOMATIC", "Iops": 1500}), "BadRequest", "AUTOMATIC"),
    (lustre(MetadataConfiguration={"Mode": "USER_PROVISIONED", "Iops": 13000}), "BadRequest", "got 13000"),
    (scratch(MetadataConfiguration={"Mode": "AUTOMATIC"}), "BadRequest", "not supported for SCRATCH_2"),
    ({"group": "efa", **lustre(EfaEnabled=True)}, "BadRequest", "multiple of 19200 GiB at 250"),
    (
        {"group": "efa", **lustre(EfaEnabled=True, MetadataConfiguration=None, PerUnitStorageThroughput=1000)},
        "BadRequest",
        "need DeploymentType PERSISTENT_2 and a MetadataConfiguration",
    ),
    (
        {"group": "lustre", **lustre(EfaEnabled=True, PerUnitStorageThroughput=1000)},
        "BadRequest",
        "Insufficient security group permissions",
    ),
    ({"group": "closed"}, "InvalidNetworkSettings", "port 988"),
    ({"SubnetIds": ["subnet-00000000000000000"]}, "InvalidNetworkSettings", "does not exist"),
    ({"SecurityGroupIds": ["sg-00000000000000000"]}, "InvalidNetworkSettings", "sg-00000000000000000"),
    ({"KmsKeyId": "arn:aws:kms:us-east-1:123456789012:key/1", **scratch()}, "BadRequest", "KmsKeyId"),
    (scratch(AutomaticBackupRetentionDays=7), "BadRequest", "Automatic backups"),
    (lustre(AutomaticBackupRetentionDays=91), "BadRequest", "less than or equal to 90"),
    (lustre(DataCompressionType="ZSTD"), "BadRequest", "NONE, LZ4"),
    (
        lustre(LogConfiguration={"Level": "ALL"}),
        "BadRequest",
        "Member must satisfy enum value set",
    ),
    (
        lustre(
            LogConfiguration={
                "Level": "WARN_ERROR",
                "Destination": "arn:aws:logs:us-east-1:123456789012:log-group:/mine",
            }
        ),
        "BadRequest",
        "begin with /aws/fsx/",
    ),
    (
        lustre(
            LogConfiguration={
                "Level": "WARN_ERROR",
                "Destination": "arn:aws:logs:us-east-1:123456789012:log-group:/aws/fsx/none",
            }
        ),
        "BadRequest",
        "does not exist",
    ),
]


@pytest.mark.parametrize(("given", "code", "text"), REFUSED)
def test_fsx_refuses_what_aws_refuses(
    control_plane: Any, network: Network, given: dict[str, Any], code: str, text: str
) -> None:
    with pytest.raises(ClientError, match=text) as error:
        make(control_plane, network, **given)
    assert error.value.response["Error"]["Code"] == code
    assert control_plane.client("fsx").describe_file_systems()["FileSystems"] == []


@pytest.mark.parametrize(
    "given",
    [
        scratch(),
        {"FileSystemTypeVersion": None, "StorageCapacity": 3600, "LustreConfiguration": None},
        lustre(DeploymentType="PERSISTENT_1", PerUnitStorageThroughput=50, MetadataConfiguration=None),
        {"group": "efa", **lustre(EfaEnabled=True, PerUnitStorageThroughput=1000)},
        lustre(MetadataConfiguration={"Mode": "USER_PROVISIONED", "Iops": 24000}),
    ],
)
def test_fsx_accepts_what_aws_accepts(control_plane: Any, network: Network, given: dict[str, Any]) -> None:
    made = make(control_plane, network, **given)
    assert made["Lifecycle"] == "CREATING", "it is available when it is next described"
    control_plane.client("fsx").delete_file_system(FileSystemId=made["FileSystemId"])


def test_a_file_system_is_shown_as_aws_shows_it(control_plane: Any, network: Network, system: dict[str, Any]) -> None:
    fsx, ec2 = control_plane.client("fsx"), control_plane.client("ec2")
    (shown,) = fsx.describe_file_systems(FileSystemIds=[system["FileSystemId"]])["FileSystems"]
    assert shown["DNSName"] == f"{system['FileSystemId']}.fsx.us-east-1.amazonaws.com"
    assert len(shown["LustreConfiguration"]["MountName"]) == 8
    assert (shown["Lifecycle"], shown["FileSystemTypeVersion"], shown["VpcId"]) == (
        "AVAILABLE",
        "2.15",
        network["vpc_id"],
    )
    assert shown["Tags"] == [{"Key": "a", "Value": "b"}]
    (interface,) = ec2.describe_network_interfaces(NetworkInterfaceIds=shown["NetworkInterfaceIds"])[
        "NetworkInterfaces"
    ]
    assert [group["GroupId"] for group in interface["Groups"]] == [network["lustre"]]
    with pytest.raises(ClientError, match="DependencyViolation"):
        ec2.delete_security_group(GroupId=network["lustre"])


def test_a_file_system_is_updated_under_awss_rules(control_plane: Any, system: dict[str, Any]) -> None:
    fsx, system_id = control_plane.client("fsx"), system["FileSystemId"]
    fsx.update_file_system(
        FileSystemId=system_id,
        StorageCapacity=7200,
        LustreConfiguration={
            "PerUnitStorageThroughput": 500,
            "MetadataConfiguration": {"Mode": "USER_PROVISIONED", "Iops": 12000},
        },
    )
    (shown,) = fsx.describe_file_systems(FileSystemIds=[system_id])["FileSystems"]
    assert (shown["StorageCapacity"], shown["LustreConfiguration"]["PerUnitStorageThroughput"]) == (7200, 500)
    assert shown["LustreConfiguration"]["MountName"] == system["LustreConfiguration"]["MountName"]
    for wrong, text in (
        ({"StorageCapacity": 4800}, "more than the current 7200"),
        ({"StorageCapacity": 7300}, "multiple of 2400"),
        ({"LustreConfiguration": {"PerUnitStorageThroughput": 300}}, "got 300"),
        ({"LustreConfiguration": {"MetadataConfiguration": {"Mode": "USER_PROVISIONED", "Iops": 6000}}}, "decreased"),
    ):
        with pytest.raises(ClientError, match=text):
            fsx.update_file_system(FileSystemId=system_id, **wrong)
    with pytest.raises(ClientError, match="FileSystemNotFound"):
        fsx.describe_file_systems(FileSystemIds=["fs-00000000000000000"])


def test_directories_can_be_linked_to_s3(control_plane: Any, system: dict[str, Any]) -> None:
    fsx, system_id = control_plane.client("fsx"), system["FileSystemId"]

    def link(path: str, repository: str, *, events: str = "NEW") -> dict[str, Any]:
        made: dict[str, Any] = fsx.create_data_repository_association(
            FileSystemId=system_id,
            FileSystemPath=path,
            DataRepositoryPath=repository,
            S3={"AutoImportPolicy": {"Events": [events]}},
            Tags=[{"Key": "a", "Value": "b"}],
        )["Association"]
        return made

    made = link("/imagenet", "s3://training-data/imagenet")
    assert (made["Lifecycle"], made["Tags"]) == ("AVAILABLE", [{"Key": "a", "Value": "b"}])
    for path, repository, text in (
        ("/imagenet/train", "s3://training-data/train", "overlaps"),
        ("/", "s3://training-data/root", "overlaps"),
        ("/other", "s3://training-data/imagenet/", "linked already"),
        ("/other", "s3://nobodys-bucket", "unable to validate access to the S3 bucket"),
        ("other", "s3://training-data/other", "begin with a slash"),
    ):
        with pytest.raises(ClientError, match=text):
            link(path, repository)
    with pytest.raises(ClientError, match="NEW, CHANGED, DELETED"):
        link("/other", "s3://training-data/other", events="MOVED")
    changed = {"AutoExportPolicy": {"Events": ["NEW", "DELETED"]}}
    fsx.update_data_repository_association(AssociationId=made["AssociationId"], S3=changed)
    wanted = [{"Name": "file-system-id", "Values": [system_id]}]
    (shown,) = fsx.describe_data_repository_associations(Filters=wanted)["Associations"]
    assert (shown["FileSystemPath"], shown["S3"]) == ("/imagenet", changed)
    fsx.delete_data_repository_association(AssociationId=made["AssociationId"])
    assert fsx.describe_data_repository_associations()["Associations"] == []


def test_tasks_are_refused_as_on_aws(control_plane: Any, system: dict[str, Any]) -> None:
    fsx, system_id = control_plane.client("fsx"), system["FileSystemId"]

    def begin(**given: Any) -> dict[str, Any]:
        wanted = {"Type": "EXPORT_TO_REPOSITORY", "Report": {"Enabled": False}, **given}
        made: dict[str, Any] = fsx.create_data_repository_task(FileSystemId=system_id, **wanted)["DataRepositoryTask"]
        return made

    def link(path: str, **policies: Any) -> None:
        repository = f"s3://training-data{path}"
        given = {"FileSystemPath": path, "DataRepositoryPath": repository, "S3": policies}
        fsx.create_data_repository_association(FileSystemId=system_id, **given)

    with pytest.raises(ClientError, match="not linked"):
        begin()
    link("/results")
    link("/live", AutoExportPolicy={"Events": ["NEW"]})
    for given, text in (
        ({"Paths": ["/elsewhere"]}, "not within"),
        ({"Paths": ["/live/run"]}, "exported automatically"),
        ({}, "exported automatically"),
        ({"Type": "RELEASE_DATA_FROM_FILESYSTEM"}, "ReleaseConfiguration is required"),
        ({"Type": "AUTO_RELEASE_DATA"}, "not supported"),
        ({"Paths": ["/results"], "Report": {"Enabled": True}}, "Path, Format and Scope"),
    ):
        with pytest.raises(ClientError, match=text):
            begin(**given)
    task = begin(Paths=["/results"], Tags=[{"Key": "a", "Value": "b"}])
    (shown,) = fsx.describe_data_repository_tasks(TaskIds=[task["TaskId"]])["DataRepositoryTasks"]
    assert (shown["Lifecycle"], shown["Paths"], shown["Tags"]) == (
        "SUCCEEDED",
        ["/results"],
        [{"Key": "a", "Value": "b"}],
    )
    wanted = [{"Name": "task-lifecycle", "Values": ["EXECUTING"]}]
    assert fsx.describe_data_repository_tasks(Filters=wanted)["DataRepositoryTasks"] == []
    with pytest.raises(ClientError, match="has ended"):
        fsx.cancel_data_repository_task(TaskId=task["TaskId"])
    with pytest.raises(ClientError, match="TaskNotFound"):
        fsx.describe_data_repository_tasks(TaskIds=["task-00000000000000000"])


def test_scratch_1_and_backed_up_file_systems_cannot_be_linked(control_plane: Any, network: Network) -> None:
    fsx = control_plane.client("fsx")
    for given, text in (
        (scratch(DeploymentType="SCRATCH_1"), "not SCRATCH_1"),
        (lustre(AutomaticBackupRetentionDays=7), "automatic backups"),
    ):
        made = make(control_plane, network, **{"StorageCapacity": 2400, **given})
        with pytest.raises(ClientError, match=text):
            fsx.create_data_repository_association(
                FileSystemId=made["FileSystemId"], FileSystemPath="/d", DataRepositoryPath="s3://training-data"
            )
        fsx.delete_file_system(FileSystemId=made["FileSystemId"])


def test_efs_can_be_changed_after_its_creation(control_plane: Any) -> None:
    efs = control_plane.client("efs")
    system_id = efs.create_file_system(CreationToken="changes", Encrypted=True)["FileSystemId"]
    efs.update_file_system(FileSystemId=system_id, ThroughputMode="elastic")
    efs.put_backup_policy(FileSystemId=system_id, BackupPolicy={"Status": "ENABLED"})
    (shown,) = efs.describe_file_systems(FileSystemId=system_id)["FileSystems"]
    assert (shown["ThroughputMode"], shown["Encrypted"]) == ("elastic", True)
    assert efs.describe_backup_policy(FileSystemId=system_id)["BackupPolicy"] == {"Status": "ENABLED"}
    with pytest.raises(ClientError, match="bursting, provisioned, elastic"):
        efs.update_file_system(FileSystemId=system_id, ThroughputMode="fast")
    efs.delete_file_system(FileSystemId=system_id)


def _template(network: Network, tag: str, **keys: Any) -> str:
    properties = {
        "FileSystemType": "LUSTRE",
        "FileSystemTypeVersion": "2.15",
        "StorageCapacity": 4800,
        "SubnetIds": [network["subnet_id"]],
        "SecurityGroupIds": [network["efa"]],
        **lustre(**keys),
        "Tags": [{"Key": tag, "Value": "1"}],
    }
    system = {"Type": "AWS::FSx::FileSystem", "UpdateReplacePolicy": "Retain", "Properties": properties}
    return json.dumps({"Resources": {"Lustre": system}})


def test_a_stack_changes_in_place_what_fsx_changes_and_replaces_the_rest(control_plane: Any, network: Network) -> None:
    cloudformation, fsx = control_plane.client("cloudformation"), control_plane.client("fsx")

    def systems() -> dict[str, Any]:
        return {system["FileSystemId"]: system for system in fsx.describe_file_systems()["FileSystems"]}

    def update(name: str, body: str) -> list[str]:
        changes = cloudformation.create_change_set(StackName="Lustre", ChangeSetName=name, TemplateBody=body)
        found = cloudformation.describe_change_set(ChangeSetName=changes["Id"])["Changes"]
        cloudformation.execute_change_set(ChangeSetName=changes["Id"])
        cloudformation.get_waiter("stack_update_complete").wait(StackName="Lustre", WaiterConfig={"Delay": 1})
        return [change["ResourceChange"]["Replacement"] for change in found]

    cloudformation.create_stack(StackName="Lustre", TemplateBody=_template(network, "old"))
    cloudformation.get_waiter("stack_create_complete").wait(StackName="Lustre", WaiterConfig={"Delay": 1})
    (first,) = systems()
    assert update("tier", _template(network, "new", PerUnitStorageThroughput=1000)) == ["False"]
    (changed,) = systems().values()
    assert changed["FileSystemId"] == first
    assert changed["LustreConfiguration"]["PerUnitStorageThroughput"] == 1000
    assert {tag["Key"] for tag in changed["Tags"] if not tag["Key"].startswith("aws:")} == {"new"}
    assert update("efa", _template(network, "new", PerUnitStorageThroughput=1000, EfaEnabled=True)) == ["True"]
    assert len(systems()) == 2 and first in systems(), "the old one is kept"
    cloudformation.delete_stack(StackName="Lustre")
    cloudformation.get_waiter("stack_delete_complete").wait(StackName="Lustre", WaiterConfig={"Delay": 1})
    assert list(systems()) == [first]
    fsx.delete_file_system(FileSystemId=first)


def test_clients_find_volumes_of_openzfs_and_ontap_by_name_and_path(control_plane: Any, network: Network) -> None:
    fsx = control_plane.client("fsx")
    place = {"StorageCapacity": 1024, "SubnetIds": [network["subnet_id"]], "SecurityGroupIds": [network["lustre"]]}
    zfs = {"DeploymentType": "SINGLE_AZ_1", "ThroughputCapacity": 64}
    made = fsx.create_file_system(FileSystemType="OPENZFS", OpenZFSConfiguration=zfs, **place)["FileSystem"]
    parent = {"ParentVolumeId": made["OpenZFSConfiguration"]["RootVolumeId"]}
    volume = fsx.create_volume(VolumeType="OPENZFS", Name="home", OpenZFSConfiguration=parent)["Volume"]
    (found,) = fsx.describe_volumes(VolumeIds=[volume["VolumeId"]])["Volumes"]
    assert found["OpenZFSConfiguration"]["VolumePath"] == "/fsx/home"
    (system,) = fsx.describe_file_systems(FileSystemIds=[found["FileSystemId"]])["FileSystems"]
    assert (system["Lifecycle"], system["VpcId"]) == ("AVAILABLE", network["vpc_id"])

    ontap = {"DeploymentType": "SINGLE_AZ_1", "ThroughputCapacity": 128}
    other = fsx.create_file_system(FileSystemType="ONTAP", OntapConfiguration=ontap, **place)["FileSystem"]
    machine = fsx.create_storage_virtual_machine(FileSystemId=other["FileSystemId"], Name="svm")[
        "StorageVirtualMachine"
    ]
    settings = {"StorageVirtualMachineId": machine["StorageVirtualMachineId"], "JunctionPath": "/vol1"}
    kept = fsx.create_volume(VolumeType="ONTAP", Name="vol1", OntapConfiguration=settings)["Volume"]
    assert (kept["Lifecycle"], kept["OntapConfiguration"]["JunctionPath"]) == ("CREATED", "/vol1")
    (shown,) = fsx.describe_storage_virtual_machines()["StorageVirtualMachines"]
    name = f"{machine['StorageVirtualMachineId']}.{other['FileSystemId']}."
    assert shown["Endpoints"]["Nfs"]["DNSName"].startswith(name)
    with pytest.raises(ClientError) as gone:
        fsx.describe_volumes(VolumeIds=["fsvol-0123456789abcdef0"])
    assert gone.value.response["Error"]["Code"] == "VolumeNotFound"
    for each in (made, other):
        fsx.delete_file_system(FileSystemId=each["FileSystemId"])
