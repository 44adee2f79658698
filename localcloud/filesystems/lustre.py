"""FSx's rules for Lustre file systems, with its error codes. The values are those of the FSx API reference."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from moto.core.exceptions import JsonRESTError

Request = Mapping[str, Any]

DEPLOYMENT_TYPES = ("SCRATCH_1", "SCRATCH_2", "PERSISTENT_1", "PERSISTENT_2")
VERSIONS = ("2.10", "2.12", "2.15")
TIERS = {
    ("PERSISTENT_1", "SSD"): (50, 100, 200),
    ("PERSISTENT_1", "HDD"): (12, 40),
    ("PERSISTENT_2", "SSD"): (125, 250, 500, 1000),
}
"""MB/s for each TiB."""
EFA_STEP_GIB = {125: 38400, 250: 19200, 500: 9600, 1000: 4800}
HDD_STEP_GIB = {12: 6000, 40: 1800}
LOG_LEVELS = ("DISABLED", "WARN_ONLY", "ERROR_ONLY", "WARN_ERROR")
COMPRESSIONS = ("NONE", "LZ4")

CHANGEABLE = {
    "AutoImportPolicy",
    "AutomaticBackupRetentionDays",
    "DailyAutomaticBackupStartTime",
    "DataCompressionType",
    "DataReadCacheConfiguration",
    "LogConfiguration",
    "MetadataConfiguration",
    "PerUnitStorageThroughput",
    "RootSquashConfiguration",
    "ThroughputCapacity",
    "WeeklyMaintenanceStartTime",
}
"""Members of LustreConfiguration that UpdateFileSystem can change; all others are fixed at creation."""

Refusal = tuple[str, str]
"""An error's code and text."""


def refused(message: str, code: str = "BadRequest") -> JsonRESTError:
    return JsonRESTError(code, message)


def check_create(request: Request) -> None:
    """Raises CreateFileSystem's error for invalid parameters."""
    lustre = request.get("LustreConfiguration") or {}
    deployment = lustre.get("DeploymentType", "SCRATCH_1")
    if deployment not in DEPLOYMENT_TYPES:
        raise refused(f"DeploymentType {deployment} is not one of {', '.join(DEPLOYMENT_TYPES)}")
    for rule in (_kind, _version, _throughput, _capacity, _metadata, _efa, _persistent_only, _values):
        for code, message in rule(request, lustre, deployment):
            raise refused(message, code)


def check_update(system: Request, request: Request) -> None:
    """`system` as DescribeFileSystems shows it."""
    lustre, held = request.get("LustreConfiguration") or {}, system["LustreConfiguration"]
    if not set(request) - {"FileSystemId", "ClientRequestToken"} or lustre == {} == request.get("LustreConfiguration"):
        raise refused("No updates were provided")
    fixed = sorted(set(lustre) - CHANGEABLE)
    if fixed:
        raise refused(f"{', '.join(fixed)} cannot be updated")
    capacity = request.get("StorageCapacity")
    if capacity is not None:
        _check_growth(system, int(capacity))
    wanted = dict(held) | {name: lustre[name] for name in lustre}
    others = {name: request[name] for name in request if name.endswith("Configuration")}
    changed = {
        **others,
        **system,
        "StorageCapacity": capacity or system["StorageCapacity"],
        "LustreConfiguration": wanted,
    }
    check_create({name: value for name, value in changed.items() if name != "KmsKeyId" or not _scratch(held)})
    _check_metadata_growth(held.get("MetadataConfiguration") or {}, lustre.get("MetadataConfiguration") or {})


def _check_growth(system: Request, capacity: int) -> None:
    """https://docs.aws.amazon.com/fsx/latest/LustreGuide/increase-storage-capacity.html"""
    if system["LustreConfiguration"]["DeploymentType"] == "SCRATCH_1":
        raise refused("The storage capacity of SCRATCH_1 file systems cannot be increased")
    if capacity <= system["StorageCapacity"]:
        raise refused(f"StorageCapacity must be more than the current {system['StorageCapacity']} GiB, got {capacity}")


