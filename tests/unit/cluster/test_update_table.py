"""Compares the table of update policies with CloudFormation: each key is changed, both files are synthesized, and the
schemas show the fate of each resource.

A row fails if it says "in place" and a file system is replaced, or "refused" and nothing is replaced.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from itertools import permutations
from typing import Any

import pytest
from fates import ADDED, REMOVED, REPLACED, RESTARTED, brief, fates, named, of_types, retyped

from gpucluster import config, updates
from gpucluster.updates import Effect

Template = dict[str, Any]
TemplateOf = Callable[[str], Template]

AMI, OTHER_AMI, BAKED = "ami-0123456789abcdef1", "ami-0123456789abcdef2", "ami-0123456789abcdef3"
KEY = "arn:aws:kms:us-east-1:123456789012:key/11111111-2222-3333-4444-555555555555"

SMALL = f"""
name: c
region: us-east-1
availability_zone: us-east-1a
head_node: {{instance_type: m6i.large, volume_gib: 100, image: {AMI}}}
partitions:
  - {{name: train, instance_types: [p4d.24xlarge], max_nodes: 4}}
  - {{name: spare, instance_types: [g5.12xlarge], max_nodes: 4, placement_group: none}}
software: {{image: {BAKED}, frameworks: [torch]}}
accounting: "off"
"""
TRAINING = """\
sagemaker: {role_arn: "arn:aws:iam::123456789012:role/training", bucket: training, instance_type: ml.g5.xlarge,
  image: "123456789012.dkr.ecr.us-east-1.amazonaws.com/mine:1", subnets: [subnet-0123456a],
  security_groups: [sg-0123456a], volume_gb: 90, spot: true, max_wait: 24h}
"""
ADA = "{name: ada, uid: 2000}"
KEY_OF_ADA = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIBBfFA3ASR2KHyUUHcTg0ePpNkTdBD9+0ckvAPhhtnng"
FULL = (
    SMALL.replace("[g5.12xlarge], max_nodes: 4", "[g5.12xlarge], min_nodes: 1, max_nodes: 4").replace(
        'accounting: "off"', f"users: [{ADA}]"
    )
    + """
parameter_servers: {instance_type: m5.4xlarge, max_nodes: 4, placement_group: none}
storage:
  - mount: /fsx
    type: fsx-lustre
    capacity_gib: 2400
    throughput_mbps_per_tib: 250
    metadata_iops: 3000
    data_repositories: [{path: /in, s3: "s3://my-bucket/in", import: [new], export: [new]}]
  - {mount: /plain, type: fsx-lustre, capacity_gib: 2400}
  - {mount: /efs, type: efs}
  - {mount: /burst, type: fsx-lustre, capacity_gib: 4800, metadata_iops: 12000, lifetime: jobs, compression: lz4,
     data_repositories: [{path: /out, s3: "s3://my-bucket/out", import: [changed], export: [changed]}]}
  - {mount: /ram, type: beegfs-ram, partition: spare, gib_per_node: 10, scope: job}
s3_access: [{uri: "s3://my-bucket/in"}]
budget: {monthly_usd: 900000, email: a@example.com}
"""
    + TRAINING
)
SHARED = SMALL.replace("max_nodes: 4, placement_group: none", "max_nodes: 4") + "parameter_servers: {}\n"
DISK = "{mount: /disk, type: ebs, gib: 200}"
DISK_THERE = "{mount: /disk-there, type: ebs, volume_id: vol-0123456789abcdef0}"
THERE = "{mount: /there, type: fsx-lustre, file_system_id: fs-0123456789abcdef0}"
EXISTING = (
    SMALL
    + f"""
network: {{vpc_id: vpc-0123456789abcdef0, subnet_id: subnet-0123456789abcdef0}}
storage:
  - {THERE}
  - {{mount: /there-too, type: efs, file_system_id: fs-0123456789abcdef2}}
  - {{mount: /zfs, type: fsx-openzfs, volume_id: fsvol-0123456789abcdef0}}
  - {DISK}
  - {DISK_THERE}
"""
)
EXISTING += "parameter_servers: {max_nodes: 4, placement_group: none}\n"
BASES = {"existing": EXISTING, "small": SMALL, "full": FULL, "shared": SHARED}

HEAD = "AWS::EC2::Instance"
DATA = (
    "AWS::EC2::Volume",
    "AWS::FSx::FileSystem",
    "AWS::EFS::FileSystem",
    "AWS::RDS::DBInstance",
    "AWS::RDS::DBCluster",
)
"""Resources that contain users' data."""
PLACE = (
    "AWS::EC2::VPC",
    "AWS::EC2::Subnet",
    "AWS::EC2::SecurityGroup",
    "AWS::Route53::HostedZone",
    "AWS::SecretsManager::Secret",
    "AWS::IAM::Role",
    "AWS::IAM::InstanceProfile",
)
"""Resources that running nodes need: if they are replaced, nodes lose their network, names or permissions."""
LAUNCH = ("AWS::EC2::LaunchTemplate", "AWS::EC2::PlacementGroup")


@dataclass(frozen=True)
class Row:
    base: str
    old: str
    new: str
    effect: Effect
    words: str
    """In the plan's line."""
    because: str = ""
    """For a refusal that CloudFormation's schemas do not show: its source."""
    back: bool = False
    """The file is changed from `new` to `old`."""

    def texts(self) -> tuple[str, str]:
        text = BASES[self.base]
        assert self.old in text, self.old
        pair = text, text.replace(self.old, self.new, 1)
        return pair[::-1] if self.back else pair


def in_small(old: str, new: str, effect: Effect, words: str, because: str = "", *, back: bool = False) -> Row:
    return Row("small", old, new, effect, words, because, back)


