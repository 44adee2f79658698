"""AWS's images for a job's framework, from images.csv of 2026-11-29.

Sources. Tags of torch and tensorflow: available_images.md of github.com/aws/deep-learning-containers. Tag of smddp:
AWS's release notes of the SMDDP library, whose last framework image is PyTorch 2.3.0. Accounts: sagemaker-core's
image_uri_config/pytorch.json, pytorch-training (github.com/aws/sagemaker-python-sdk, commit 04142370). No source says
that one of them has Horovod or MXNet.
"""

from __future__ import annotations

import csv
from functools import cache
from pathlib import Path

USUAL = "763104351884"
ACCOUNTS = {
    "af-south-1": "626614931356",
    "ap-east-1": "871362719292",
    "ap-east-2": "975050140332",
    "ap-northeast-3": "364406365360",
    "ap-south-2": "772153158452",
    "ap-southeast-3": "907027046896",
    "ap-southeast-4": "457447274322",
    "ap-southeast-5": "550225433462",
    "ap-southeast-6": "633930458069",
    "ap-southeast-7": "590183813437",
    "ca-west-1": "204538143572",
    "cn-north-1": "727897471807",
    "cn-northwest-1": "727897471807",
    "eu-central-2": "380420809688",
    "eu-south-1": "692866216735",
    "eu-south-2": "503227376785",
    "il-central-1": "780543022126",
    "me-central-1": "914824155844",
    "me-south-1": "217643126080",
    "mx-central-1": "637423239942",
    "us-gov-east-1": "446045086412",
    "us-gov-west-1": "442386744353",
}
"""Regions whose registry is of another account than the usual one."""


def of(framework: str, region: str, *, gpus: bool) -> str | None:
    """The address in ECR. None if AWS has no such image."""
    found = _table().get((framework, gpus))
    if not found:
        return None
    suffix = "amazonaws.com.cn" if region.startswith("cn-") else "amazonaws.com"
    return f"{ACCOUNTS.get(region, USUAL)}.dkr.ecr.{region}.{suffix}/{found}"


@cache
def _table() -> dict[tuple[str, bool], str]:
    with Path(__file__).with_name("images.csv").open(encoding="utf-8", newline="") as file:
        return {
            (row["framework"], row["gpus"] == "yes"): f"{row['repository']}:{row['tag']}"
            for row in csv.DictReader(file)
        }
