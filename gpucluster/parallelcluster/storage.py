"""SharedStorage, and the /home that ParallelCluster makes."""

from __future__ import annotations

from typing import Any

from gpucluster.parallelcluster.conversion import Conversion, item
from gpucluster.parallelcluster.lines import Item, entry
from gpucluster.parallelcluster.reading import Node

EBS_GIB = 40
"""pcluster/constants.py of 3.16.1: EBS_VOLUME_SIZE_DEFAULT; the guide says 35 of earlier releases."""
DEPLOYMENT = "SCRATCH_2"
"""pcluster/config/cluster_config.py of 3.16.1: SharedFsxLustre."""
_LUSTRE_STEPS = {"scratch-1": 3600}
_IMPORTS = {"NEW": ["new"], "NEW_CHANGED": ["new", "changed"], "NEW_CHANGED_DELETED": ["new", "changed", "deleted"]}
"""AutoImportPolicy: https://docs.aws.amazon.com/fsx/latest/APIReference/API_CreateFileSystemLustreConfiguration.html."""
_EXISTING = {
    "Efs": ("EfsSettings", "FileSystemId", "efs", "file_system_id"),
    "FsxLustre": ("FsxLustreSettings", "FileSystemId", "fsx-lustre", "file_system_id"),
    "FsxOpenZfs": ("FsxOpenZfsSettings", "VolumeId", "fsx-openzfs", "volume_id"),
    "FsxOntap": ("FsxOntapSettings", "VolumeId", "fsx-ontap", "volume_id"),
}
HOME = "/home"


def storage(conversion: Conversion) -> Item | None:
    entries = [_mounted(node, conversion) for node in conversion.file.sections("SharedStorage")]
    made = [each for each in entries if each]
    head = conversion.file.section("HeadNode")
    kind = head.text("SharedStorageType")
    if not any(mount_of(each) == HOME and each.in_force for each in made):
        if kind == "Efs" or any(mount_of(each) == HOME for each in made):
            made.insert(0, _home_on_efs(head, kind))
    else:
        head.leave("SharedStorageType", "/home is on a file system of its own", "unneeded")
    if kind == "Ebs":
        head.leave("SharedStorageType", "the default here, too", "unneeded")
    return Item("storage", made) if made else None


def mount_of(made: Item) -> str:
    return next((str(each.value) for each in made.below if each.key == "mount"), "")


def mounts(made: Item | None) -> set[str]:
    return {mount_of(each) for each in made.below if each.in_force} if made else set()


def _home_on_efs(head: Node, kind: str) -> Item:
    said = item("mount", HOME, head, *(["SharedStorageType"] if kind else []), needed=True)
    return entry(
        said, Item("type", "efs", needed=True), Item("on_delete", "retain", "kept when the cluster is deleted")
    )


def _mounted(node: Node, conversion: Conversion) -> Item | None:
    mount = "/" + node.text("MountDir").strip("/")
    kind = node.text("StorageType")
    first = item("mount", mount, node, "MountDir", needed=True)
    if kind in _EXISTING:
        section, key, ours, ours_key = _EXISTING[kind]
        if own := node.section(section).text(key):
            conversion.needs_vpc.append(f"storage: {own}")
            existing = [first, item("type", ours, node, "StorageType", needed=True)]
            existing.append(item(ours_key, own, node, f"{section}.{key}", needed=True))
            if point := node.section(section).text("AccessPointId"):
                existing.append(item("access_point_id", point, node, f"{section}.AccessPointId", needed=True))
            return entry(*existing)
    new = {"Ebs": _ebs, "Efs": _efs, "FsxLustre": _lustre}.get(kind)
    if new is None:
        for key in ("MountDir", "StorageType"):
            node.leave(key, f"nodes cannot mount {kind or 'storage without a type'}")
        conversion.check(f"{mount} is missing: nodes cannot mount {kind or 'storage without a type'}")
        return None
    return new(node, first, conversion)


def _ebs(node: Node, first: Item, conversion: Conversion) -> Item:
    disk = node.section("EbsSettings")
    volume = disk.text("VolumeId")
    items = [first, item("type", "ebs", node, "StorageType", needed=True)]
    if volume:
        conversion.needs_vpc.append(f"storage: {volume}")
        items.append(item("volume_id", volume, disk, "VolumeId", needed=True))
        return entry(*items)
    items += [_size(disk), *_plain(disk, volume_type="VolumeType", iops="Iops", throughput_mibps="Throughput")]
    items += _plain(disk, snapshot_id="SnapshotId")
    _key(disk, conversion)
    return entry(*items, _on_delete(disk, "EbsSettings"))