def in_full(old: str, new: str, effect: Effect, words: str, because: str = "", *, back: bool = False) -> Row:
    return Row("full", old, new, effect, words, because, back)


def in_shared(old: str, new: str, effect: Effect, words: str, because: str = "", *, back: bool = False) -> Row:
    return Row("shared", old, new, effect, words, because, back)


def in_existing(old: str, new: str, effect: Effect, words: str) -> Row:
    return Row("existing", old, new, effect, words)


NOTHING, IN_PLACE, NEW_NODES, DRAIN = Effect.NOTHING, Effect.IN_PLACE, Effect.NEW_NODES, Effect.DRAIN
HEAD_RESTARTS, HEAD_REPLACED, REFUSED = Effect.HEAD_RESTARTS, Effect.HEAD_REPLACED, Effect.REFUSED

SCRIPT = "{source: s3://my-bucket/a.sh}"
TRAIN, SPARE = "[p4d.24xlarge], max_nodes: 4", "[g5.12xlarge], max_nodes: 4"
TRAIN_ENTRY = f"  - {{name: train, instance_types: {TRAIN}}}\n"
FIRST = TRAIN_ENTRY.replace("train", "first")
PLAIN = "- {mount: /plain, type: fsx-lustre, capacity_gib: 2400"
BURST = FULL[FULL.index("  - {mount: /burst") : FULL.index("  - {mount: /ram")]
THE_HEADS = "it is the head node's: CloudFormation knows of no file system"
NEXT = "applies to the next file system"
DOOR = "connect_endpoint_id: eice-0123456789abcdef0, connect_security_group_id: sg-0123456789abcdef0"
NEW_VPC = "network: {vpc_id: vpc-0123456789abcdef0, subnet_id: subnet-0123456789abcdef0}\nregion:"

_VOLUME = {"gib": "200", "iops": "6000", "throughput_mibps": "250"}
_SERVERS = "parameter_servers: {instance_type: m5.4xlarge"
ROOT_ROWS = {
    row: made
    for key, value in _VOLUME.items()
    for row, made in {
        f"head_node.root_volume.{key}": in_small(
            "volume_gib: 100", f"volume_gib: 100, root_volume: {{{key}: {value}}}", HEAD_REPLACED, f"null -> {value}"
        ),
        f"partitions[].root_volume.{key}": in_small(
            TRAIN, f"{TRAIN}, root_volume: {{{key}: {value}}}", NEW_NODES, f"null -> {value}"
        ),
        f"parameter_servers.root_volume.{key}": in_full(
            _SERVERS, f"{_SERVERS}, root_volume: {{{key}: {value}}}", NEW_NODES, f"null -> {value}"
        ),
    }.items()
}

