"""Forms of single values, in gpucluster/config/fields.py."""

from __future__ import annotations

from validator_cases.case import Case, cluster, partition, storage

KEY = "arn:aws:kms:us-east-1:123456789012:key/1234abcd-12ab-34cd-56ef-1234567890ab"


def link(path: str) -> dict[str, object]:
    return storage("fsx-lustre", data_repositories=[{"path": path, "s3": "s3://my-bucket/data"}])


DOOR = {
    "vpc_id": "vpc-01234567",
    "subnet_id": "subnet-01234567",
    "connect_endpoint_id": "eice-0123456789abcdef0",
    "connect_security_group_id": "sg-0123456789abcdef0",
}

CASES = {
    "network-form": [
        Case(
            fails=cluster(network={"vpc_cidr": "10.0.0.1/16"}),
            key="network.vpc_cidr",
            says="must be an IPv4 network such as 10.0.0.0/16, got '10.0.0.1/16'",
            passes=cluster(network={"vpc_cidr": "10.1.0.0/16"}),
        ),
        Case(
            fails=cluster(network={"ssh_from": ["2001:db8::/32"]}),
            key="network.ssh_from[0]",
            says="must be an IPv4 network such as 10.0.0.0/16, got '2001:db8::/32'",
            passes=cluster(network={"ssh_from": ["198.51.100.7/32"]}),
        ),
        Case(
            fails=cluster(network={"ssh_from": ["93.184.216.34", "93.184.0.0/255.255.0.0"]}),
            key="network.ssh_from[0]",
            says="must be an IPv4 network such as 10.0.0.0/16, got '93.184.216.34'",
            passes=cluster(network={"ssh_from": ["93.184.216.34/32", "93.184.0.0/16"]}),
            times=2,
        ),
    ],
    "vpc-cidr-size": [
        Case(
            fails=cluster(network={"vpc_cidr": "10.0.0.0/8"}),
            key="network.vpc_cidr",
            says="must be between /16 and /27, got /8",
            passes=cluster(network={"vpc_cidr": "10.0.0.0/16"}),
        ),
        Case(
            fails=cluster(network={"vpc_cidr": "10.0.0.0/28"}),
            key="network.vpc_cidr",
            says="must be between /16 and /27, got /28",
            passes=cluster(network={"vpc_cidr": "10.0.0.0/24"}),
        ),
    ],
    "ssh-from-not-everyone": Case(
        fails=cluster(network={"ssh_from": ["0.0.0.0/0"]}),
        key="network.ssh_from[0]",
        says="0.0.0.0/0 opens SSH to the whole internet",
        passes=cluster(network={"ssh_from": ["93.184.216.0/24"]}),
    ),
    "mount-form": Case(
        fails=storage("efs", mount="/a/../b"),
        key="storage[0].mount",
        says="must not contain . or .., got '/a/../b'",
        passes=storage("efs", mount="/a/b"),
    ),
    "mount-length": Case(
        fails=storage("efs", mount="/" + "m" * 100),
        key="storage[0].mount",
        says="must have at most 100 characters, got 101",
        passes=storage("efs", mount="/" + "m" * 99),
    ),
    "mount-not-of-system": Case(
        fails=storage("efs", mount="/etc/shared"),
        key="storage[0].mount",
        says="/etc/shared would hide a directory of the system",
        passes=storage("efs", mount="/opt/shared"),
    ),
    "cluster-name-form": Case(
        fails=cluster(name="my_cluster"),
        key="name",
        says="must be letters, digits and hyphens, starting with a letter and not ending in a hyphen, got 'my_cluster'",
        passes=cluster(name="My-Cluster"),
    ),
    "cluster-name-length": Case(
        fails=cluster(name="a" * 41),
        key="name",
        says=f"must be at most 40 characters, got '{'a' * 41}'",
        passes=cluster(name="a" * 40),
    ),
    "partition-name-form": Case(
        fails=partition(name="Train"),
        key="partitions[0].name",
        says="must be lower-case letters, digits and hyphens, starting with a letter and not ending in a hyphen, "
        "got 'Train'",
        passes=partition(name="train"),
    ),
    "partition-name-not-a-node": Case(
        fails=partition(name="train-1"),
        key="partitions[0].name",
        says="must be a name that does not end in a hyphen and a number, as a node's does, got 'train-1'",
        passes=partition(name="train1"),
    ),
    "partition-name-length": Case(
        fails=partition(name="a" * 21),
        key="partitions[0].name",
        says=f"must be at most 20 characters, got '{'a' * 21}'",
        passes=partition(name="a" * 20),
    ),
    "region-form": Case(
        fails=cluster(region="Virginia"),
        key="region",
        says="must be an AWS region such as us-east-1, got 'Virginia'",
        passes=cluster(region="us-east-2"),
    ),
    "image-form": Case(
        fails=partition(image="ami-latest"),
        key="partitions[0].image",
        says="must be dlami-ubuntu-24.04 or an AMI's id (ami- and 17 hexadecimal digits), got 'ami-latest'",
        passes=partition(image="ami-0123456789abcdef0"),
    ),
    "placement-group-form": Case(
        fails=partition(placement_group=" mine"),
        key="partitions[0].placement_group",
        says="must be cluster, none or the name of a placement group, got ' mine'",
        passes=partition(placement_group="my group"),
    ),
    "servers-group-form": Case(
        fails=cluster(parameter_servers={"placement_group": ""}),
        key="parameter_servers.placement_group",
        says="must be shared, none or the name of a placement group, got ''",
        passes=cluster(parameter_servers={"placement_group": "mine"}),
    ),
    "reservation-id-form": Case(
        fails=partition(purchase="reservation", reservation_id="mine", placement_group="none"),
        key="partitions[0].reservation_id",
        says="must be a capacity reservation's id (cr-…), got 'mine'",
        passes=partition(purchase="reservation", reservation_id="cr-0123456789abcdef0", placement_group="none"),
    ),
    "snapshot-id-form": Case(
        fails=cluster(head_node={"snapshot_id": "vol-0123456789abcdef0"}),
        key="head_node.snapshot_id",
        says="must be an EBS snapshot's id (snap-…), got 'vol-0123456789abcdef0'",
        passes=cluster(head_node={"snapshot_id": "snap-0123456789abcdef0"}),
    ),
    "vpc-id-form": Case(
        fails=cluster(network={"vpc_id": "my-vpc"}),
        key="network.vpc_id",
        says="must be a VPC's id (vpc-…), got 'my-vpc'",
        passes=cluster(
            availability_zone="us-east-1a", network={"vpc_id": "vpc-01234567", "subnet_id": "subnet-01234567"}
        ),
    ),
    "subnet-id-form": Case(
        fails=cluster(network={"subnet_id": "subnet-private"}),
        key="network.subnet_id",
        says="must be a subnet's id (subnet-…), got 'subnet-private'",
        passes=cluster(
            availability_zone="us-east-1a", network={"vpc_id": "vpc-01234567", "subnet_id": "subnet-01234567"}
        ),
    ),
    "connect-endpoint-id-form": Case(
        fails=cluster(network={"connect_endpoint_id": "endpoint"}),
        key="network.connect_endpoint_id",
        says="must be the id of an EC2 Instance Connect Endpoint (eice-…), got 'endpoint'",
        passes=cluster(availability_zone="us-east-1a", network=DOOR),
    ),
    "security-group-id-form": Case(
        fails=cluster(network={"connect_security_group_id": "default"}),
        key="network.connect_security_group_id",
        says="must be a security group's id (sg-…), got 'default'",
        passes=cluster(availability_zone="us-east-1a", network=DOOR),
    ),
    "kms-key-arn-form": Case(
        fails=cluster(security={"kms_key_arn": "alias/mine"}),
        key="security.kms_key_arn",
        says="must be a KMS key's ARN (arn:aws:kms:…:key/…), got 'alias/mine'",
        passes=cluster(security={"kms_key_arn": KEY}),
    ),
    "policy-arn-form": Case(
        fails=cluster(security={"permissions_boundary_arn": "Boundary"}),
        key="security.permissions_boundary_arn",
        says="must be an IAM policy's ARN (arn:aws:iam::…:policy/…), got 'Boundary'",
        passes=cluster(security={"permissions_boundary_arn": "arn:aws:iam::123456789012:policy/Boundary"}),
    ),
    "email-form": Case(
        fails=cluster(budget={"monthly_usd": 50000.0, "email": "nobody"}),
        key="budget.email",
        says="must be an e-mail address, got 'nobody'",
        passes=cluster(budget={"monthly_usd": 50000.0, "email": "nobody@example.org"}),
    ),
    "s3-uri-form": Case(
        fails=cluster(s3_access=[{"uri": "my-bucket/data"}]),
        key="s3_access[0].uri",
        says="must be an S3 address such as s3://bucket/prefix, got 'my-bucket/data'",
        passes=cluster(s3_access=[{"uri": "s3://my-bucket/data"}]),
    ),
    "repository-path-form": Case(
        fails=link("data"),
        key="storage[0].data_repositories[0].path",
        says="must be an absolute path such as /imagenet, got 'data'",
        passes=link("/data"),
    ),
    "beegfs-scope": Case(
        fails=storage("beegfs-ram", partition="train", gib_per_node=100, scope="node"),
        key="storage[0].scope",
        says="must be cluster or job, got 'node'",
        passes=storage("beegfs-ram", partition="train", gib_per_node=100, scope="job"),
    ),
    "beegfs-version": Case(
        fails=storage("beegfs-ram", partition="train", gib_per_node=100, scope="job", version="7.3"),
        key="storage[0].version",
        says="must be 7.4 or 8, got '7.3'",
        passes=storage("beegfs-ram", partition="train", gib_per_node=100, scope="job", version="7.4"),
    ),
    "beegfs-source-form": Case(
        fails=storage("beegfs-ram", partition="train", gib_per_node=100, scope="job", source="my-bucket/data"),
        key="storage[0].source",
        says="must be an S3 address such as s3://bucket/prefix, or a folder such as /fsx/imagenet, got 'my-bucket/data'",  # noqa: E501
        passes=storage("beegfs-ram", partition="train", gib_per_node=100, scope="job", source="s3://my-bucket/data")
        | {"s3_access": [{"uri": "s3://my-bucket/data"}]},
    ),
    "beegfs-export-form": Case(
        fails=storage("beegfs-ram", partition="train", gib_per_node=100, scope="job", export="my-bucket/out"),
        key="storage[0].export",
        says="must be an S3 address such as s3://bucket/results, or a folder such as /fsx/results, got 'my-bucket/out'",
        passes=storage("beegfs-ram", partition="train", gib_per_node=100, scope="job", export="s3://my-bucket/out")
        | {"s3_access": [{"uri": "s3://my-bucket/out", "access": "read-write"}]},
    ),
    "accounting-kind": Case(
        fails=cluster(accounting="mysql"),
        key="accounting",
        says="must be local, rds or off, got 'mysql'",
        passes=cluster(accounting="off"),
    ),
}
