from __future__ import annotations

from validator_cases.case import cluster

from online_cases.case import Answers, Online, deployed

LUSTRE = {"mount": "/fsx", "type": "fsx-lustre", "deployment": "scratch-2", "capacity_gib": 1200}
DEFAULT = cluster(storage=[LUSTRE])
OWN = cluster(storage=[LUSTRE], software={"image": "ami-0123456789abcdef0"})
NAME = "Deep Learning Base OSS Nvidia Driver GPU AMI (Ubuntu 24.04)"
# As AWS's repository lists packages; versions as in a log of apt of July 2026 (kernel 6.17.0-1019-aws).
INDEX = b"""Package: lustre-client-modules-6.14.0-1017-aws
Version: 2.15.6-1fsx29
Architecture: amd64

Package: lustre-client-modules-6.17.0-1019-aws
Version: 2.15.6-1fsx32
Architecture: amd64

Package: lustre-client-utils
Version: 2.15.6-1fsx33
"""


def image(date: str, **more: object) -> Answers:
    return {
        "ssm get_parameter": {"Parameter": {"Value": "ami-1"}},
        "ec2 describe_images": {"Images": [{"ImageId": "ami-1", "Name": f"{NAME} {date}"}]},
        "s3 get_object": "NoSuchBucket",
        **more,
    }


def index(text: bytes) -> Answers:
    return {"s3 get_object": {"Body": text}}


CASES: dict[str, Online | list[Online]] = {
    "lustre-client-kernel": [
        Online(
            DEFAULT,
            key="software.image",
            says=f"{NAME} 20261006 boots kernel 7.0, for which AWS publishes no Lustre client",
            fails=image("20261006", **index(INDEX)),
            passes=image("20260710", **index(INDEX)),
        ),
        Online(
            OWN,
            key="software.image",
            says=f"{NAME} 20260918 boots kernel 7.0, for which AWS publishes no Lustre client",
            fails=image("20260918", **index(INDEX)),
            passes=image("20260918", **index(INDEX.replace(b"6.17.0-1019", b"7.0.0-1012"))),
        ),
        Online(
            DEFAULT,
            key="software.image",
            says=f"{NAME} 20261006 boots kernel 7.0, for which AWS publishes no Lustre client",
            fails=image("20261006", **index(INDEX)),
            passes=image("20261006", **index(INDEX), **deployed("Mine")),
        ),
    ],
}