ROWS: dict[str, Row] = {
    **ROOT_ROWS,
    "name": in_small("name: c\n", "name: d\n", REFUSED, "c -> d: a new name makes", "it is another stack"),
    "region": in_small(
        "region: us-east-1\navailability_zone: us-east-1a", "region: us-east-2", REFUSED, "us-east-1 -> us-east-2",
        "a stack of another region is another stack",
    ),
    "availability_zone": in_small("zone: us-east-1a", "zone: us-east-1b", REFUSED, "us-east-1a -> us-east-1b"),
    "tags": in_full("region:", "tags: {team: vision}\nregion:", NEW_NODES, "tags: {} -> {team: vision}"),
    "network.vpc_cidr": in_small("region:", "network: {vpc_cidr: 10.1.0.0/16}\nregion:", REFUSED, "10.1.0.0/16"),
    "network.vpc_id": in_small("region:", NEW_VPC, REFUSED, "null -> vpc-"),
    "network.subnet_id": in_small("region:", NEW_VPC, REFUSED, "null -> subnet-"),
    "network.connect_endpoint_id": in_existing("network: {", f"network: {{{DOOR}, ", IN_PLACE, "null -> eice-"),
    "network.connect_security_group_id": in_existing("network: {", f"network: {{{DOOR}, ", IN_PLACE, "null -> sg-"),
    "network.ssh_from": in_small("region:", "network: {ssh_from: [192.0.2.0/24]}\nregion:", IN_PLACE, "[] -> [192"),
    "network.proxy": in_small(
        "region:", "network: {proxy: 'http://proxy:3128'}\nregion:", HEAD_RESTARTS, "null -> http://proxy:3128"
    ),
    "network.no_proxy": in_small(
        "region:", "network: {proxy: 'http://proxy:3128', no_proxy: [a]}\nregion:", HEAD_RESTARTS, "[] -> [a]"
    ),
    "network.internet": in_small("region:", "network: {internet: none}\nregion:", DRAIN, "nat -> none"),
    "network.internet again": in_small(
        "region:", "network: {internet: none}\nregion:", IN_PLACE, "none -> nat", back=True
    ),
    "head_node.instance_type": in_small("m6i.large", "m6i.xlarge", HEAD_RESTARTS, "m6i.large -> m6i.xlarge"),
    "head_node.volume_gib": in_small("volume_gib: 100", "volume_gib: 200", IN_PLACE, "100 -> 200: the volume and"),
    "head_node.volume_gib less": in_small(
        "volume_gib: 100", "volume_gib: 50", REFUSED, "100 -> 50: EBS", "ModifyVolume: the size cannot be smaller"
    ),
    "head_node.image": in_small(AMI, OTHER_AMI, HEAD_REPLACED, f"{AMI} -> {OTHER_AMI}"),
    "head_node.on_delete": in_small("volume_gib: 100", "volume_gib: 100, on_delete: retain", IN_PLACE, "-> retain"),
    "head_node.snapshot_days": in_small("volume_gib: 100", "volume_gib: 100, snapshot_days: 3", IN_PLACE, "7 -> 3"),
    "head_node.snapshot_id": in_small(
        "volume_gib: 100", "volume_gib: 100, snapshot_id: snap-0123456789abcdef0", REFUSED, "null -> snap-0123456789",
        "ModifyVolume takes no snapshot",
    ),
    "head_node.snapshot_id removed": in_small(
        "volume_gib: 100, ", "volume_gib: 100, snapshot_id: snap-0123456789abcdef0, ", REFUSED, "-> null",
        "ModifyVolume takes no snapshot", back=True,
    ),
    "head_node.termination_protection": in_small(
        "volume_gib: 100", "volume_gib: 100, termination_protection: true", IN_PLACE, "false -> true"
    ),
    "head_node.security_groups": in_existing(
        "volume_gib: 100", "volume_gib: 100, security_groups: [sg-01234567]", HEAD_REPLACED, "[] -> [sg-01234567]"
    ),
    "partitions[].security_groups": in_existing(
        TRAIN, f"{TRAIN}, security_groups: [sg-01234567]", NEW_NODES, "[] -> [sg-01234567]"
    ),
    "parameter_servers.security_groups": in_existing(
        "parameter_servers: {", "parameter_servers: {security_groups: [sg-01234567], ", NEW_NODES, "[] -> [sg-01234567]"
    ),
    "head_node.scripts": in_small(
        "volume_gib: 100", f"volume_gib: 100, scripts: [{SCRIPT}]", IN_PLACE, "a head node that replaces this one"
    ),
    "partitions[].scripts": in_small(
        TRAIN, f"{TRAIN}, scripts: [{SCRIPT}]", IN_PLACE, "[] -> [{when: after, source: s3://my-bucket/a.sh, "
    ),
    "partitions": in_small(
        "- {name: spare", "- {name: first, instance_types: [g5.xlarge], max_nodes: 1}\n  - {name: spare", IN_PLACE,
        "partitions[first]: added",
    ),
    "partitions[]": in_small(
        "software:", "  - {name: more, instance_types: [g5.xlarge], max_nodes: 1}\nsoftware:", IN_PLACE,
        "partitions[more]: added",
    ),
    "partitions[] removed": in_small(
        "software:", "  - {name: more, instance_types: [g5.xlarge], max_nodes: 1}\nsoftware:", DRAIN,
        "partitions[more]: removed", back=True,
    ),
    "partitions[].instance_types": in_small(
        TRAIN, TRAIN.replace("p4d.24", "p5.48"), DRAIN, "[p4d.24xlarge] -> [p5.48xlarge]"
    ),
    "partitions[].image": in_small(TRAIN, f"{TRAIN}, image: {OTHER_AMI}", NEW_NODES, f"-> {OTHER_AMI}"),
    "partitions[].min_nodes": in_small(TRAIN, f"{TRAIN}, min_nodes: 1", IN_PLACE, "0 -> 1: train-1"),
    "partitions[].max_nodes": in_small(TRAIN, TRAIN.replace("nodes: 4", "nodes: 6"), IN_PLACE, "4 -> 6"),
    "partitions[].max_nodes less": in_small(SPARE, SPARE.replace("nodes: 4", "nodes: 2"), DRAIN, "spare-3 to spare-4"),
    "partitions[].purchase": in_small(SPARE, f"{SPARE}, purchase: spot", NEW_NODES, "on-demand -> spot"),
    "partitions[].reservation_id": in_small(
        SPARE, f"{SPARE}, purchase: reservation, reservation_id: cr-0123456789abcdef0", NEW_NODES, "null -> cr-"
    ),
    "partitions[].placement_group": in_small(TRAIN, f"{TRAIN}, placement_group: none", DRAIN, "cluster -> none"),
    "partitions[].efa": in_small(TRAIN, f"{TRAIN}, efa: off", NEW_NODES, "auto -> off"),
    "partitions[].scratch": in_small(TRAIN, f"{TRAIN}, scratch: off", IN_PLACE, "auto -> off"),
    "partitions[].idle_minutes": in_small(TRAIN, f"{TRAIN}, idle_minutes: 3", IN_PLACE, "10.0 -> 3.0"),
    "partitions[].max_usd_per_hour": in_small(
        TRAIN, f"{TRAIN}, max_usd_per_hour: 100", IN_PLACE, "null -> 100.0: applies to the next launch"
    ),
    "parameter_servers": in_small("software:", "parameter_servers: {}\nsoftware:", IN_PLACE, "added"),
    "parameter_servers.instance_type": in_full("m5.4xlarge", "m5.8xlarge", DRAIN, "m5.4xlarge -> m5.8xlarge"),
    "parameter_servers.min_nodes": in_full("m5.4xlarge", "m5.4xlarge, min_nodes: 1", IN_PLACE, "0 -> 1: ps-1"),
    "parameter_servers.max_nodes": in_full("m5.4xlarge, max_nodes: 4", "m5.4xlarge, max_nodes: 5", IN_PLACE, "ps-5"),
    "parameter_servers.scripts": in_full(
        "max_nodes: 4, placement_group: none}\nstorage",
        f"max_nodes: 4, placement_group: none, scripts: [{SCRIPT}]}}\nstorage", IN_PLACE, "boot from now on",
    ),
    "parameter_servers.placement_group": in_full(
        "max_nodes: 4, placement_group: none}\nstorage", "max_nodes: 4}\nstorage", NEW_NODES, "none -> shared"
    ),
    "parameter_servers.placement_group shared": in_shared(
        "partitions:\n", f"partitions:\n{FIRST}", NEW_NODES, "with train -> shared with first: applies to new nodes"
    ),
    "partitions[] shared": in_shared(TRAIN_ENTRY, "", DRAIN, "partitions[train]: removed: its nodes are terminated"),
    "storage[]": in_small("software:", "storage: [{mount: /efs, type: efs}]\nsoftware:", IN_PLACE, "[/efs]: added"),
    "storage[] let go": in_full("- {mount: /efs, type: efs}", "", DRAIN, "storage[/efs]: removed"),
    "storage[] deleted": in_full(PLAIN + "}", "", REFUSED, "all data in /plain would be deleted"),
    "storage[] of jobs": in_full(
        BURST, "", REFUSED, "storage[/burst]: removed: /burst has a file system now", THE_HEADS
    ),
    "storage[] for jobs": in_full(BURST, "", IN_PLACE, "added: created when the first job needs it", back=True),
    "storage[].type": in_full(
        PLAIN + "}", "- {mount: /plain, type: efs}", REFUSED, "fsx-lustre -> efs: all data in /plain"
    ),
    "storage[] that exists": in_existing(
        f"  - {THERE}\n", "", DRAIN, "removed: nodes unmount it; fs-0123456789abcdef0 stays"
    ),
    "storage[].type of one that exists": in_existing(
        THERE, "{mount: /there, type: fsx-lustre, on_delete: retain}", DRAIN, "lustre that exists -> fsx-lustre: nodes"
    ),
    "storage[].file_system_id": in_existing(
        "fs-0123456789abcdef0", "fs-0123456789abcdef1", DRAIN, "nodes mount fs-0123456789abcdef1 there"
    ),
    "storage[].gib": in_existing("gib: 200", "gib: 300", IN_PLACE, "200 -> 300: the volume and its file system grow"),
    "storage[].gib less": Row(
        "existing", "gib: 200", "gib: 50", REFUSED, "200 -> 50: EBS cannot", "ModifyVolume: the size cannot be smaller"
    ),
    "storage[].volume_type": in_existing(
        "gib: 200", "gib: 200, volume_type: gp2", IN_PLACE, "null -> gp2: EBS changes the volume in use"
    ),
    "storage[].iops": in_existing("gib: 200", "gib: 200, iops: 4000", IN_PLACE, "null -> 4000"),
    "storage[].throughput_mibps": in_existing("gib: 200", "gib: 200, throughput_mibps: 250", IN_PLACE, "null -> 250"),
    "storage[].snapshot_id": Row(
        "existing", "gib: 200", "gib: 200, snapshot_id: snap-0123456789abcdef0", REFUSED,
        "EBS would create another volume", "ModifyVolume takes no snapshot",
    ),
    "storage[].volume_id": in_existing(
        ": vol-0123456789abcdef0", ": vol-0123456789abcdef1", DRAIN, "shares vol-0123456789abcdef1 there; nodes unmount"
    ),
    "storage[].volume_id of a new one": in_existing(
        DISK, DISK.replace("gib: 200", "volume_id: vol-0123456789abcdef1"), DRAIN, "its final snapshot stays"
    ),
    "storage[] on a volume": in_existing(f"  - {DISK}\n", "", DRAIN, "nodes unmount it; its final snapshot stays"),
    "storage[] on a volume that exists": in_existing(
        f"  - {DISK_THERE}\n", "", DRAIN, "nodes unmount it; vol-0123456789abcdef0 stays"
    ),
    "storage[].volume_id of a file system": in_existing(
        "fsvol-0123456789abcdef0", "fsvol-0123456789abcdef1", DRAIN, "nodes mount fsvol-0123456789abcdef1 there"
    ),
    "storage[].access_point_id": in_existing(
        "fs-0123456789abcdef2", "fs-0123456789abcdef2, access_point_id: fsap-0123456789abcdef0", DRAIN,
        "null -> fsap-0123456789abcdef0: nodes mount fsap-",
    ),
    "storage[].deployment": in_full(
        PLAIN, f"{PLAIN}, deployment: persistent-1", REFUSED, "persistent-2 -> persistent-1"
    ),
    "storage[].deployment of jobs": in_full(
        "metadata_iops: 12000, lifetime", "deployment: persistent-1, lifetime", IN_PLACE, f"persistent-1: {NEXT}"
    ),
    "storage[].capacity_gib of jobs": in_full("4800, metadata", "1200, metadata", IN_PLACE, f"4800 -> 1200: {NEXT}"),
    "storage[].metadata_iops of jobs": in_full("iops: 12000", "iops: 6000", IN_PLACE, f"12000 -> 6000: {NEXT}"),
    "storage[].throughput_mbps_per_tib of jobs": in_full(
        "12000, lifetime", "12000, throughput_mbps_per_tib: 250, lifetime", IN_PLACE, f"null -> 250: {NEXT}"
    ),
    "storage[].compression of jobs": in_full("compression: lz4", "compression: none", IN_PLACE, f"none: {NEXT}"),
    "storage[].efa of jobs": in_full(
        "4800, metadata_iops: 12000", "38400, efa: true", REFUSED, "false -> true: nodes and ports", THE_HEADS
    ),
    "storage[].lifetime": in_full(
        PLAIN, f'{PLAIN}, lifetime: jobs, data_repositories: [{{path: /d, s3: "s3://my-bucket/d"}}]', REFUSED,
        "cluster -> jobs: all data in /plain would be deleted",
    ),
    "storage[].lifetime back": in_full(
        "lifetime: jobs", "lifetime: cluster", REFUSED, "jobs -> cluster: /burst has a file system now", THE_HEADS
    ),
    "storage[].idle_minutes": in_full("lifetime: jobs", "lifetime: jobs, idle_minutes: 3", IN_PLACE, "10.0 -> 3.0"),
    "storage[].data_repositories[] of jobs": in_full(
        'data_repositories: [{path: /out', 'data_repositories: [{path: /d, s3: "s3://my-bucket/d"}, {path: /out',
        IN_PLACE, f"[/d]: added: {NEXT}",
    ),
    "storage[].data_repositories[] not of jobs": in_full(
        'data_repositories: [{path: /out', 'data_repositories: [{path: /d, s3: "s3://my-bucket/d"}, {path: /out',
        IN_PLACE, "[/d]: removed: the next file system is not linked", back=True,
    ),
    "storage[].data_repositories[].s3 of jobs": in_full("my-bucket/out", "my-bucket/on", IN_PLACE, f"/on: {NEXT}"),
    "storage[].data_repositories[].import of jobs": in_full(
        "import: [changed]", "import: [new]", IN_PLACE, f"[new]: {NEXT}"
    ),
    "storage[].data_repositories[].export of jobs": in_full(
        "export: [changed]", "export: [new]", IN_PLACE, f"[new]: {NEXT}"
    ),
    "storage[].capacity_gib": in_full(PLAIN, PLAIN.replace("2400", "4800"), IN_PLACE, "2400 -> 4800"),
    "storage[].capacity_gib less": in_full(
        PLAIN, PLAIN.replace("2400", "1200"), REFUSED, "2400 -> 1200", "UpdateFileSystem: StorageCapacity only grows"
    ),
    "storage[].throughput_mbps_per_tib": in_full("tib: 250", "tib: 500", IN_PLACE, "250 -> 500"),
    "storage[].compression": in_full(PLAIN, f"{PLAIN}, compression: lz4", IN_PLACE, "none -> lz4"),
    "storage[].efa": in_full(PLAIN, f"{PLAIN.replace('2400', '38400')}, efa: true", REFUSED, "false -> true"),
    "storage[].metadata_iops": in_full("iops: 3000", "iops: 6000", IN_PLACE, "3000 -> 6000"),
    "storage[].metadata_iops less": in_full(
        "iops: 3000", "iops: 1500", REFUSED, "3000 -> 1500", "UpdateFileSystem: metadata IOPS only grow"
    ),
    "storage[].backup_days": in_full(PLAIN, f"{PLAIN}, backup_days: 3", IN_PLACE, "0 -> 3"),
    "storage[].on_delete": in_full(PLAIN, f"{PLAIN}, on_delete: retain", IN_PLACE, "delete -> retain"),
    "storage[].data_repositories[]": in_full(
        PLAIN, f'{PLAIN}, data_repositories: [{{path: /d, s3: "s3://my-bucket/d"}}]', IN_PLACE, "[/d]: added"
    ),
    "storage[].data_repositories[].s3": in_full(
        's3: "s3://my-bucket/in", import', 's3: "s3://my-bucket/on", import', REFUSED, "my-bucket/in -> s3://my-bucket/on",
        "CreateDataRepositoryAssociation: no two with overlapping FileSystemPath",
    ),
    "storage[].data_repositories[].import": in_full(
        "import: [new]", "import: [new, changed]", IN_PLACE, "[new] -> [new, changed]"
    ),
    "storage[].data_repositories[].export": in_full("export: [new]", "export: []", IN_PLACE, "[new] -> []"),
    "storage[].partition": in_full("partition: spare", "partition: train", DRAIN, "spare -> train"),
    "storage[].gib_per_node": in_full("gib_per_node: 10", "gib_per_node: 20", DRAIN, "10 -> 20"),
    "storage[].scope": in_full("scope: job", "scope: cluster", DRAIN, "job -> cluster"),
    "storage[].version": in_full("scope: job", 'scope: job, version: "7.4"', DRAIN, "8 -> 7.4: /ram is created again"),
    "storage[].source": in_full("scope: job", "scope: job, source: /fsx/in", DRAIN, "null -> /fsx/in"),
    "storage[].export": in_full("scope: job", "scope: job, export: /fsx/out", DRAIN, "null -> /fsx/out"),
    "s3_access[]": in_full(
        's3_access: [{uri: "s3://my-bucket/in"}]', "s3_access: []", IN_PLACE, "s3_access[s3://my-bucket/in]: removed"
    ),
    "s3_access[].access": in_full('/in"}]', '/in", access: read-write}]', IN_PLACE, "read -> read-write"),
    "software.image": in_small(BAKED, OTHER_AMI, NEW_NODES, f"-> {OTHER_AMI}"),
    "software.cache": in_small(
        "frameworks: [torch]", "frameworks: [torch], cache: s3://my-bucket/envs", IN_PLACE, "null -> s3://my-bucket/envs"
    ),
    "software.containers": in_small(
        "frameworks: [torch]", "frameworks: [torch], containers: true", IN_PLACE, "false -> true"
    ),
    "software.frameworks": in_small("[torch]", "[torch, horovod]", IN_PLACE, "[torch] -> [torch, horovod]"),
    "head_node.threads_per_core": in_small(
        "volume_gib: 100", "volume_gib: 100, threads_per_core: 1", HEAD_REPLACED, "null -> 1"
    ),
    "head_node.threads_per_core as before": in_small(
        "volume_gib: 100", "volume_gib: 100, threads_per_core: 2", NOTHING, "as many threads a core as before"
    ),
    "head_node.instance_type with threads": in_small(
        "{instance_type: m6i.large,", "{threads_per_core: 1, instance_type: m6i.xlarge,", HEAD_REPLACED,
        "m6i.large -> m6i.xlarge",
    ),
    "partitions[].threads_per_core": in_small(TRAIN, f"{TRAIN}, threads_per_core: 1", DRAIN, "null -> 1"),
    "partitions[].threads_per_core as before": in_small(
        TRAIN, f"{TRAIN}, threads_per_core: 2", NOTHING, "as many threads a core as before"
    ),
    "parameter_servers.threads_per_core": in_full(_SERVERS, f"{_SERVERS}, threads_per_core: 1", DRAIN, "null -> 1"),
    "partitions[].partition_options": in_small(
        TRAIN, f"{TRAIN}, partition_options: {{MaxTime: 1-0}}", IN_PLACE, "slurmctld restarts; running jobs stay"
    ),
    "partitions[].node_options": in_small(
        TRAIN, f"{TRAIN}, node_options: {{Weight: 5}}", IN_PLACE, "slurmctld restarts; running jobs stay"
    ),
    "partitions[].node_options of slurmd": in_small(
        TRAIN, f"{TRAIN}, node_options: {{Weight: 5, MemSpecLimit: 9}}", DRAIN, "Slurm's node definition changes"
    ),
    "slurm.slurm_conf": in_small("region:", "slurm: {slurm_conf: KillWait=60}\nregion:", IN_PLACE, "running jobs stay"),
    "slurm.cgroup_conf": in_small(
        "region:", "slurm: {cgroup_conf: ConstrainSwapSpace=yes}\nregion:", IN_PLACE, "jobs that start from now on"
    ),
    "slurm.gres_conf": in_small(
        "region:", "slurm: {gres_conf: NodeName=train-1 Name=a Count=2}\nregion:", DRAIN, "when it starts"
    ),
    "slurm.memory": in_small(
        "region:", "slurm: {memory: allocated}\nregion:", DRAIN, "reserves and limits jobs' memory"
    ),
    "slurm.memory shared": in_small(
        "region:", "slurm: {memory: allocated}\nregion:", DRAIN, "no longer counts memory", back=True
    ),
    "users[]": in_full(ADA, f"{ADA}, {{name: ben}}", IN_PLACE, "users[ben]: added: running nodes get the account"),
    "users[] removed": in_full(
        ADA, f"{ADA}, {{name: ben}}", IN_PLACE, "removed: can no longer log in or submit", back=True
    ),
    "users[].uid": in_full(ADA, "{name: ada, uid: 2001}", REFUSED, "2000 -> 2001", "files keep the old one"),
    "users[].public_key": in_full(
        ADA, f'{ADA[:-1]}, public_key: "{KEY_OF_ADA}"}}', IN_PLACE, "replaces the key on the head node"
    ),
    "users[].fair_share": in_full(ADA, f"{ADA[:-1]}, fair_share: 2}}", IN_PLACE, "1 -> 2: applies to pending jobs too"),
    "users[].max_jobs": in_full(ADA, f"{ADA[:-1]}, max_jobs: 2}}", IN_PLACE, "null -> 2: applies to pending jobs too"),
    "users[].max_gpus": in_full(ADA, f"{ADA[:-1]}, max_gpus: 8}}", IN_PLACE, "null -> 8: applies to pending jobs too"),
    "accounting": in_small('accounting: "off"', "accounting: local", IN_PLACE, "off -> local"),
    "accounting rds": in_small('accounting: "off"', "accounting: rds", IN_PLACE, "off -> rds"),
    "accounting no rds": in_small(
        'accounting: "off"', "accounting: rds", IN_PLACE, "rds -> off: jobs are recorded no longer", back=True
    ),
    "monitoring.log_days": in_small("region:", "monitoring: {log_days: 30}\nregion:", IN_PLACE, "90 -> 30"),
    "monitoring.dashboard": in_small("region:", "monitoring: {dashboard: false}\nregion:", IN_PLACE, "true -> false"),
    "monitoring.alarm_email": in_small(
        "region:", "monitoring: {alarm_email: a@example.com}\nregion:", IN_PLACE, "null -> a@example.com"
    ),
    "monitoring.prometheus": in_small("region:", "monitoring: {prometheus: off}\nregion:", IN_PLACE, "on -> off"),
    "monitoring.retention_days": in_small("region:", "monitoring: {retention_days: 9}\nregion:", IN_PLACE, "15 -> 9"),
    "monitoring.scrape_from": in_existing(
        "region:", "monitoring: {scrape_from: sg-01234567}\nregion:", IN_PLACE, "null -> sg-01234567"
    ),
    "budget": in_small("region:", "budget: {monthly_usd: 900000}\nregion:", IN_PLACE, "budget: added"),
    "budget.monthly_usd": in_full("900000", "950000", IN_PLACE, "900000.0 -> 950000.0"),
    "budget.email": in_full("email: a@", "email: b@", IN_PLACE, "a@example.com -> b@"),
    "budget.at_limit": in_full("email: a@", "at_limit: stop-launches, email: a@", IN_PLACE, "notify -> stop-launches"),
    "security.kms_key_arn": in_small("region:", f"security: {{kms_key_arn: {KEY!r}}}\nregion:", REFUSED, "null -> arn"),
    "security.permissions_boundary_arn": in_small(
        "region:", "security: {permissions_boundary_arn: 'arn:aws:iam::123456789012:policy/b'}\nregion:", IN_PLACE,
        "null -> arn:aws:iam",
    ),
    "sagemaker": in_small("region:", f"{TRAINING}region:", NOTHING, "sagemaker: added"),
    "sagemaker.role_arn": in_full("role/training", "role/other", NOTHING, "-> arn:aws:iam"),
    "sagemaker.bucket": in_full("bucket: training", "bucket: other", NOTHING, "training -> other"),
    "sagemaker.instance_type": in_full("ml.g5.xlarge", "ml.g5.2xlarge", NOTHING, "-> ml.g5.2xlarge"),
    "sagemaker.image": in_full("/mine:1", "/mine:2", NOTHING, "/mine:2"),
    "sagemaker.toolkit": in_full(", volume_gb", ", toolkit: true, volume_gb", NOTHING, "false -> true"),
    "sagemaker.subnets": in_full("subnet-0123456a", "subnet-0123456b", NOTHING, "subnet-0123456b"),
    "sagemaker.security_groups": in_full("sg-0123456a", "sg-0123456b", NOTHING, "sg-0123456b"),
    "sagemaker.kms_key_arn": in_full(", volume_gb", f", kms_key_arn: {KEY!r}, volume_gb", NOTHING, "null -> arn"),
    "sagemaker.volume_gb": in_full("volume_gb: 90", "volume_gb: 80", NOTHING, "90 -> 80"),
    "sagemaker.spot": in_full("spot: true, max_wait: 24h", "spot: false", NOTHING, "true -> false"),
    "sagemaker.max_wait": in_full("max_wait: 24h", "max_wait: 48h", NOTHING, "1-00:00:00 -> 2-00:00:00"),
    **{
        f"security.policies.{role}": in_small(
            "region:", f"security: {{policies: {{{role}: ['arn:aws:iam::aws:policy/x']}}}}\nregion:", IN_PLACE,
            "[] -> [arn:aws:iam::aws:policy/x]",
        )
        for role in ("head", "nodes", "jobs")
    },
    "security.role_prefix": in_small(
        "region:", "security: {role_prefix: team-}\nregion:", REFUSED, "null -> team-",
        "AWS::IAM::Role: RoleName is create-only, and running nodes use the role",
    ),
    "silence": in_small("region:", "silence: [subnet-zone]\nregion:", NOTHING, "changes only what `validate` reports"),
}  # fmt: skip


