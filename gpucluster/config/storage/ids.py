"""The ids of volumes and file systems that exist already."""

from typing import Annotated

from gpucluster.config.fields import EC2_IDS
from gpucluster.config.value_checks import form

EbsVolumeId = Annotated[
    str,
    form(
        "ebs-volume-id-form",
        "Volumes",
        "volume_id",
        r"vol-([0-9a-f]{8}|[0-9a-f]{17})",
        "the id of an EBS volume (vol-…)",
        EC2_IDS,
    ),
]
FileSystemId = Annotated[
    str,
    form(
        "file-system-id-form",
        "Mounts",
        "file_system_id",
        r"fs-[0-9a-f]{8,40}",
        "the id of a file system on FSx or EFS (fs-…)",
        "https://docs.aws.amazon.com/efs/latest/ug/API_DescribeFileSystems.html: FileSystemId; "
        "https://docs.aws.amazon.com/fsx/latest/APIReference/API_FileSystem.html: FileSystemId",
    ),
]
FsxVolumeId = Annotated[
    str,
    form(
        "fsx-volume-id-form",
        "Mounts",
        "volume_id",
        r"fsvol-[0-9a-f]{17}",
        "the id of a volume on FSx for OpenZFS or ONTAP (fsvol-…)",
        "https://docs.aws.amazon.com/fsx/latest/APIReference/API_Volume.html: VolumeId",
    ),
]
AccessPointId = Annotated[
    str,
    form(
        "access-point-id-form",
        "Mounts",
        "access_point_id",
        r"fsap-[0-9a-f]{8,40}",
        "the id of an access point of EFS (fsap-…)",
        "https://docs.aws.amazon.com/efs/latest/ug/API_AccessPointDescription.html: AccessPointId",
    ),
]
