"""Whether the head node still has its data volume.

EC2 can detach a mounted volume. Then the device is gone, but the kernel still lists the mount (hashicorp/nomad#25819),
and ext4 answers with input/output errors (Linux 6.5, "ext4: wire up sops->shutdown"). The head node may not even let
anybody log in. So EC2 is asked.
"""

from __future__ import annotations

import json

from gpucluster.cluster.aws import Aws, Head

_USABLE = ("attaching", "attached")


def words(cloud: Aws, head: Head) -> str:
    """Empty if the head node has the volume. Raises CloudError."""
    volume_id: str = json.loads(cloud.parameter("head"))["volume_id"]
    state = head.volumes.get(volume_id, "detached")
    if state in _USABLE:
        return ""
    holds = f"{'/home and ' if cloud.config.volume_mount == '/home' else ''}Slurm's state"
    return (
        f"WARNING: the data volume {volume_id} is {state} from the head node, which then cannot read or write {holds}, "
        "even if they look mounted: `gpucluster head replace` makes a head node that attaches it; compute nodes stay"
    )
