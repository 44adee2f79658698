"""Rules about `software.frameworks` and the nodes that they can run on."""

from __future__ import annotations

from collections.abc import Iterator

from gpucluster.config.document import Finding, Path
from gpucluster.config.models import ClusterConfig, Software
from gpucluster.config.validators import Findings, Validators
from gpucluster.hardware.instances import INSTANCE_TYPES

validator = Validators("Software")

SMDDP_TYPES = ("p3dn.24xlarge", "p4d.24xlarge", "p4de.24xlarge")
SMDDP = "https://docs.aws.amazon.com/sagemaker/latest/dg/distributed-data-parallel-support.html"

CUDA_11_2_GPUS = ("v100", "t4", "a100", "a10g")
"""Compute capability 7.0 to 8.6. L4, L40S (8.9), Hopper (9.0) and Blackwell (10.0) came with CUDA 11.8 and later."""

CUDA_11 = (
    "https://docs.nvidia.com/cuda/archive/11.2.2/cuda-compiler-driver-nvcc/index.html: sm_86 is the newest; "
    "https://pypi.org/project/mxnet-cu112/: the last release"
)


@validator(
    "horovod-needs-framework",
    "https://horovod.readthedocs.io/en/latest/install.html: it is built against the frameworks that are there",
)
def horovod_needs_framework(software: Software, path: Path, config: ClusterConfig) -> Findings:
    """Horovod comes with PyTorch or TensorFlow: it is built against those."""
    if "horovod" in software.frameworks and not {"torch", "tensorflow"} & set(software.frameworks):
        yield Finding(
            (*path, "frameworks", software.frameworks.index("horovod")),
            "horovod needs torch or tensorflow, but the list has neither",
            "write frameworks: [torch, horovod], or [tensorflow, horovod]",
        )


@validator("smddp-needs-torch", f"{SMDDP}: TensorFlow ended with 2.11")
def smddp_needs_torch(software: Software, path: Path, config: ClusterConfig) -> Findings:
    """SMDDP comes with PyTorch: it is a backend of torch.distributed."""
    if "smddp" in software.frameworks and "torch" not in software.frameworks:
        yield Finding(
            (*path, "frameworks", software.frameworks.index("smddp")),
            "smddp is a backend of torch.distributed, but torch is not in the list",
            "add torch; SMDDP supports TensorFlow only up to version 2.11",
        )


@validator("smddp-instance-types", f"{SMDDP}: supported instance types")
def smddp_instance_types(software: Software, path: Path, config: ClusterConfig) -> Findings:
    """For SMDDP a partition has types that it runs on: since 2.3.0 the import fails on all but p3dn, p4d and p4de."""
    if "smddp" in software.frameworks and not set(SMDDP_TYPES) & set(_types(config)):
        yield Finding(
            (*path, "frameworks", software.frameworks.index("smddp")),
            f"smddp runs on {', '.join(SMDDP_TYPES[:-1])} and {SMDDP_TYPES[-1]} only, but no partition has one",
            "remove smddp, since later types train with NCCL; or add a partition of p4d.24xlarge",
        )


@validator("mxnet-gpus", CUDA_11)
def mxnet_gpus(software: Software, path: Path, config: ClusterConfig) -> Findings:
    """For MXNet a partition has GPUs that CUDA 11.2 supports: none newer than A100 and A10G."""
    models = {INSTANCE_TYPES[name].gpu_model for name in _types(config)} - {None}
    if "mxnet" in software.frameworks and models and not models & set(CUDA_11_2_GPUS):
        yield Finding(
            (*path, "frameworks", software.frameworks.index("mxnet")),
            f"mxnet's CUDA 11.2 supports none of the cluster's GPUs: {', '.join(sorted(filter(None, models)))}",
            "it supports V100, T4, A100 and A10G: p3, p4d, g4dn, g5",
        )


def _types(config: ClusterConfig) -> Iterator[str]:
    for partition in config.partitions:
        yield from (name for name in partition.instance_types if name in INSTANCE_TYPES)