def key_of(row: str) -> str:
    return row.partition(" ")[0]


def test_every_key_of_the_table_has_its_row() -> None:
    assert set(map(key_of, ROWS)) == set(updates.POLICIES)


def complaint(effect: Effect, because: str, old: Template, new: Template) -> str | None:
    """Why the effect differs from CloudFormation's; None if it does not."""
    found = fates(old, new)
    check = {
        Effect.NOTHING: _nothing_happens,
        Effect.IN_PLACE: _happens_in_place,
        Effect.NEW_NODES: _is_for_new_nodes,
        Effect.DRAIN: _takes_what_nodes_stand_on,
        Effect.HEAD_RESTARTS: _restarts_the_head,
        Effect.HEAD_REPLACED: _replaces_the_head,
        Effect.REFUSED: _would_lose,
    }[effect]
    words = None if because and found else check(found, old, new)
    if other := retyped(old, new) if effect is not Effect.REFUSED else []:
        words = f"CloudFormation refuses another type of {other}"
    return f"{effect.value}, and {words}:\n{brief(found)}" if words else None


def _nothing_happens(found: Mapping[str, str], old: Template, new: Template) -> str | None:
    return "something changes" if found else None


def _harm(found: Mapping[str, str], old: Template, new: Template, *allowed: str) -> str | None:
    harmed = {
        name: fate
        for name, fate in of_types(found, old, new, HEAD, *DATA, *PLACE).items()
        if fate in (REPLACED, REMOVED, RESTARTED) and not _may_go(name, fate, old, new) and fate not in allowed
    }
    return f"{harmed} is not left alone" if harmed else None


