"""BeeGFS in the nodes' memory: a secret, open ports, and which node runs which service; no AWS file system."""

from __future__ import annotations

import aws_cdk as cdk
from aws_cdk import aws_secretsmanager as secretsmanager
from constructs import Construct

from gpucluster.addresses import S3Uri, in_s3
from gpucluster.config import storage as kinds
from gpucluster.render import node_range
from stacks import roles
from stacks.arns import s3_arn
from stacks.context import Context
from stacks.encryption import grant_objects
from stacks.storage import firewall
from stacks.storage.mounts import announce, tag
from stacks.storage.s3_access import listed, objects

PORTS = {"storage": 8003, "client": 8004, "meta": 8005, "helperd": 8006, "mgmtd": 8008, "mgmtd_grpc": 8010}
"""BeeGFS's default ports. `helperd` belongs to BeeGFS 7; the client asks it only on its own node."""

TO_HEAD = tuple(firewall.Ports(*each) for each in (("tcp", 8008), ("udp", 8008), ("tcp", 8010), ("udp", 8004)))
"""Management, its gRPC port, and the port on which servers reach the head node's client."""

TO_COMPUTE = tuple(
    firewall.Ports(*each) for each in (("tcp", 8003), ("udp", 8003), ("udp", 8004), ("tcp", 8005), ("udp", 8005))
)
"""Storage, management's messages to clients, and metadata."""


class BeegfsRam(Construct):
    """`cluster`: the head node runs management, the partition's always-on nodes are the servers, all nodes are clients.

    `job`: the nodes of a job run everything, and the first runs management. Two jobs at once have two file systems, and
    the head node could manage only one on its ports. All ports between compute nodes are open already.
    """

    def __init__(self, scope: Construct, id_: str, *, context: Context, storage: kinds.BeegfsRam) -> None:
        super().__init__(scope, id_)
        self._context = context
        self._storage = storage
        self.secret = self._secret()
        readers = (context.head_role, context.compute_role) if self._of_cluster else (context.compute_role,)
        for role in readers:
            roles.allow(role, ["secretsmanager:GetSecretValue"], [self.secret.secret_arn])
        if self._of_cluster:
            self._open_ports()
            self._grant_source()
        tag(self, context, storage.mount)
        announce(context, storage, self._describe())

    @property
    def _of_cluster(self) -> bool:
        return self._storage.scope == "cluster"

    def _secret(self) -> secretsmanager.Secret:
        """The content of connAuthFile. Without one, BeeGFS serves every client that reaches its ports, as root."""
        return secretsmanager.Secret(
            self,
            "ConnectionSecret",
            description=f"what the servers and clients of BeeGFS on {self._storage.mount} know each other by",
            encryption_key=self._context.key,
            generate_secret_string=secretsmanager.SecretStringGenerator(password_length=128, exclude_punctuation=True),
            removal_policy=cdk.RemovalPolicy.DESTROY,
        )

    def _open_ports(self) -> None:
        network = self._context.network
        firewall.admit(self, "ComputeToHead", into=network.head, source=network.compute, ports=TO_HEAD)
        firewall.admit(self, "HeadToCompute", into=network.compute, source=network.head, ports=TO_COMPUTE)

    def _grant_source(self) -> None:
        """The servers fill the file system, each its part. A job fills its own."""
        source = self._storage.source
        if not source or not in_s3(source):
            return
        uri, role = S3Uri.of(source), self._context.compute_role
        named = [s3_arn(self, each) for each in objects(uri)]
        bucket = s3_arn(self, uri.bucket)
        condition = {"StringLike": {"s3:prefix": [listed(uri)]}} if uri.prefix else None
        roles.allow(role, ["s3:GetObject"], named)
        roles.allow(role, ["s3:ListBucket"], [bucket], condition)
        grant_objects(role, self._context.key, write=False)

    def _describe(self) -> dict[str, object]:
        """`nodes`, by service: `all`, `job` (the job's nodes), `first of job`, or names as Slurm writes them."""
        return {
            "auth_secret_arn": self.secret.secret_arn,
            "scope": self._storage.scope,
            "partition": self._storage.partition,
            "gib_per_node": self._storage.gib_per_node,
            "management": f"head.{self._context.config.zone}" if self._of_cluster else None,
            "nodes": self._nodes(),
            "ports": PORTS,
        }

    def _nodes(self) -> dict[str, str]:
        if not self._of_cluster:
            return {"mgmtd": "first of job", "meta": "job", "storage": "job", "client": "job"}
        always_on = self._context.layout.partition(self._storage.partition).min_nodes
        servers = node_range(self._storage.partition, always_on)
        return {"mgmtd": "head", "meta": servers, "storage": servers, "client": "all"}