def _check_metadata_growth(held: Request, wanted: Request) -> None:
    if wanted and not held:
        raise refused("MetadataConfiguration can be updated only where the file system was made with one")
    if wanted.get("Iops", 0) < held.get("Iops", 0):
        raise refused(f"Metadata IOPS cannot be decreased from {held['Iops']} to {wanted.get('Iops', 0)}")


def _scratch(lustre: Request) -> bool:
    return str(lustre.get("DeploymentType", "SCRATCH_1")).startswith("SCRATCH")


def _kind(request: Request, lustre: Request, deployment: str) -> Iterator[Refusal]:
    storage_type = request.get("StorageType", "SSD")
    if storage_type not in ("SSD", "HDD", "INTELLIGENT_TIERING"):
        yield "BadRequest", f"StorageType {storage_type} is not one of SSD, HDD, INTELLIGENT_TIERING"
    if storage_type == "HDD" and (deployment != "PERSISTENT_1" or not lustre.get("DriveCacheType")):
        yield "BadRequest", "HDD storage needs DeploymentType PERSISTENT_1 and a DriveCacheType"
    for other in ("WindowsConfiguration", "OntapConfiguration", "OpenZFSConfiguration"):
        if request.get(other) is not None:
            yield "BadRequest", f"{other} is not supported for Lustre file systems"
    if len(request.get("SubnetIds") or []) != 1:
        yield "InvalidNetworkSettings", "A Lustre file system is in exactly one subnet"


def _version(request: Request, lustre: Request, deployment: str) -> Iterator[Refusal]:
    version = request.get("FileSystemTypeVersion")
    if version is None:
        return
    if version not in VERSIONS:
        yield "BadRequest", f"FileSystemTypeVersion {version} is not one of {', '.join(VERSIONS)}"
    if version == "2.10" and deployment == "PERSISTENT_2":
        yield "BadRequest", "FileSystemTypeVersion 2.10 is not supported for PERSISTENT_2 file systems"
    if version == "2.12" and lustre.get("MetadataConfiguration"):
        yield "BadRequest", "FileSystemTypeVersion 2.12 is not supported with a MetadataConfiguration"


def _throughput(request: Request, lustre: Request, deployment: str) -> Iterator[Refusal]:
    got, storage_type = lustre.get("PerUnitStorageThroughput"), request.get("StorageType", "SSD")
    tiers = TIERS.get((deployment, storage_type), ())
    if not tiers and got is not None:
        yield "BadRequest", f"PerUnitStorageThroughput is not supported for {deployment} with {storage_type} storage"
    if tiers and got is None:
        yield "BadRequest", f"PerUnitStorageThroughput is required for {deployment} file systems"
    if tiers and got not in tiers:
        allowed = ", ".join(map(str, tiers))
        yield "InvalidPerUnitStorageThroughput", f"PerUnitStorageThroughput must be one of {allowed}, got {got}"


def _capacity(request: Request, lustre: Request, deployment: str) -> Iterator[Refusal]:
    got, storage_type = request.get("StorageCapacity"), request.get("StorageType", "SSD")
    if storage_type == "INTELLIGENT_TIERING":
        return
    if got is None:
        yield "BadRequest", "StorageCapacity is required"
        return
    step = HDD_STEP_GIB[lustre["PerUnitStorageThroughput"]] if storage_type == "HDD" else _step(deployment)
    small = () if storage_type == "HDD" else (1200, 2400)
    if got not in small and (got <= 0 or got % step):
        first = "".join(f"{size}, " for size in small)
        yield "BadRequest", f"StorageCapacity must be {first}or a multiple of {step} GiB for {deployment}, got {got}"


def _step(deployment: str) -> int:
    return 3600 if deployment == "SCRATCH_1" else 2400