def _may_go(name: str, fate: str, old: Template, new: Template) -> bool:
    """Resources that others may still use must stay. Those that belong only to the removed entry may be deleted; the
    deployed template's deletion policy keeps data in the account."""
    resource = old["Resources"][name]
    kept = resource.get("DeletionPolicy") in ("RetainExceptOnCreate", "Snapshot")
    if resource["Type"] in DATA:
        return fate == REMOVED and kept
    nodes = (HEAD, "AWS::EC2::LaunchTemplate")
    stand_on = {each for other in old["Resources"].values() if other["Type"] in nodes for each in named(other)}
    return fate == REMOVED and name not in stand_on and resource["Type"] not in (HEAD, "AWS::EC2::VPC")


def _happens_in_place(found: Mapping[str, str], old: Template, new: Template) -> str | None:
    templates = of_types(found, old, new, *LAUNCH)
    if templates and set(templates.values()) != {ADDED}:
        return f"{templates} would replace nodes"
    return _harm(found, old, new) or (None if found else "nothing changes")


def _is_for_new_nodes(found: Mapping[str, str], old: Template, new: Template) -> str | None:
    groups = of_types(found, old, new, "AWS::EC2::PlacementGroup")
    if REMOVED in groups.values() or REPLACED in groups.values():
        return "a placement group goes, which must be empty"
    return _harm(found, old, new) or (None if found else "nothing changes")


