"""Names of variables that a job cannot set: its program would not get the value, or its script would fail."""

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
    "NUM_SERVERS|NUM_SERVER_NODES|TF_CONFIG|TF_CLUSTER|CONTAINER_IMAGE|CONTAINER_MOUNTS|"
    "GPUCLUSTER_(?!SEED$).*|DMLC_(ROLE|NODE_HOST|PS_ROOT_.*|NUM_.*)"
)


def refusal(name: str) -> str | None:
    """Why the name is refused, or None if a job may set it."""
    if re.fullmatch(_BASHS_OWN, name):
        return "bash sets it itself"
    if re.fullmatch(_OURS, name):
        return "the job sets it for each rank"
    return None
