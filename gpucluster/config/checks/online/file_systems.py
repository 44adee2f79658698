"""Checks whether nodes can mount the file systems that exist already."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

from gpucluster.config.checks.online.account import Account, Answer, Refused, zone
from gpucluster.config.checks.online.admitted import not_admitted
from gpucluster.config.checks.online.things import ACCESS_POINT, EFS, FSX, FSX_VOLUME, SUBNET
from gpucluster.config.document import Finding, Path
from gpucluster.config.models import ClusterConfig
from gpucluster.config.storage import Existing, ExistingEfs, ExistingLustre, Ontap, OpenZfs
from gpucluster.config.validators import Findings, Validators

validator = Validators("File systems that exist (ask AWS)", needs="aws")

FSX_API = "https://docs.aws.amazon.com/fsx/latest/APIReference/API_FileSystem.html"
EFS_API = "https://docs.aws.amazon.com/efs/latest/ug/API_FileSystemDescription.html"
MATRIX = "https://docs.aws.amazon.com/fsx/latest/LustreGuide/lustre-client-matrix.html"
TARGETS = "https://docs.aws.amazon.com/efs/latest/ug/mounting-fs-mount-cmd-dns-name.html: the zone of the instance"
USABLE = ("AVAILABLE", "UPDATING")
VOLUME_USABLE = ("AVAILABLE", "CREATED")
"""FSx's API reference, Volume: Lifecycle. OpenZFS has the first, ONTAP the second."""
ALWAYS_MET = ("elasticfilesystem:AccessedViaMountTarget", "aws:SecureTransport")
BY_ACCESS_POINT = "elasticfilesystem:AccessPointArn"
LUSTRE_PORT, NFS_PORT = 988, 2049
"""A client of Lustre connects to 988; AWS ParallelCluster asks for no more (its page "SharedStorage section")."""


@dataclass(frozen=True)
class System:
    """What AWS says of a file system."""

    kind: str
    """FSx's FileSystemType, or EFS."""
    state: str
    vpcs: tuple[str, ...]
    subnets: tuple[str, ...]
    interfaces: tuple[str, ...]
    version: str = ""


def system_of(account: Account, storage: Existing) -> System | None:
    """None if the account does not see it."""
    if isinstance(storage, ExistingEfs):
        found = EFS.look_up(account, storage.file_system_id)
        return _efs(account, storage.file_system_id, found) if found else None
    if isinstance(storage, ExistingLustre):
        return _fsx(FSX.look_up(account, storage.file_system_id))
    volume = FSX_VOLUME.look_up(account, storage.its_id)
    if volume is None:
        return None
    return _of_volume(volume, _fsx(FSX.look_up(account, volume["FileSystemId"])))


def _of_volume(volume: Answer, system: System | None) -> System | None:
    """A volume is where its file system is, and has a state of its own."""
    if system is None or volume["Lifecycle"] in VOLUME_USABLE:
        return system
    return replace(system, state=volume["Lifecycle"])


def _fsx(found: Answer | None) -> System | None:
    if found is None:
        return None
    return System(
        found["FileSystemType"],
        found["Lifecycle"],
        (found["VpcId"],),
        tuple(found["SubnetIds"]),
        tuple(found.get("NetworkInterfaceIds", ())),
        found.get("FileSystemTypeVersion", ""),
    )


def _efs(account: Account, system_id: str, found: Answer) -> System:
    targets = account.ask("efs", "describe_mount_targets", FileSystemId=system_id)["MountTargets"]
    return System(
        "EFS",
        found["LifeCycleState"].upper(),
        tuple(dict.fromkeys(each["VpcId"] for each in targets)),
        tuple(each["SubnetId"] for each in targets),
        tuple(each["NetworkInterfaceId"] for each in targets),
    )


@validator("file-system-exists", "error FileSystemNotFound of FSx and EFS, VolumeNotFound of FSx")
def file_system_exists(storage: Existing, path: Path, config: ClusterConfig, account: Account) -> Findings:
    """The account sees the named file system in the region."""
    if system_of(account, storage) is None:
        service = "efs" if isinstance(storage, ExistingEfs) else "fsx"
        what = "volumes" if storage.id_key == "volume_id" else "file-systems"
        yield Finding(
            (*path, storage.id_key),
            f"the account sees no {storage.its_id} in {config.region}",
            f"aws {service} describe-{what} --region {config.region} lists those that it sees; a file system of "
            "another account or region cannot be named",
        )