def _metadata(request: Request, lustre: Request, deployment: str) -> Iterator[Refusal]:
    metadata = lustre.get("MetadataConfiguration")
    if metadata is None:
        return
    mode, iops = metadata.get("Mode"), metadata.get("Iops")
    if deployment != "PERSISTENT_2":
        yield "BadRequest", f"MetadataConfiguration is not supported for {deployment} file systems"
    if mode not in ("AUTOMATIC", "USER_PROVISIONED"):
        yield "BadRequest", f"Metadata mode {mode} is not one of AUTOMATIC, USER_PROVISIONED"
    if mode == "AUTOMATIC" and iops is not None:
        yield "BadRequest", "Metadata IOPS cannot be specified in AUTOMATIC mode"
    if mode == "USER_PROVISIONED" and not (iops in (1500, 3000, 6000) or _multiple(iops, 12000, 192000)):
        yield "BadRequest", f"Metadata IOPS must be 1500, 3000, 6000 or a multiple of 12000 up to 192000, got {iops}"


def _multiple(value: int | None, step: int, most: int) -> bool:
    return value is not None and 0 < value <= most and value % step == 0


def _efa(request: Request, lustre: Request, deployment: str) -> Iterator[Refusal]:
    if not lustre.get("EfaEnabled"):
        return
    if deployment != "PERSISTENT_2" or not lustre.get("MetadataConfiguration"):
        yield "BadRequest", "EFA-enabled file systems need DeploymentType PERSISTENT_2 and a MetadataConfiguration"
    step = EFA_STEP_GIB.get(lustre.get("PerUnitStorageThroughput", 0))
    if step and request.get("StorageCapacity", 0) % step:
        yield (
            "BadRequest",
            f"StorageCapacity of an EFA-enabled file system must be a multiple of {step} GiB "
            f"at {lustre['PerUnitStorageThroughput']} MB/s/TiB, got {request.get('StorageCapacity')}",
        )


def _persistent_only(request: Request, lustre: Request, deployment: str) -> Iterator[Refusal]:
    if not deployment.startswith("SCRATCH"):
        return
    if request.get("KmsKeyId"):
        yield "BadRequest", f"KmsKeyId is not supported for {deployment} file systems"
    if lustre.get("AutomaticBackupRetentionDays") is not None:
        yield "BadRequest", f"Automatic backups are not supported for {deployment} file systems"


def _bucket(uri: str) -> str:
    return uri.removeprefix("s3://").partition("/")[0] if uri.startswith("s3://") else ""


def _values(request: Request, lustre: Request, deployment: str) -> Iterator[Refusal]:
    compression = lustre.get("DataCompressionType", "NONE")
    if compression not in COMPRESSIONS:
        yield "BadRequest", f"DataCompressionType {compression} is not one of {', '.join(COMPRESSIONS)}"
    days = lustre.get("AutomaticBackupRetentionDays") or 0
    if not 0 <= days <= 90:
        yield "BadRequest", f"AutomaticBackupRetentionDays must be between 0 and 90, got {days}"
    if deployment == "PERSISTENT_2":
        for name in ("ImportPath", "ExportPath", "ImportedFileChunkSize", "AutoImportPolicy"):
            if lustre.get(name) is not None:
                yield "BadRequest", f"{name} is not supported for PERSISTENT_2 file systems"
    for name in ("AutoImportPolicy", "ImportedFileChunkSize"):
        if lustre.get(name) not in (None, "NONE") and not lustre.get("ImportPath") and deployment != "PERSISTENT_2":
            yield "BadRequest", f"{name} needs an ImportPath"
    for name in ("ImportPath", "ExportPath"):
        if lustre.get(name) is not None and not _bucket(lustre[name]):
            yield f"Invalid{name}", f"{name} must be s3://bucket or s3://bucket/prefix, got {lustre[name]}"
    if lustre.get("ExportPath") and _bucket(lustre["ExportPath"]) != _bucket(lustre.get("ImportPath") or "s3://"):
        yield "InvalidExportPath", "The ExportPath must be in the bucket of the ImportPath"
    if lustre.get("ExportPath") and not lustre.get("ImportPath"):
        yield "InvalidExportPath", "ExportPath needs an ImportPath"
    log = lustre.get("LogConfiguration") or {"Level": "DISABLED"}
    if log.get("Level") not in LOG_LEVELS:
        yield "BadRequest", f"Log level {log.get('Level')} is not one of {', '.join(LOG_LEVELS)}"
    destination = log.get("Destination")
    if destination and ":log-group:/aws/fsx/" not in destination:
        yield "BadRequest", f"The name of the log group must begin with /aws/fsx/, got {destination}"
