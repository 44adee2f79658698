"""Does AWS publish a Lustre client for the kernel that the images boot?"""

from __future__ import annotations

import re
from collections.abc import Iterator

from gpucluster.config.checks.online.account import Account, Refused
from gpucluster.config.checks.online.images import DESCRIBE, PUBLIC_PARAMETERS, amis_of, describe_image
from gpucluster.config.document import Finding, Path
from gpucluster.config.models import ClusterConfig, FsxLustre
from gpucluster.config.validators import Findings, validator

KERNELS = "Kernels (asks AWS)"

RELEASES = (("00000000", "6.8"), ("20251201", "6.14"), ("20260401", "6.17"), ("20260911", "7.0"))
"""From which date in its name on the Deep Learning AMI of Ubuntu 24.04 has which kernel.

Read in the release notes (docs.aws.amazon.com/dlami/latest/devguide/appendix-ami-release-notes.html) on 2026-11-22:
6.14.0-1017 in December 2025, 6.17.0-1012 to 6.17.0-1019 from April to July 2026, 7.0.0-1012 in the middle of September.
"""
INDEX = {"Bucket": "fsx-lustre-client-repo", "Key": "ubuntu/dists/noble/main/binary-amd64/Packages"}
"""The list of packages of AWS's repository of Lustre clients for Ubuntu 24.04, from which nodes install."""

PUBLISHED = frozenset({"6.8", "6.14", "6.17"})
"""Series that the list was seen to hold in 2026, for where it cannot be read: aws-samples' and users' logs of
`apt install lustre-client-modules-…`. Nothing public shows a client for 7.0 by 2026-11-22."""

_DATED = re.compile(r"Deep Learning .*\(Ubuntu 24\.04\) (\d{8})$")
_MODULES = re.compile(r"^Package: lustre-client-modules-(\d+\.\d+)\.\d+-\d+-aws$", re.MULTILINE)


@validator(
    "lustre-client-kernel",
    section=KERNELS,
    each=ClusterConfig,
    needs="aws",
    source="https://docs.aws.amazon.com/fsx/latest/LustreGuide/install-lustre-client.html: "
    f"lustre-client-modules-$(uname -r); {DESCRIBE}: Name",
)
def lustre_client_kernel(config: ClusterConfig, account: Account) -> Findings:
    """With FSx for Lustre, AWS publishes a client for the kernel of each Deep Learning AMI that nodes boot."""
    if not any(isinstance(storage, FsxLustre) for storage in config.storage):
        return
    booted = list(_kernels(config, account))
    published = _published(account) if booted else frozenset()
    for path, image, kernel in booted:
        if kernel not in published:
            yield Finding(
                path,
                f"{image} boots kernel {kernel}, for which AWS publishes no Lustre client",
                "name the AMI of an earlier release, with a kernel of " + ", ".join(sorted(published)) + ": "
                'aws ec2 describe-images --owners amazon --filters "Name=name,Values=Deep Learning Base OSS Nvidia '
                'Driver GPU AMI (Ubuntu 24.04) 202607*"',
            )


def _kernels(config: ClusterConfig, account: Account) -> Iterator[tuple[Path, str, str]]:
    """Where the file names it, the image's name at AWS, its kernel's series. Images of other names are left out."""
    for path, image in amis_of(config):
        if image in PUBLIC_PARAMETERS:
            image = account.ask("ssm", "get_parameter", Name=PUBLIC_PARAMETERS[image])["Parameter"]["Value"]
        name = (describe_image(account, image) or {}).get("Name", "")
        dated = _DATED.search(name)
        if dated:
            yield path, name, [series for since, series in RELEASES if since <= dated[1]][-1]


def _published(account: Account) -> frozenset[str]:
    """Series of kernels, such as 6.17."""
    try:
        body = account.ask("s3", "get_object", **INDEX)["Body"]
    except Refused:
        return PUBLISHED
    text = body if isinstance(body, bytes) else body.read()
    return frozenset(_MODULES.findall(text.decode())) or PUBLISHED