@validator("file-system-usable", f"{FSX_API}: Lifecycle; {EFS_API}: LifeCycleState")
def file_system_usable(storage: Existing, path: Path, config: ClusterConfig, account: Account) -> Findings:
    """The file system is available: one that has failed or is being deleted cannot be mounted."""
    found = system_of(account, storage)
    if found and found.state not in USABLE:
        said = f"{storage.its_id} is {found.state.lower().replace('_', ' ')}, and cannot be mounted"
        yield Finding((*path, storage.id_key), said, "wait until it is available, or name another one")


@validator("file-system-is-lustre", f"{FSX_API}: FileSystemType")
def file_system_is_lustre(storage: ExistingLustre, path: Path, config: ClusterConfig, account: Account) -> Findings:
    """The file system of an entry with type: fsx-lustre is one of Lustre."""
    found = system_of(account, storage)
    if found and found.kind != "LUSTRE":
        yield Finding((*path, "file_system_id"), f"{storage.its_id} is of the type {found.kind}", _other(found.kind))


def _other(kind: str) -> str:
    named = {"OPENZFS": "fsx-openzfs", "ONTAP": "fsx-ontap"}.get(kind)
    return f"write type: {named} and volume_id: fsvol-…" if named else "nodes mount LUSTRE, OPENZFS and ONTAP"


@validator("fsx-volume-of-type", "https://docs.aws.amazon.com/fsx/latest/APIReference/API_Volume.html: VolumeType")
def fsx_volume_of_type(storage: OpenZfs | Ontap, path: Path, config: ClusterConfig, account: Account) -> Findings:
    """The volume is one of OpenZFS or ONTAP, as its entry says, and one of ONTAP has a junction path."""
    volume = FSX_VOLUME.look_up(account, storage.volume_id)
    wanted = "OPENZFS" if isinstance(storage, OpenZfs) else "ONTAP"
    if volume and volume["VolumeType"] != wanted:
        said = f"{storage.volume_id} is a volume of {volume['VolumeType']}"
        yield Finding((*path, "volume_id"), said, _other(volume["VolumeType"]))
    elif volume and wanted == "ONTAP" and not volume.get("OntapConfiguration", {}).get("JunctionPath"):
        command = f"aws fsx update-volume --volume-id {storage.volume_id} --ontap-configuration JunctionPath=/…"
        yield Finding((*path, "volume_id"), f"{storage.volume_id} has no junction path: nobody can mount it", command)


@validator(
    "openzfs-home-export",
    "https://docs.aws.amazon.com/fsx/latest/APIReference/API_OpenZFSClientConfiguration.html: Options; man exports.5",
)
def openzfs_home_export(storage: OpenZfs, path: Path, config: ClusterConfig, account: Account) -> Findings:
    """An OpenZFS volume for /home is exported with rw and no_root_squash: root makes the home directories."""
    volume = FSX_VOLUME.look_up(account, storage.volume_id) if storage.mount == "/home" else None
    exports = (volume or {}).get("OpenZFSConfiguration", {}).get("NfsExports", [])
    options = [set(client["Options"]) for export in exports for client in export["ClientConfigurations"]]
    if options and not any({"rw", "no_root_squash"} <= each for each in options):
        yield Finding(
            (*path, "volume_id"),
            f"{storage.volume_id} is exported without rw and no_root_squash, which /home needs",
            f"aws fsx update-volume --volume-id {storage.volume_id} --open-zfs-configuration "
            "'NfsExports=[{ClientConfigurations=[{Clients=*,Options=[rw,crossmnt,no_root_squash]}]}]'",
        )


