"""Checks whether AWS publishes a Lustre client for the images' kernel."""

from __future__ import annotations

import re
from collections.abc import Iterator

from gpucluster.config.checks.online.account import Account, deployed
from gpucluster.config.checks.online.images import DESCRIBE, PUBLIC_PARAMETERS, images_of
from gpucluster.config.checks.online.things import IMAGE
from gpucluster.config.document import Finding, Path
from gpucluster.config.models import ClusterConfig
from gpucluster.config.validators import Findings, Validators

validator = Validators("Kernels (asks AWS)", needs="aws")

RELEASES = (("00000000", "6.8"), ("20251201", "6.14"), ("20260401", "6.17"), ("20260911", "7.0"))
"""The kernel of the Deep Learning AMI of Ubuntu 24.04, from the date in the AMI's name on.

Read in the release notes (docs.aws.amazon.com/dlami/latest/devguide/appendix-ami-release-notes.html) on 2026-11-22:
6.14.0-1017 in December 2025, 6.17.0-1012 to 6.17.0-1019 from April to July 2026, 7.0.0-1012 in the middle of September.
"""
INDEX = {"Bucket": "fsx-lustre-client-repo", "Key": "ubuntu/dists/noble/main/binary-amd64/Packages"}
"""The list of packages of AWS's repository of Lustre clients for Ubuntu 24.04, from which nodes install."""

_OLDER = (
    "name the AMI of an earlier release, with kernel 6.17: aws ec2 describe-images --owners amazon --filters "
    '"Name=name,Values=Deep Learning Base OSS Nvidia Driver GPU AMI (Ubuntu 24.04) 202607*"'
)

_DATED = re.compile(r"Deep Learning .*\(Ubuntu 24\.04\) (\d{8})$")
_MODULES = re.compile(r"^Package: lustre-client-modules-(\d+\.\d+)\.\d+-\d+-aws$", re.MULTILINE)


@validator(
    "lustre-client-kernel",
    "https://docs.aws.amazon.com/fsx/latest/LustreGuide/install-lustre-client.html: "
    f"lustre-client-modules-$(uname -r); {DESCRIBE}: Name",
)
def lustre_client_kernel(config: ClusterConfig, account: Account) -> Findings:
    """With FSx for Lustre, AWS publishes a client for the kernel of each Deep Learning AMI that nodes boot."""
    booted = list(_kernels(config, account))
    published = _published(account) if booted else frozenset()
    for path, image, kernel in booted:
        if kernel not in published:
            yield Finding(path, f"{image} boots kernel {kernel}, for which AWS publishes no Lustre client", _OLDER)


def _kernels(config: ClusterConfig, account: Account) -> Iterator[tuple[Path, str, str]]:
    """Path in the file, AWS's name of the image, its kernel series. Images with other names are skipped.

    So is the newest image if the cluster is already deployed: its nodes boot the image that was pinned then.
    """
    if not any("fsx" in each.clients for each in config.storage):
        return
    for path, image in images_of(config):
        if image in PUBLIC_PARAMETERS:
            if deployed(account, config):
                continue
            image = account.ask("ssm", "get_parameter", Name=PUBLIC_PARAMETERS[image])["Parameter"]["Value"]
        name = (IMAGE.look_up(account, image) or {}).get("Name", "")
        dated = _DATED.search(name)
        if dated:
            yield path, name, [series for since, series in RELEASES if since <= dated[1]][-1]


def _published(account: Account) -> frozenset[str]:
    """Kernel series, such as 6.17. Raises Refused if the list cannot be read."""
    answer = account.ask("s3", "get_object", **INDEX)
    if not isinstance(answer["Body"], bytes):
        answer["Body"] = answer["Body"].read()  # a stream can be read only once, but the response is reused
    return frozenset(_MODULES.findall(answer["Body"].decode()))
