"""smddp: torchrun with AWS's SMDDP library as the backend of torch.distributed.

The program selects it: `import smdistributed.dataparallel.torch.torch_smddp`, then `init_process_group("smddp")`.
"""

from __future__ import annotations

from gpucluster.launchers.torchrun import TORCHRUN

SMDDP = TORCHRUN._replace(
    name="smddp",
    frameworks=("smddp",),
    types=("p3dn.24xlarge", "p4d.24xlarge", "p4de.24xlarge"),
    why_these_types="SMDDP cannot be imported on other types; use torchrun there, with NCCL",
)
