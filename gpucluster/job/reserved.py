"""Names of variables that a job cannot set, because its program would not get the value or its script would fail, and
of those that only its program gets."""

from __future__ import annotations

import re

_BASHS_OWN = (
    "COPROC|DIRSTACK|ENV|EUID|EXECIGNORE|FUNCNAME|FUNCNEST|GLOBIGNORE|GROUPS|HISTCMD|IFS|LINENO|MAPFILE|OLDPWD|"
    "PIPESTATUS|POSIXLY_CORRECT|PPID|PS4|PWD|RANDOM|REPLY|SECONDS|SHELLOPTS|SHLVL|SRANDOM|TIMEFORMAT|TMOUT|UID|"
    "BASH.*|COMP_.*|EPOCH.*|OPT(ARG|IND|ERR)|_"
)
"""Bash's manual, "Shell Variables": read-only, computed at each use, or changing how a script is read."""
_OURS = (
    "RANK|LOCAL_RANK|WORLD_SIZE|NODE_RANK|MASTER_ADDR|MASTER_PORT|NUM_NODES|GPUS_PER_NODE|RANKS_PER_NODE|MIN_NODES|"
    "CPUS_PER_RANK|NUM_SERVERS|NUM_SERVER_NODES|TF_CONFIG|TF_CLUSTER|CONTAINER_IMAGE|CONTAINER_MOUNTS|"
    "GPUCLUSTER_(?!SEED$).*|DMLC_(ROLE|NODE_HOST|PS_ROOT_.*|NUM_.*)"
)


_LAUNCHERS = (
    "LOCAL_WORLD_SIZE|GROUP_RANK|GROUP_WORLD_SIZE|ROLE_(RANK|WORLD_SIZE|NAME)|TORCHELASTIC_(RUN_ID|RESTART_COUNT)|"
    "HOROVOD_(RANK|SIZE|LOCAL_RANK|LOCAL_SIZE|CROSS_RANK|CROSS_SIZE|HOSTNAME|GLOO_RENDEZVOUS_.*)|"
    "OMPI_COMM_WORLD_.*|PMI_.*|PMIX_(?!MCA_).*"
)
"""torchrun's elastic agent (LocalElasticAgent), horovodrun (gloo_run.py) and Open MPI set them for each rank. Users set
PMIx's parameters, such as PMIX_MCA_gds, themselves."""
_SLURMS = (
    "(?!SLURM_(MPI_TYPE|CPU_BIND)$)"
    "(SLURM|SLURMD|SBATCH|SALLOC|SRUN|SQUEUE|SINFO|SACCT|SCANCEL|SCONTROL|SATTACH|SBCAST|SSTAT)_.*"
)
"""Slurm's commands read them as options ("ENVIRONMENT VARIABLES" in their man pages): srun starts the ranks.
The two that are left out choose only how: our own steps give --cpu-bind themselves."""
LOADERS = r"LD_.*|GLIBC_TUNABLES|GCONV_PATH|LOCPATH|NLSPATH|MALLOC_.*"
"""The dynamic loader and the C library read them in every program (ld.so(8), environ(7)). The job's own programs must
not load other libraries than the node's."""


def refusal(name: str) -> tuple[str, str] | None:
    """Why the name is refused, and what to do; None if a job may set it."""
    other = "choose another name"
    if re.fullmatch(_BASHS_OWN, name):
        return "bash sets it itself", other
    if re.fullmatch(_OURS, name):
        return "the job sets it for each rank", other
    if re.fullmatch(_LAUNCHERS, name):
        return "the launcher sets it for each rank", other
    if re.fullmatch(_SLURMS, name):
        return "srun would read it when it starts the ranks", f"write env {name}=… before the program in command"
    return None


def only_for_programs(name: str) -> bool:
    return re.fullmatch(LOADERS, name) is not None
