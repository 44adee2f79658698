"""What keeps data: /home on the head's volume, and the file systems and buckets that cluster.yaml names.

A construct here makes its AWS resources, opens its ports, grants the nodes' roles what they need of it, and writes what
nodes must know into a parameter `storage/<mount>`, as JSON with the key `type`.
"""

from __future__ import annotations

from constructs import Construct

from stacks.context import Context


class Storage(Construct):
    def __init__(self, scope: Construct, id_: str, *, context: Context) -> None:
        super().__init__(scope, id_)
        self.context = context