def _takes_what_nodes_stand_on(found: Mapping[str, str], old: Template, new: Template) -> str | None:
    return _harm(found, old, new) or (None if found else "nothing changes")


def _restarts_the_head(found: Mapping[str, str], old: Template, new: Template) -> str | None:
    head = of_types(found, old, new, HEAD)
    if set(head.values()) != {RESTARTED}:
        return f"the head is {head or 'untouched'}"
    return _harm(found, old, new, RESTARTED)


def _replaces_the_head(found: Mapping[str, str], old: Template, new: Template) -> str | None:
    head = of_types(found, old, new, HEAD)
    if set(head.values()) != {REPLACED}:
        return f"the head is {head or 'untouched'}"
    return _harm({name: fate for name, fate in found.items() if name not in head}, old, new)


def _would_lose(found: Mapping[str, str], old: Template, new: Template) -> str | None:
    at_stake = of_types(found, old, new, HEAD, *DATA, "AWS::EC2::VPC")
    lost = [
        name
        for name, fate in at_stake.items()
        if fate == REPLACED or (fate == REMOVED and not _may_go(name, fate, old, new))
    ]
    return None if lost else "nothing would be lost"


@pytest.mark.parametrize("row", ROWS)
def test_the_policy_agrees_with_cloudformation(row: str, template_of: TemplateOf) -> None:
    case = ROWS[row]
    old, new = case.texts()
    changes = updates.compare(config.loads(old), config.loads(new))
    shown = {change.difference.key: change for change in changes}
    assert shown[key_of(row)].effect is case.effect if key_of(row) in shown else row == "partitions"
    assert any(case.words in change.line() for change in changes), [change.line() for change in changes]
    strongest = max((change.effect for change in changes), key=list(Effect).index)
    assert strongest is case.effect, [change.line() for change in changes]
    assert complaint(case.effect, case.because, template_of(old), template_of(new)) is None