def _size(disk: Node) -> Item:
    raid = disk.section("Raid")
    size = disk.number("Size")
    if raid:
        level, count = raid.number("Type", 0), raid.number("NumberOfVolumes", 2) or 2
        whole = (size or EBS_GIB) * (1 if level == 1 else count)
        return item(
            "gib", whole, disk, "Raid", "Size", words=f"RAID {level} of {count} volumes: one volume of that capacity"
        )
    if size is None:
        said = "the snapshot's size" if "SnapshotId" in disk.data else "no Size: ParallelCluster's default"
        return Item("gib", None if "SnapshotId" in disk.data else EBS_GIB, said)
    return item("gib", size, disk, "Size")


def _plain(node: Node, **keys: str) -> list[Item]:
    """Keys whose text or number goes over as it is. `keys`: ours -> theirs."""
    made = []
    for ours, theirs in keys.items():
        value = node.number(theirs) if isinstance(node.data.get(theirs), (int, float)) else node.text(theirs)
        if value not in (None, ""):
            made.append(item(ours, value, node, theirs))
    return made


def _on_delete(settings: Node, section: str) -> Item:
    policy = settings.text("DeletionPolicy").lower()
    if not policy:
        return Item("on_delete", "delete", "ParallelCluster deletes it with the cluster; retain keeps it")
    return item("on_delete", policy, settings, "DeletionPolicy")


def _key(settings: Node, conversion: Conversion) -> None:
    key = settings.text("KmsKeyId")
    if ":key/" in key:
        conversion.keys.append(key)
    elif key:
        settings.leave("KmsKeyId", "write the key's ARN into security.kms_key_arn: an id or alias is not enough")


def _efs(node: Node, first: Item, conversion: Conversion) -> Item:
    settings = node.section("EfsSettings")
    _key(settings, conversion)
    return entry(first, item("type", "efs", node, "StorageType", needed=True), _on_delete(settings, "EfsSettings"))


def _lustre(node: Node, first: Item, conversion: Conversion) -> Item:
    settings = node.section("FsxLustreSettings")
    deployment = settings.text("DeploymentType", DEPLOYMENT).lower().replace("_", "-")
    made = entry(
        first,
        item("type", "fsx-lustre", node, "StorageType", needed=True),
        item("deployment", deployment, settings, "DeploymentType"),
        _capacity(settings, deployment, conversion),
        *_plain(settings, throughput_mbps_per_tib="PerUnitStorageThroughput"),
        *(
            [item("compression", "lz4", settings, "DataCompressionType")]
            if settings.text("DataCompressionType") == "LZ4"
            else []
        ),
        *_plain(settings, backup_days="AutomaticBackupRetentionDays"),
        _repositories(settings),
        _on_delete(settings, "FsxLustreSettings"),
    )
    _key(settings, conversion)
    if str(first.value) == HOME:
        made.off = (
            "/home cannot be on a new Lustre file system: nodes mount /home before they can install Lustre's client. "
            "Here it is on EFS. To have Lustre as well, mount it elsewhere, such as at /fsx"
        )
        conversion.check("/home is on EFS, not on FSx for Lustre: the Lustre file system is a comment")
    return made


def _capacity(settings: Node, deployment: str, conversion: Conversion) -> Item | None:
    asked = settings.number("StorageCapacity")
    if asked is None:
        return None
    step = _LUSTRE_STEPS.get(deployment, 2400)
    fits = next(size for size in (1200, 2400, -(-asked // step) * step) if size >= asked)
    if fits != asked:
        conversion.check(f"capacity_gib of Lustre is {fits}: FSx has no file system of {asked} GiB")
    return item("capacity_gib", fits, settings, "StorageCapacity")


def _repositories(settings: Node) -> Item | None:
    links = [_link(each) for each in settings.sections("DataRepositoryAssociations")]
    if links:
        return item("data_repositories", links, settings, "DataRepositoryAssociations")
    source, target = settings.text("ImportPath"), settings.text("ExportPath")
    if not source:
        return None
    link: dict[str, Any] = {"path": "/", "s3": source.rstrip("/")}
    if policy := _IMPORTS.get(settings.text("AutoImportPolicy")):
        link["import"] = policy
    sources = [key for key in ("ImportPath", "AutoImportPolicy") if key in settings.data]
    if target and target.rstrip("/") == source.rstrip("/"):
        link["export"] = ["new", "changed"]
        sources.append("ExportPath")
    elif target:
        settings.leave(
            "ExportPath", f"{target} is another prefix than ImportPath: link it to a folder in data_repositories"
        )
    return item("data_repositories", [link], settings, *sources)


def _link(node: Node) -> dict[str, Any]:
    link: dict[str, Any] = {"path": node.text("FileSystemPath", "/"), "s3": node.text("DataRepositoryPath").rstrip("/")}
    for ours, theirs in (("import", "AutoImportPolicy"), ("export", "AutoExportPolicy")):
        if events := [each.lower() for each in node.texts(theirs)]:
            link[ours] = events
    return link
