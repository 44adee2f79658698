"""File systems that exist already: an address for the nodes, and permission to ask FSx for one. Nothing of theirs is
created or changed, their security groups included."""

from __future__ import annotations

import aws_cdk as cdk
from constructs import Construct

from gpucluster.config import storage as kinds
from stacks import roles
from stacks.context import Context
from stacks.storage.mounts import announce

DESCRIBE_FSX = {
    "fsx-lustre": ("fsx:DescribeFileSystems",),
    "fsx-openzfs": ("fsx:DescribeVolumes", "fsx:DescribeFileSystems"),
    "fsx-ontap": ("fsx:DescribeVolumes", "fsx:DescribeStorageVirtualMachines"),
}


class Existing(Construct):
    """The head node asks FSx for its addresses. For /home all nodes do: they mount it before they can read what the
    head node found."""

    def __init__(self, scope: Construct, id_: str, *, context: Context, storage: kinds.Existing) -> None:
        super().__init__(scope, id_)
        known = {storage.id_key: storage.its_id}
        if isinstance(storage, kinds.ExistingEfs):
            suffix = cdk.Stack.of(self).url_suffix
            known |= {"dns_name": f"{storage.its_id}.efs.{context.config.region}.{suffix}", "access": "tls"}
        announce(context, storage, known)
        if storage.asks_fsx:
            everywhere = storage.mount == "/home"
            for role in (context.head_role, context.compute_role) if everywhere else (context.head_role,):
                roles.allow(role, DESCRIBE_FSX[storage.type], ["*"])  # AWS has no scope for it
