"""The inputs of `gpucluster init --from`, converted for an account of the local cloud: what they name exists there.

Their ids become those that the local cloud gives; their regions become its region.
"""

from __future__ import annotations

import contextlib
import re
import secrets
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from gpucluster.cli.frame import converting
from gpucluster.parallelcluster import Converted, convert, read, subnets_of
from localcloud.testing.census import census
from tests.cloud.assembly import REGION, InProcess
from tests.cloud.played_head import Head
from tests.cloud.test_examples import left

FOLDER = Path(__file__).parents[1] / "data/parallelcluster"
NAME = "GpuCluster"
POLICY = '{"Version":"2012-10-17","Statement":[{"Effect":"Allow","Action":"s3:ListAllMyBuckets","Resource":"*"}]}'


@pytest.fixture(scope="session")
def account(bootstrapped: Any) -> Account:
    return Account(bootstrapped)


class Account:
    """Makes what a file names, once for each id."""

    def __init__(self, control_plane: Any) -> None:
        self.client = control_plane.client
        self.ec2 = control_plane.client("ec2")
        self._made: dict[str, str] = {}
        self.buckets: set[str] = set()

    def converted(self, name: str, *, in_subnet: bool = True) -> Converted:
        """`in_subnet`: in the subnet that the file names; otherwise as without credentials, in a new VPC."""
        text = (FOLDER / f"{name}.yaml").read_text()
        for bucket in sorted({*re.findall(r"(?:s3://|BucketName: )([a-z0-9-]+)", text)} - self.buckets):
            self.buckets.add(bucket)
            self.client("s3").create_bucket(Bucket=bucket)
        for asked, own in self._own(text):
            text = text.replace(asked, own)
        text = re.sub(r"(?m)^Region: .*$", f"Region: {REGION}", text)
        data = read(text, f"{name}.yaml")
        subnets = converting.known(self.ec2, subnets_of(data)) if in_subnet else {}
        return convert(data, f"{name}.yaml", REGION, subnets)

    def _own(self, text: str) -> Iterator[tuple[str, str]]:
        for pattern, make in (
            (r"subnet-[0-9a-f]{17}", self._subnet),
            (r"sg-[0-9a-f]{17}", self._group),
            (r"snap-[0-9a-f]{17}", self._snapshot),
            (r"arn:aws:iam::123456789012:policy/(?:[\w-]+)", self._policy),
            (r"EfsSettings:\s*\{?FileSystemId: fs-[0-9a-f]{17}", self._efs),
            (r"FsxLustreSettings:\s*\{?FileSystemId: fs-[0-9a-f]{17}", self._lustre),
        ):
            for asked in sorted(set(re.findall(pattern, text))):
                if asked not in self._made:
                    self._made[asked] = make(asked)
                yield asked, self._made[asked]

    def _vpc(self) -> str:
        if "vpc" not in self._made:
            self._made["vpc"] = self.ec2.create_vpc(CidrBlock="10.9.0.0/16")["Vpc"]["VpcId"]
        return self._made["vpc"]

    def _subnet(self, asked: str) -> str:
        block = f"10.9.{int(asked[-1], 16) * 16}.0/20"
        made = self.ec2.create_subnet(VpcId=self._vpc(), CidrBlock=block, AvailabilityZone=f"{REGION}a")
        return str(made["Subnet"]["SubnetId"])

    def _group(self, asked: str) -> str:
        made = self.ec2.create_security_group(GroupName=asked[-4:], Description="theirs", VpcId=self._vpc())
        return str(made["GroupId"])

    def _snapshot(self, _: str) -> str:
        volume = self.ec2.create_volume(AvailabilityZone=f"{REGION}a", Size=100)["VolumeId"]
        return str(self.ec2.create_snapshot(VolumeId=volume)["SnapshotId"])

    def _efs(self, asked: str) -> str:
        made = self.client("efs").create_file_system(CreationToken=secrets.token_hex(4), Encrypted=True)["FileSystemId"]
        return asked.rpartition("fs-")[0] + str(made)

    def _lustre(self, asked: str) -> str:
        """In a subnet that some file names."""
        subnet = next(own for name, own in self._made.items() if name.startswith("subnet-"))
        place = {"SubnetIds": [subnet], "StorageCapacity": 1200}
        made = self.client("fsx").create_file_system(FileSystemType="LUSTRE", **place)["FileSystem"]["FileSystemId"]
        return asked.rpartition("fs-")[0] + str(made)

    def _policy(self, asked: str) -> str:
        """The account's number is that of the files."""
        iam = self.client("iam")
        with contextlib.suppress(iam.exceptions.EntityAlreadyExistsException):
            iam.create_policy(PolicyName=asked.rpartition("/")[2], PolicyDocument=POLICY)
        return asked


def deployed_and_destroyed(control_plane: Any, converted: Converted, folder: Path) -> None:
    assert converted.complete, converted.look
    before = census(control_plane.client)
    here = InProcess(folder / "cluster.yaml", control_plane, NAME)
    here.file.write_text(converted.text)
    with Head(control_plane, NAME) as head:
        assert here.deploy()
        assert len(head.versions) == 1
    here.destroy()
    found = left(before, census(control_plane.client))
    assert not found.keys() - {"EFS"}, found
    assert len(found.get("EFS", ())) == converted.text.count("on_delete: retain")
