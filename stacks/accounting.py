"""Slurm's accounting database on RDS."""

from __future__ import annotations

from ipaddress import IPv4Network

import aws_cdk as cdk
from aws_cdk import aws_ec2 as ec2
from aws_cdk import aws_rds as rds
from aws_cdk import aws_secretsmanager as secretsmanager
from constructs import Construct

from stacks import deletion, roles
from stacks.context import Context
from stacks.encryption import key_arn

ENGINE_VERSION = "10.11"
"""The version of Ubuntu 24.04, which its Slurm is tested with."""
INSTANCE_CLASS = "db.t4g.small"
STORAGE_GIB, MAX_STORAGE_GIB = 20, 200
PORT = 3306
USER = "slurm"
MAX_BACKUP_DAYS = 35
PASSWORD_LENGTH = 40
"""The longest password of MariaDB on RDS."""
CA_BUNDLE = "https://truststore.pki.rds.amazonaws.com/{region}/{region}-bundle.pem"

_PARAMETERS = {
    "require_secure_transport": "1",
    # Settings that slurmdbd requires, or warns about.
    "innodb_lock_wait_timeout": "900",
    "max_allowed_packet": "67108864",
}


class Accounting(Construct):
    """An encrypted instance that only the head node reaches. Its password is in no template and no bundle."""

    def __init__(self, scope: Construct, id_: str, *, context: Context) -> None:
        super().__init__(scope, id_)
        self.context = context
        secret = self._password()
        database = self._instance(secret)
        roles.allow(context.head_role, ["secretsmanager:GetSecretValue"], [secret.secret_arn])
        value = {
            "host": database.attr_endpoint_address,
            "port": database.attr_endpoint_port,
            "user": USER,
            "secret_arn": secret.secret_arn,
            "ca_url": CA_BUNDLE.format(region=context.config.region),
        }
        context.parameters.add("Accounting", "accounting", value)

    def _password(self) -> secretsmanager.Secret:
        return secretsmanager.Secret(
            self,
            "Password",
            description="of the accounting database, for slurmdbd",
            encryption_key=self.context.key,
            generate_secret_string=secretsmanager.SecretStringGenerator(
                password_length=PASSWORD_LENGTH,
                exclude_punctuation=True,
                secret_string_template=f'{{"username": "{USER}"}}',
                generate_string_key="password",
            ),
            removal_policy=cdk.RemovalPolicy.DESTROY,
        )

    def _instance(self, secret: secretsmanager.Secret) -> rds.CfnDBInstance:
        head = self.context.config.head_node
        database = rds.CfnDBInstance(
            self,
            "Database",
            engine="mariadb",
            engine_version=ENGINE_VERSION,
            auto_minor_version_upgrade=True,
            db_instance_class=INSTANCE_CLASS,
            allocated_storage=str(STORAGE_GIB),
            max_allocated_storage=MAX_STORAGE_GIB,
            storage_type="gp3",
            storage_encrypted=True,
            kms_key_id=key_arn(self.context.key),
            master_username=USER,
            # A dynamic reference: CloudFormation asks Secrets Manager when it creates the instance.
            master_user_password=secret.secret_value_from_json("password").unsafe_unwrap(),
            port=str(PORT),
            publicly_accessible=False,
            multi_az=False,
            availability_zone=self.context.network.availability_zone,
            db_subnet_group_name=self._subnet_group().ref,
            vpc_security_groups=[self._security_group().security_group_id],
            db_parameter_group_name=self._parameter_group().ref,
            backup_retention_period=min(head.snapshot_days, MAX_BACKUP_DAYS),
            copy_tags_to_snapshot=True,
            deletion_protection=head.termination_protection,
        )
        # A retained instance would keep the subnets and the VPC; so `retain` takes a snapshot instead.
        keep, drop = cdk.CfnDeletionPolicy.SNAPSHOT, cdk.CfnDeletionPolicy.DELETE
        deletion.set_policy(database, drop if head.on_delete == "delete" else keep)
        database.cfn_options.update_replace_policy = keep
        return database

    def _subnet_group(self) -> rds.CfnDBSubnetGroup:
        """RDS requires subnets in two zones, wherever the instance is. These two are the smallest possible and have no
        routes. In an existing VPC nobody knows which addresses are free, so a validator refuses RDS there."""
        network = self.context.network
        zones = [network.availability_zone, self._other_zone(network.availability_zone)]
        subnets = [
            ec2.CfnSubnet(
                self,
                f"Subnet{number}",
                vpc_id=network.vpc.vpc_id,
                availability_zone=zone,
                cidr_block=str(block),
                map_public_ip_on_launch=False,
            )
            for number, (zone, block) in enumerate(
                zip(zones, database_subnets(self.context.config.network.vpc_cidr), strict=True), 1
            )
        ]
        return rds.CfnDBSubnetGroup(
            self,
            "Subnets",
            db_subnet_group_description=f"GpuCluster {self.context.config.name} accounting",
            subnet_ids=[subnet.ref for subnet in subnets],
        )

    def _other_zone(self, zone: str) -> str:
        return next(other for other in cdk.Stack.of(self).availability_zones if other != zone)

    def _security_group(self) -> ec2.SecurityGroup:
        network = self.context.network
        group = ec2.SecurityGroup(
            self, "Group", vpc=network.vpc, description="GpuCluster accounting database", allow_all_outbound=False
        )
        group.add_ingress_rule(network.head, ec2.Port.tcp(PORT), "slurmdbd")
        return group

    def _parameter_group(self) -> rds.CfnDBParameterGroup:
        return rds.CfnDBParameterGroup(
            self,
            "Parameters",
            description=f"GpuCluster {self.context.config.name} accounting",
            family=f"mariadb{ENGINE_VERSION}",
            parameters=_PARAMETERS,
        )


def database_subnets(vpc_cidr: str) -> list[IPv4Network]:
    """The last two blocks of 16 addresses in the lower half of the VPC: nodes are in the upper half, and the public
    subnet is at the start. A VPC needs at least 128 addresses for them."""
    lower = next(IPv4Network(vpc_cidr).subnets())
    return list(lower.subnets(new_prefix=28))[-2:]
