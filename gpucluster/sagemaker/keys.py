"""What becomes of each key of job.yaml on SageMaker.

A key that decides what is computed, or what the user is promised, is refused. One that only chooses a place in Slurm's
queue is left out, and said so: the same file works on both.
"""

from __future__ import annotations

from collections.abc import Iterator

from gpucluster.config.document import Finding
from gpucluster.job.spec import JobSpec

CARRIED = frozenset(
    (
        *("name", "project", "target", "nodes", "gpus_per_node", "ntasks_per_node", "launcher", "framework"),
        *("command", "time", "env", "workdir", "container_image", "channels", "metrics", "state", "efa"),
        *("outputs", "after", "requirements", "sweep", "max_parallel"),
    )
)
"""`request`, `channels` and `chains` read these, and check their values."""

_NO_SLURM = "it is a word of Slurm's, which SageMaker does not have: remove it"
_IMAGE = "build them into an image, and name it as image in sagemaker.yaml"
REFUSED = {
    "controller": "use launcher: mpirun, whose ranks coordinate over MPI",
    "min_nodes": "a training job fails when one of its hosts does: remove it",
    "secrets": "DescribeTrainingJob shows the environment to others: let the program read Secrets Manager",
    "python": "the image has its own: remove it",
    "setup": _IMAGE,
    "servers": "use a launcher without parameter servers",
    "container_mounts": "use channels",
    "signal": "SageMaker sends SIGTERM alone, 120 s before it kills: let the program expect that",
    "hang_timeout": "set time, which ends a job that hangs",
    "array": "use sweep, such as index=0..11: {index} in the command, or GPUCLUSTER_SWEEP_INDEX",
    "dependency": "use after, or submit the second job when the first has ended",
    "begin": _NO_SLURM,
    "output": "the log is in CloudWatch, in /aws/sagemaker/TrainingJobs: remove it",
    "sbatch_args": _NO_SLURM,
    "resubmit": "raise time, of at most 28 days",
    "resubmit_limit": "raise time, of at most 28 days",
    "exports": "let the program write to SM_MODEL_DIR",
    "notify": "let EventBridge tell of SageMaker Training Job State Change",
}
"""Key -> what to do instead."""
LEFT_OUT = {
    "partition": "instance_type in sagemaker.yaml chooses the machines",
    "preflight": "nodes are not checked there",
    "requeue": "SageMaker starts only spot jobs again",
    "exclusive": "a training job has its machines to itself",
    "mem": "a training job has its machines to itself",
    "mem_per_gpu": "a training job has its machines to itself",
    "cpus_per_task": "a training job has its machines to itself",
    "binding": "ranks are not bound there",
    "account": "there is no Slurm",
    "qos": "there is no Slurm",
    "constraint": "there is no Slurm",
    "reservation": "there is no Slurm",
}
"""Key -> why it has no meaning there."""


def check(spec: JobSpec) -> Iterator[Finding]:
    for key in _given(spec):
        if key in REFUSED:
            yield Finding((key,), "a job on SageMaker cannot have this key", REFUSED[key], at="key")


def notes(spec: JobSpec) -> Iterator[str]:
    return (f"{key} is left out: {LEFT_OUT[key]}" for key in _given(spec) if key in LEFT_OUT)


def _given(spec: JobSpec) -> Iterator[str]:
    """The keys whose values are not the defaults."""
    fields = type(spec).model_fields
    return (key for key, field in fields.items() if getattr(spec, key) != field.default)
