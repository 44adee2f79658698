"""A job for an image whose entry point is AWS's toolkit, which then starts the ranks instead of our own library.

Its hyperparameters are those of params.py in sagemaker-training 5.1.4; each value is JSON in a string, which the
toolkit decodes. It passes those of the program on as options, sorted by name.
"""

from __future__ import annotations

import io
import json
import posixpath
import re
import tarfile
from collections.abc import Iterator, Mapping
from typing import Any

from gpucluster.config.document import Finding
from gpucluster.job.spec import JobSpec
from gpucluster.sagemaker.target import Target
from gpucluster.submission.snapshot import archive

ARCHIVE = "sourcedir.tar.gz"
INTERPRETERS = ("python", "python3")
LOG_LEVEL = 20
"""logging.INFO, the default of AWS's SDK."""
_BY_GPUS = ("torchrun", "smddp")
"""With these it starts a rank for each GPU: sagemaker_mpi_num_of_processes_per_host is for MPI."""


def check(spec: JobSpec, target: Target, ranks: int) -> Iterator[Finding]:
    """`ranks`: on each host."""
    if len(spec.command) < 2 or spec.command[0] not in INTERPRETERS or not spec.command[1].endswith(".py"):
        has = "AWS's toolkit starts a script alone: the command must be python SCRIPT.py and its options"
        yield Finding(("command",), has, "remove toolkit in sagemaker.yaml: then any command runs, without the toolkit")
        return
    options, why = _options(spec.command[2:])
    if why:
        hint = "write each option as --name value; or remove toolkit in sagemaker.yaml"
        yield Finding(("command",), f"AWS's toolkit passes options with values alone: {why}", hint)
    elif taken := next((name for name in options if name.startswith("sagemaker_")), None):
        yield Finding(("command",), f"AWS's toolkit keeps --{taken} for itself", "rename the option")
    per_gpu = target.hardware.gpus or 1
    fixed = per_gpu if spec.launcher in _BY_GPUS else 1 if spec.launcher == "srun" else ranks
    if ranks != fixed:
        has = f"AWS's toolkit starts {fixed} ranks on {target.instance_type} with {spec.launcher}, got {ranks}"
        yield Finding(("ntasks_per_node",), has, "ask for as many, or use launcher: mpirun")


def hyperparameters(spec: JobSpec, target: Target, name: str, place: str, ranks: int) -> dict[str, str]:
    """`name`: of the training job. `place`: its folder in S3."""
    given: dict[str, Any] = {
        "sagemaker_program": spec.command[1],
        "sagemaker_submit_directory": f"{place}/input/{ARCHIVE}",
        "sagemaker_container_log_level": LOG_LEVEL,
        "sagemaker_job_name": name,
        "sagemaker_region": target.region,
        **_launcher(spec.launcher, target, ranks),
        **_options(spec.command[2:])[0],
    }
    return {key: json.dumps(value) for key, value in given.items()}


def packed(archived: bytes, requirements: str) -> bytes:
    """The code of `archive` as the toolkit unpacks it: at the top, beside its requirements.txt."""
    made = io.BytesIO()
    with (
        tarfile.open(fileobj=io.BytesIO(archived)) as source,
        tarfile.open(fileobj=made, mode="w:gz", compresslevel=1) as tar,
    ):
        for member in source:
            root, _, path = posixpath.relpath(member.name, "sourcedir").partition("/")
            if root == "code" and path:
                member.name = path
                tar.addfile(member, source.extractfile(member) if member.isreg() else None)
        if requirements:
            text = requirements.encode()
            entry = tarfile.TarInfo("requirements.txt")
            entry.size = len(text)
            tar.addfile(entry, io.BytesIO(text))
    return made.getvalue()


def source(workdir: Any, requirements: str) -> bytes:
    """Raises UsageError if the working directory is too large."""
    return packed(archive("sourcedir", {}, workdir), requirements)


def _launcher(launcher: str, target: Target, ranks: int) -> Mapping[str, Any]:
    if launcher in ("mpirun", "horovodrun"):
        more = {"sagemaker_mpi_num_of_processes_per_host": ranks, "sagemaker_mpi_custom_mpi_options": ""}
        return {"sagemaker_mpi_enabled": True, **more}
    enabled = {"torchrun": "sagemaker_torch_distributed_enabled", "smddp": "sagemaker_distributed_dataparallel_enabled"}
    if launcher not in enabled:
        return {}
    return {enabled[launcher]: True, "sagemaker_instance_type": target.instance_type}


def _options(words: tuple[str, ...]) -> tuple[dict[str, str], str]:
    """Name -> value, and what cannot be passed."""
    found, rest = dict[str, str](), list(words)
    while rest:
        word = rest.pop(0)
        option = re.fullmatch(r"--([^-=][^=]*)(?:=(.*))?|-([A-Za-z])", word, re.DOTALL)
        if not option:
            return found, f"got {word!r}"
        name, value = option[1] or option[3], option[2]
        if value is None:
            if not rest or re.match(r"--?[A-Za-z]", rest[0]):
                return found, f"{word} has none"
            value = rest.pop(0)
        if name in found:
            return found, f"{word} is given twice"
        found[name] = value
    return found, ""
