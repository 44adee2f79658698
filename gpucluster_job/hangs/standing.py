"""Which ranks stand in a collective, by their stacks, and which do other things meanwhile."""

from __future__ import annotations

import re
from typing import Mapping, Sequence, Tuple

from gpucluster_job.hangs.missing import Missing

Frame = Tuple[str, str, str]
"""File, line, function; the innermost is the first."""

_COLLECTIVE = re.compile(
    r"/torch/distributed/(distributed_c10d|c10d_logger|_functional_collectives|nn/functional)\.py$"
    r"|/horovod/(torch|tensorflow|common|mxnet|_keras)/.*(mpi_ops|basics|functions)\.py$"
    r"|/smdistributed/dataparallel/|/mpi4py/"
)
_WRAPPERS = ("wrapper", "inner", "_wrapper", "decorator")
_UNSURE = re.compile(r"/torch/autograd/|/torch/cuda/|/torch/nn/parallel/|/torch/distributed/(fsdp|_composable)")
"""Here a rank may wait for others, in a collective that the library has started, or may work."""


def collective(frames: Sequence[Frame]) -> str:
    """The function of the library in which the rank waits; empty if it stands elsewhere."""
    inside: list[str] = []
    for file, _, function in frames:
        if _COLLECTIVE.search(file):
            inside.append(function)
        elif inside:
            break
    named = [each for each in inside if each not in _WRAPPERS]
    return named[-1] if named else ""


def missing(stacks: Mapping[str, Sequence[Frame]], gave_up: Sequence[str] = ()) -> Missing | None:
    """stacks: by label. Ranks that stand in code that may wait too are neither. gave_up: ranks that waited until they
    timed out."""
    inside = {label: name for label, frames in stacks.items() if frames and (name := collective(frames))}
    outside = [
        label for label, frames in stacks.items() if frames and label not in inside and not _UNSURE.search(frames[0][0])
    ]
    waited = dict.fromkeys([*gave_up, *inside])
    outside = [label for label in outside if label not in waited]
    names = ", ".join(dict.fromkeys(inside.values())) or "the collective"
    return Missing(outside, names, list(waited)) if waited and outside else None