WRONG = {
    "storage[].deployment": (IN_PLACE, "StoragePlainFileSystem"),
    "storage[] deleted": (DRAIN, "StoragePlainFileSystem"),
    "head_node.image": (IN_PLACE, "HeadInstance"),
    "head_node.instance_type": (IN_PLACE, "HeadInstance"),
    "head_node.volume_gib": (REFUSED, "nothing would be lost"),
    "network.vpc_cidr": (IN_PLACE, "NetworkVpc"),
    "availability_zone": (HEAD_REPLACED, "HomeVolume"),
    "security.kms_key_arn": (NEW_NODES, "HomeVolume"),
    "partitions[].image": (IN_PLACE, "would replace nodes"),
    "partitions[].placement_group": (NEW_NODES, "a placement group goes"),
    "partitions[].purchase": (HEAD_RESTARTS, "the head is untouched"),
    "partitions[].idle_minutes": (NOTHING, "something changes"),
    "silence": (IN_PLACE, "nothing changes"),
    "software.image": (HEAD_REPLACED, "the head is untouched"),
}


@pytest.mark.parametrize("row", WRONG)
def test_a_wrong_policy_is_found(row: str, template_of: TemplateOf) -> None:
    effect, words = WRONG[row]
    old, new = map(template_of, ROWS[row].texts())
    assert words in (complaint(effect, "", old, new) or "")