@validator("file-system-version", f"{MATRIX}: Ubuntu 24, client 2.15: file systems of 2.12 and 2.15")
def file_system_version(storage: ExistingLustre, path: Path, config: ClusterConfig, account: Account) -> Findings:
    """Lustre's version is 2.12 or newer: the client of Ubuntu 24.04 does not mount 2.10."""
    found = system_of(account, storage)
    if found and found.version == "2.10":
        yield Finding(
            (*path, "file_system_id"),
            f"{storage.its_id} has Lustre 2.10, which the client of Ubuntu 24.04 does not mount",
            f"aws fsx update-file-system --file-system-id {storage.its_id} --file-system-type-version 2.15, while "
            "nobody has it mounted",
        )


@validator(
    "file-system-in-vpc",
    "https://docs.aws.amazon.com/fsx/latest/LustreGuide/mounting-ec2-instance.html: the same VPC or a peered one",
    level="warning",
)
def file_system_in_vpc(storage: Existing, path: Path, config: ClusterConfig, account: Account) -> Findings:
    """A file system on FSx is in the nodes' VPC; another VPC needs a route to it and back."""
    found, vpc = system_of(account, storage), config.network.vpc_id
    if vpc and found and found.kind != "EFS" and vpc not in found.vpcs:
        yield Finding(
            (*path, storage.id_key),
            f"{storage.its_id} is in {found.vpcs[0]}, the nodes in {vpc}",
            "connect the two VPCs by peering or a transit gateway, and admit the nodes' addresses in its group",
        )


@validator("efs-has-mount-target", TARGETS)
def efs_has_mount_target(storage: ExistingEfs, path: Path, config: ClusterConfig, account: Account) -> Findings:
    """The EFS file system has a mount target in the cluster's VPC and zone: its name resolves to that one alone."""
    found, vpc, here = system_of(account, storage), config.network.vpc_id, zone(account, config)
    if not found or not vpc:
        return
    if vpc not in found.vpcs:
        where = f"in {found.vpcs[0]}" if found.vpcs else "in no VPC"
        said = f"{storage.file_system_id} has its mount targets {where}, the nodes are in {vpc}"
        yield Finding((*path, "file_system_id"), said, "EFS allows mount targets in one VPC at a time: use that VPC")
    elif here not in _zones(account, found):
        yield Finding(
            (*path, "file_system_id"),
            f"{storage.file_system_id} has no mount target in {here}, where the nodes are",
            f"aws efs create-mount-target --file-system-id {storage.file_system_id} --subnet-id "
            f"{config.network.subnet_id} --security-groups sg-…",
        )


@validator(
    "file-system-zone",
    "https://aws.amazon.com/ec2/pricing/on-demand/: data transfer between Availability Zones",
    level="warning",
)
def file_system_zone(storage: Existing, path: Path, config: ClusterConfig, account: Account) -> Findings:
    """A file system on FSx has a server in the cluster's zone: AWS bills traffic between zones."""
    found, here = system_of(account, storage), zone(account, config)
    if found and found.kind != "EFS" and here not in (there := _zones(account, found)):
        said = f"{storage.its_id} is in {', '.join(there)}, the nodes are in {here}: AWS bills what they read and write"
        yield Finding((*path, storage.id_key), said, f"to avoid that, write availability_zone: {there[0]}")


def _zones(account: Account, found: System) -> list[str]:
    subnets = (SUBNET.look_up(account, each) for each in found.subnets)
    return list(dict.fromkeys(each["AvailabilityZone"] for each in subnets if each))


@validator(
    "file-system-admits-nodes",
    "https://docs.aws.amazon.com/fsx/latest/LustreGuide/limit-access-security-groups.html: TCP 988; "
    "https://docs.aws.amazon.com/efs/latest/ug/network-access.html: TCP 2049",
)
def file_system_admits_nodes(storage: Existing, path: Path, config: ClusterConfig, account: Account) -> Findings:
    """The file system's security group lets the nodes in: TCP 988 for Lustre, 2049 for NFS. The cluster never changes
    the groups of others."""
    found = system_of(account, storage)
    if not found or not found.interfaces:
        return
    port = LUSTRE_PORT if found.kind == "LUSTRE" else NFS_PORT
    closed = not_admitted(account, config, _nearest(account, config, found), port)
    if closed:
        said = f"the security group {closed.group_id} of {storage.its_id} does not admit TCP {port} from {closed.who}"
        also = "; the same for ports 1018-1023, over which Lustre's servers answer" if port == LUSTRE_PORT else ""
        yield Finding((*path, storage.id_key), said, f"{closed.command}{also}")


