"""A job as the request CreateTrainingJob. Pure: the same job gives the same request.

Beside the job's channels, each host gets one with our library and the job's folder, and its container starts that
library: docs/design.md has the contract.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

from gpucluster.addresses import in_s3
from gpucluster.config.document import Finding
from gpucluster.job.chain import VARIABLE
from gpucluster.job.spec import JobSpec, seconds_of
from gpucluster.job.task import Task
from gpucluster.sagemaker import images, limits, tasks, toolkit
from gpucluster.sagemaker.channels import OURS, Planned
from gpucluster.sagemaker.target import Target

DAY_S = 86_400
LONGEST_S = 28 * DAY_S
"""botocore's documentation of MaxRuntimeInSeconds: "The default value is 1 day. The maximum value is 28 days."."""
LAUNCHERS = ("torchrun", "smddp", "mpirun", "horovodrun", "srun")
"""Those that gpucluster_job/sagemaker/launchers.py starts; srun: the ranks alone."""
SMDDP_TYPES = ("ml.p3.16xlarge", "ml.p3dn.24xlarge", "ml.p4d.24xlarge", "ml.p4de.24xlarge")
"""The instance types of SMDDP: the list in sagemaker-python-sdk's fw_utils.py."""
STARTED_AT = "%Y%m%d-%H%M%S"
"""A training job's name is taken for ever: the time makes each another one."""
NAME_LEFT = 63 - len("-20260101-000000")
"""TrainingJobName has at most 63 characters: botocore's model."""
ARCHIVE = f"{OURS}.tar.gz"
CHECKPOINTS = "/opt/ml/checkpoints"
"""botocore's documentation of CheckpointConfig.LocalPath: its default."""
CHECKPOINTS_S3 = "GPUCLUSTER_CHECKPOINTS_S3"
"""The variable with which gpucluster_job/sagemaker/checkpoints.py compares the copy."""
OUTPUTS = "outputs"
SCRIPT = (
    f"tar -xzf /opt/ml/input/data/{OURS}/{ARCHIVE} -C /tmp && mkdir -p /tmp/{OURS}/code && cd /tmp/{OURS}/code && "
    f'exec python3 -IS /tmp/{OURS}/lib/gpucluster_job sagemaker "$@"'
)
"""`exec`: SageMaker sends SIGTERM to the container's first process."""
_KEYS = {
    "TrainingJobName": "name",
    "Environment": "env",
    "ContainerArguments": "command",
    "HyperParameters": "command",
    "MetricDefinitions": "metrics",
    "InputDataConfig": "channels",
    "ResourceConfig": "nodes",
    "CheckpointConfig": "state",
    "Tags": "project",
}
"""Member of the request -> the key of job.yaml that its value comes from."""


def job_name(spec: JobSpec, started: str) -> str:
    """`started`: the time as STARTED_AT."""
    return f"{tasks.stem(spec.name or 'job')}-{started}"


def place(target: Target, name: str) -> str:
    """Where in S3 the files of this training job lie."""
    return f"{target.root}/{name}"


def state(spec: JobSpec, target: Target) -> str | None:
    """Where in S3 the state of its task lies. None if it is no run of a task."""
    task = Task.of(spec)
    if task is None:
        return None
    return f"{spec.state.rstrip('/') if spec.state else f'{target.root}/tasks'}/{task.label}"


def outputs(state: str) -> str:
    """Where in S3 the outputs of a task lie: in its state, because SageMaker copies one folder during a job."""
    return f"{state}/{OUTPUTS}"


