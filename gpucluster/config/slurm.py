"""The section `slurm` of cluster.yaml: how Slurm schedules, beside what partitions say."""

from typing import Annotated, ClassVar, Literal

from gpucluster.config.limits import Limit
from gpucluster.config.section import Section


class Slurm(Section):
    heading: ClassVar[str] = "Slurm"

    memory: Annotated[
        Literal["shared", "allocated"], Limit("slurm-memory", "man slurm.conf.5: SelectTypeParameters: CR_CPU_Memory")
    ] = "shared"