def _nearest(account: Account, config: ClusterConfig, found: System) -> str:
    """The interface that nodes use: EFS has one for each zone."""
    here = zone(account, config)
    if found.kind == "EFS":
        for subnet, interface in zip(found.subnets, found.interfaces, strict=True):
            if (SUBNET.look_up(account, subnet) or {}).get("AvailabilityZone") == here:
                return interface
    return found.interfaces[0]


@validator(
    "efs-access-point",
    "error AccessPointNotFound of EFS; https://docs.aws.amazon.com/efs/latest/ug/API_AccessPointDescription.html",
)
def efs_access_point(storage: ExistingEfs, path: Path, config: ClusterConfig, account: Account) -> Findings:
    """The access point exists, is available, and is one of the named file system."""
    if storage.access_point_id is None:
        return
    found = ACCESS_POINT.look_up(account, storage.access_point_id)
    lists = f"aws efs describe-access-points --file-system-id {storage.file_system_id}"
    place = (*path, "access_point_id")
    if found is None:
        yield Finding(place, f"the account sees no {storage.access_point_id} in {config.region}", lists)
    elif found["FileSystemId"] != storage.file_system_id:
        yield Finding(place, f"{storage.access_point_id} is of {found['FileSystemId']}", lists)
    elif found["LifeCycleState"] not in ("available", "updating"):
        yield Finding(place, f"{storage.access_point_id} is {found['LifeCycleState']}", lists)


@validator("efs-policy-admits-nodes", "https://docs.aws.amazon.com/efs/latest/ug/iam-access-control-nfs-efs.html")
def efs_policy_admits_nodes(storage: ExistingEfs, path: Path, config: ClusterConfig, account: Account) -> Findings:
    """The EFS file system's policy, if it has one, admits clients without IAM: nodes mount over TLS, without a role."""
    actions = {"Mount", "Write", "RootAccess"} if storage.mount == "/home" else {"Mount"}
    lacks = actions - _granted(account, storage)
    if lacks:
        names = ", ".join(f"elasticfilesystem:Client{each}" for each in sorted(lacks))
        yield Finding(
            (*path, "file_system_id"),
            f"the policy of {storage.file_system_id} does not allow {names} to a client without IAM",
            'add a statement with "Principal": {"AWS": "*"}, and with '
            '"Bool": {"elasticfilesystem:AccessedViaMountTarget": "true"} as its condition',
        )


def _granted(account: Account, storage: ExistingEfs) -> set[str]:
    """What a client without IAM may do. Without a policy: everything."""
    every = {"Mount", "Write", "RootAccess"}
    if system_of(account, storage) is None:
        return every
    try:
        answer = account.ask("efs", "describe_file_system_policy", FileSystemId=storage.file_system_id)
    except Refused as refusal:
        if refusal.code == "PolicyNotFound":
            return every
        raise
    statements, through = json.loads(answer["Policy"])["Statement"], storage.access_point_id is not None
    return {each for each in every for statement in _listed(statements) if _allows(statement, each, through=through)}


def _allows(statement: dict[str, Any], action: str, *, through: bool) -> bool:
    """`through`: the client comes through an access point, which the statement may require."""
    who = statement.get("Principal")
    anybody = who == "*" or (isinstance(who, dict) and "*" in _listed(who.get("AWS")))
    named = {"*", "elasticfilesystem:*", "elasticfilesystem:Client*", f"elasticfilesystem:Client{action}"}
    conditions = {key for each in statement.get("Condition", {}).values() for key in each}
    met = conditions <= {*ALWAYS_MET, *([BY_ACCESS_POINT] if through else [])}
    return statement["Effect"] == "Allow" and anybody and met and bool(named & set(_listed(statement.get("Action"))))


def _listed(value: Any) -> Iterator[Any]:
    yield from value if isinstance(value, list) else [value]