def check(spec: JobSpec, target: Target) -> Iterator[Finding]:
    """`spec` is completed. What the model of the request does not know."""
    kind = target.hardware
    if len(spec.name or "") > NAME_LEFT:
        has = f"a training job's name has at most 63 characters, 16 of them for the time, got {len(spec.name or '')}"
        yield Finding(("name",), has, f"choose one of at most {NAME_LEFT}")
    if spec.launcher not in LAUNCHERS:
        yield Finding(("launcher",), f"{spec.launcher} does not run on SageMaker", f"use one of {', '.join(LAUNCHERS)}")
    if spec.launcher == "smddp" and target.instance_type not in SMDDP_TYPES:
        has = f"SMDDP does not support {target.instance_type}, only {', '.join(SMDDP_TYPES)}"
        yield Finding(("launcher",), has, "use launcher: torchrun, with NCCL over EFA where the type has it")
    if (spec.gpus_per_node or 0) > kind.gpus:
        has = f"{target.instance_type} has {kind.gpus} GPU{'s' * (kind.gpus != 1)}, got {spec.gpus_per_node}"
        yield Finding(("gpus_per_node",), has, "ask for fewer, or choose another instance_type in sagemaker.yaml")
    if spec.efa == "required" and not kind.efa_interfaces:
        hint = "choose another instance_type in sagemaker.yaml, or efa: auto"
        yield Finding(("efa",), f"EFA is required, and {target.instance_type} has none", hint)
    if spec.state and not in_s3(spec.state):
        yield Finding(("state",), f"{spec.state} is a path on the cluster", "name an s3:// prefix")
    elif spec.state and not spec.project:
        yield Finding(("state",), "only a job with a name keeps state", "add a name, such as --name train")
    if target.toolkit:
        yield from toolkit.check(spec, target, ranks_per_node(spec, target))
    elif not all(spec.command):
        has = "SageMaker passes no empty arguments"  # sagemaker-python-sdk#3758
        yield Finding(("command",), has, "leave the option out, or put the command into a file of the job's folder")
    elif any("\n" in word for word in spec.command):
        has = "SageMaker passes no arguments with line breaks"
        yield Finding(("command",), has, "put the command into a file of the job's folder")
    yield from _image(spec, target)
    yield from _times(spec, target)


def _image(spec: JobSpec, target: Target) -> Iterator[Finding]:
    if target.image and f".ecr.{target.region}." not in target.image:
        has = f"image in sagemaker.yaml is not in {target.region}, from where alone SageMaker pulls there"
        yield Finding((), has, f"copy {target.image} to ECR in {target.region}")  # mlops-amazon-sagemaker#9
    if target.image or spec.launcher not in LAUNCHERS:
        return
    if spec.container_image:
        hint = "name its copy in ECR as image in sagemaker.yaml"
        yield Finding(("container_image",), f"SageMaker pulls images from ECR alone, got {spec.container_image}", hint)
    elif spec.launcher == "horovodrun":
        has = "AWS's images for SageMaker are not known to have Horovod"
        yield Finding(("launcher",), has, "name one of your own as image in sagemaker.yaml, or use another launcher")
    elif not _framework_image(spec, target):
        has = f"AWS has no image with {spec.framework} for SageMaker"
        yield Finding(("framework",), has, "name one of your own as image in sagemaker.yaml")


def _framework_image(spec: JobSpec, target: Target) -> str | None:
    return images.of(spec.framework or "", target.region, gpus=target.hardware.gpus > 0)


def _times(spec: JobSpec, target: Target) -> Iterator[Finding]:
    run = runtime_s(spec)
    if run > LONGEST_S:
        yield Finding(("time",), f"SageMaker runs a job for at most 28 days, got {spec.time}", "ask for less")
    if target.max_wait and (wait := seconds_of(target.max_wait)) < run:
        has = f"max_wait in sagemaker.yaml is {wait} s, less than the job's {run} s: it contains them"
        yield Finding(("time",), has, "raise max_wait, or lower time")


def runtime_s(spec: JobSpec) -> int:
    return seconds_of(spec.time) if spec.time else DAY_S


def ranks_per_node(spec: JobSpec, target: Target) -> int:
    return spec.ntasks_per_node or (target.hardware.gpus if spec.gpus_per_node is None else spec.gpus_per_node) or 1


