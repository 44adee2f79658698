"""smddp: torchrun, with AWS's SMDDP library as torch.distributed's backend.

The program asks for it: `import smdistributed.dataparallel.torch.torch_smddp`, then `init_process_group("smddp")`.
"""

from __future__ import annotations

from dataclasses import replace

from gpucluster.launchers.torchrun import TORCHRUN

SMDDP = replace(
    TORCHRUN,
    name="smddp",
    frameworks=("smddp",),
    types=("p3dn.24xlarge", "p4d.24xlarge", "p4de.24xlarge"),
    why_these_types="SMDDP refuses to be imported elsewhere; torchrun trains there with NCCL",
)
