"""Values that most constructs need: the file, the network, the roles, the key, and the parameters' path."""

from __future__ import annotations

from dataclasses import dataclass

from aws_cdk import aws_iam as iam
from aws_cdk import aws_kms as kms

from gpucluster.config import ClusterConfig
from gpucluster.layout import Layout
from stacks.bundle import Parameters
from stacks.network import Network


@dataclass(frozen=True)
class Context:
    layout: Layout
    network: Network
    head_role: iam.Role
    compute_role: iam.Role
    key: kms.IKey | None
    """The customer's key; None if AWS's own keys encrypt."""
    parameters: Parameters

    @property
    def config(self) -> ClusterConfig:
        return self.layout.config