def build(spec: JobSpec, target: Target, name: str, planned: Planned, key: str = "") -> dict[str, Any]:
    """`spec` is completed and checked. `name`: from `job_name`. `key`: of a task's run (gpucluster/job/sameness.py)."""
    where = place(target, name)
    asked: dict[str, Any] = {
        "TrainingJobName": name,
        "RoleArn": target.role_arn,
        "AlgorithmSpecification": {
            "TrainingImage": target.image or _framework_image(spec, target) or "",
            "TrainingInputMode": "File",
        },
        "OutputDataConfig": {"S3OutputPath": target.root} | _key("KmsKeyId", target),
        "ResourceConfig": _machines(spec, target),
        "TensorBoardOutputConfig": {"S3OutputPath": f"{where}/tensorboard"},
        "StoppingCondition": {"MaxRuntimeInSeconds": runtime_s(spec)},
        "Tags": _tags(spec, key),
    }
    if target.toolkit:
        ranks = ranks_per_node(spec, target)
        asked["HyperParameters"] = toolkit.hyperparameters(spec, target, name, where, ranks)
        asked |= {"InputDataConfig": list(planned.inputs)} if planned.inputs else {}
    else:
        entry = {"ContainerEntrypoint": ["/bin/sh", "-c", SCRIPT, OURS]}
        asked["AlgorithmSpecification"] |= {**entry, "ContainerArguments": _words(spec, target, planned)}
        asked["InputDataConfig"] = [_ours(where), *planned.inputs]
    if environment := {**spec.env, **_variables(spec, target)}:
        asked["Environment"] = environment
    if spec.metrics:
        found = [{"Name": key, "Regex": _first_group(value)} for key, value in spec.metrics.items()]
        asked["AlgorithmSpecification"]["MetricDefinitions"] = found
    if target.subnets:
        asked["VpcConfig"] = {"Subnets": list(target.subnets), "SecurityGroupIds": list(target.security_groups)}
    if where_state := state(spec, target):
        asked["CheckpointConfig"] = {"S3Uri": _folder(where_state)}
    if target.spot and target.max_wait:
        asked["EnableManagedSpotTraining"] = True
        asked["StoppingCondition"]["MaxWaitTimeInSeconds"] = seconds_of(target.max_wait)
    return asked


def _folder(where: str) -> str:
    """SageMaker restores all keys that begin with S3Uri: without the slash, those of lr-10 to the job lr-1
    (syne-tune#363)."""
    return f"{where}/"


def _tags(spec: JobSpec, key: str) -> list[dict[str, str]]:
    found = {"project": spec.project, "name": spec.name, "run": key}
    return [{"Key": f"{tasks.TAG}{name}", "Value": value} for name, value in found.items() if value]


def _variables(spec: JobSpec, target: Target) -> dict[str, str]:
    where = state(spec, target)
    if not where:
        return {}
    folders = {f"{VARIABLE}{name.upper()}": f"{CHECKPOINTS}/{OUTPUTS}/{name}" for name in spec.outputs}
    state_folder = {"GPUCLUSTER_STATE": CHECKPOINTS} if target.toolkit else {}  # otherwise our library sets it
    return {CHECKPOINTS_S3: where, **state_folder, **folders}


def _words(spec: JobSpec, target: Target, planned: Planned) -> list[str]:
    readers = (word for name, who in planned.readers.items() for word in ("--channel", f"{name}={who}"))
    ranks = str(ranks_per_node(spec, target))
    return ["--launcher", spec.launcher, "--ranks-per-node", ranks, *readers, "--", *spec.command]


def _ours(where: str) -> Mapping[str, Any]:
    source = {"S3DataType": "S3Prefix", "S3Uri": f"{where}/input/", "S3DataDistributionType": "FullyReplicated"}
    return {"ChannelName": OURS, "DataSource": {"S3DataSource": source}, "InputMode": "File"}


def _key(member: str, target: Target) -> dict[str, str]:
    return {member: target.kms_key_arn} if target.kms_key_arn else {}


def _machines(spec: JobSpec, target: Target) -> dict[str, Any]:
    """botocore's documentation of VolumeKmsKeyId: "You can't request a VolumeKmsKeyId when using an instance type with
    local storage"; AWS's of VolumeSizeInGB: "You can't request a VolumeSizeInGB greater than the total size of the
    local instance storage"."""
    local_gb, size = target.hardware.nvme_gb, min(target.volume_gb, target.disk_gb)
    machines = {"InstanceType": target.instance_type, "InstanceCount": spec.nodes, "VolumeSizeInGB": size}
    return machines | ({} if local_gb else _key("VolumeKmsKeyId", target))


def _first_group(expression: str) -> str:
    """SageMaker takes the first group of an expression: that of the step must not be one."""
    return re.sub(r"\(\?P<(\w+)>", lambda found: "(?:" if found[1] == "step" else "(", expression)


def refusals(request: Mapping[str, Any]) -> Iterator[Finding]:
    """What the model refuses, at the key that the value comes from."""
    for fault in limits.faults(request):
        key = next((_KEYS[part] for part in fault.path if part in _KEYS), "")
        name = ".".join(fault.path)
        hint = "put it into a file of the job's folder" if key in ("command", "env") else None
        yield Finding((key,) if key else (), f"{name} of CreateTrainingJob {fault.message}", hint)