def test_a_group_that_goes_is_drained_of_all_who_launch_into_it(template_of: TemplateOf) -> None:
    """Partitions whose launch templates in the deployed template name the group."""
    for row in ("partitions[] shared", "partitions[].placement_group"):
        texts = ROWS[row].texts()
        old, new = map(template_of, texts)
        gone = {name for name, fate in of_types(fates(old, new), old, new, LAUNCH[1]).items() if fate == REMOVED}
        users = {partition_of(each) for each in launch_templates(old) if gone & set(named(each))}
        drained = updates.drains(updates.compare(*map(config.loads, texts)), config.loads(texts[0]))
        assert gone and users == set(drained), row


def launch_templates(template: Template) -> list[Template]:
    return [each["Properties"] for each in template["Resources"].values() if each["Type"] == LAUNCH[0]]


def partition_of(launch_template: Template) -> str:
    """The partition, from the tags of its instances."""
    (tags,) = (
        each["Tags"]
        for each in launch_template["LaunchTemplateData"]["TagSpecifications"]
        if each["ResourceType"] == "instance"
    )
    return next(str(tag["Value"]) for tag in tags if tag["Key"] == "gpucluster:partition")


def test_a_deletion_policy_is_never_the_only_change_of_a_resource(template_of: TemplateOf) -> None:
    """CloudFormation would ignore it."""
    for row in ("head_node.on_delete", "storage[].on_delete"):
        old, new = (template_of(text)["Resources"] for text in ROWS[row].texts())
        changed = [name for name in old if old[name].get("DeletionPolicy") != new[name].get("DeletionPolicy")]
        assert changed and all(old[name].get("Metadata") != new[name].get("Metadata") for name in changed), row


KEPT = "capacity_gib: 1200, deployment: scratch-2"
KINDS = {
    "lustre": f"type: fsx-lustre, {KEPT}, on_delete: retain",
    "lustre that exists": "type: fsx-lustre, file_system_id: fs-0123456789abcdef0",
    "lustre of jobs": f"type: fsx-lustre, {KEPT}, lifetime: jobs, data_repositories: [{{path: /a, s3: 's3://my-bucket'}}]",
    "efs": "type: efs",
    "efs that exists": "type: efs, file_system_id: fs-0123456789abcdef2",
    "openzfs": "type: fsx-openzfs, volume_id: fsvol-0123456789abcdef0",
    "ebs": "type: ebs",
    "ebs that exists": "type: ebs, volume_id: vol-0123456789abcdef0",
    "beegfs": "type: beegfs-ram, partition: spare, gib_per_node: 10, scope: job",
}


def test_every_kind_of_storage_may_take_the_place_of_every_other(template_of: TemplateOf) -> None:
    network = "network: {vpc_id: vpc-0123456789abcdef0, subnet_id: subnet-0123456789abcdef0}\n"
    made = [template_of(f"{SMALL}{network}storage: [{{mount: /x, {keys}}}]\n") for keys in KINDS.values()]
    assert not [other for old, new in permutations(made, 2) if (other := retyped(old, new))]


def test_no_node_is_replaced_for_a_mount_that_it_makes_itself(template_of: TemplateOf) -> None:
    old, new = map(template_of, ROWS["storage[]"].texts())
    assert of_types(fates(old, new), old, new, "AWS::EC2::LaunchTemplate") == {}


def test_the_image_is_kept_as_it_is_pinned(template_of: TemplateOf) -> None:
    from synthesis import AMI as PINNED
    from synthesis import lookups

    deployed = updates.read(template_of(SMALL.replace(BAKED, "dlami-ubuntu-24.04"))["Metadata"])
    (found,) = deployed.images.values()
    assert (found.image_id, lookups("us-east-1")[found.key]) == (PINNED, PINNED)
