"""The variables SM_* as AWS's toolkit sets them (environment.py and mapping.py in sagemaker-training 5.1.4), from the
same files. tests/data/sagemaker/toolkit.json has what the toolkit itself has set."""

from __future__ import annotations

import json
import os
import posixpath
import subprocess
from typing import Any, Mapping, NamedTuple, Sequence

from gpucluster_job.sagemaker.inputs import Host

LOG_LEVEL = 20
"""logging.INFO."""
INTERPRETERS = ("python", "python3")


class Machine(NamedTuple):
    gpus: int
    cpus: int


def machine() -> Machine:
    """The GPUs that nvidia-smi lists, as the toolkit counts them."""
    try:
        asked = subprocess.run(
            ["nvidia-smi", "--list-gpus"], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, check=False
        )
        gpus = sum(line.startswith(b"GPU ") for line in asked.stdout.splitlines())
    except OSError:
        gpus = 0
    return Machine(gpus, os.cpu_count() or 1)


def of_toolkit(
    host: Host, machine: Machine, command: Sequence[str], job: str, folders: Mapping[str, str] | None = None
) -> dict[str, str]:
    """`command`: the program and its arguments. `job`: its name, or "". `folders`: those of the channels, if they are
    not in input/data."""
    facts = _facts(host, machine, command, job)
    if folders is not None:
        facts["channel_input_dirs"] = dict(folders)
    more = {f"channel_{name}": path for name, path in facts["channel_input_dirs"].items()}
    more.update({f"hp_{name}": value for name, value in host.own_hyperparameters.items()})
    given = host.hyperparameters
    return {
        **{f"SM_{name.upper()}": _text(value) for name, value in {**_shown(facts), **more}.items()},
        "CURRENT_HOST": host.name,
        "SAGEMAKER_JOB_NAME": str(given.get("sagemaker_job_name", job)),
        "SAGEMAKER_REGION": str(given.get("sagemaker_region") or os.environ.get("AWS_REGION", "")),
    }


def arguments(hyperparameters: Mapping[str, Any]) -> list[str]:
    """Hyperparameters as options of a program."""
    words = []
    for name in sorted(hyperparameters):
        words += [f"--{name}" if len(name) > 1 else f"-{name}", _argument(hyperparameters[name])]
    return words


def entry_point(command: Sequence[str]) -> str:
    """The program's own name, without its interpreter and the interpreter's options."""
    words = [word for word in command if not word.startswith("-")]
    if len(words) > 1 and posixpath.basename(words[0]) in INTERPRETERS:
        return words[1]
    return words[0] if words else ""


def _facts(host: Host, machine: Machine, command: Sequence[str], job: str) -> dict[str, Any]:
    """What the toolkit writes into SM_TRAINING_ENV."""
    base, resources = str(host.base), host.resources
    groups = {group["instance_group_name"]: group for group in resources.get("instance_groups", [])}
    group = resources.get("current_group_name", "homogeneousCluster")
    program = host.hyperparameters.get("sagemaker_program") or entry_point(command)
    return {
        "additional_framework_parameters": {
            name: value
            for name, value in host.hyperparameters.items()
            if name.startswith("sagemaker_") and name not in _NAMED
        },
        "channel_input_dirs": {name: f"{base}/input/data/{name}" for name in host.channels},
        "current_host": host.name,
        "current_instance_group": group,
        "current_instance_group_hosts": groups[group]["hosts"] if group in groups else [],
        "current_instance_type": resources.get("current_instance_type", "local"),
        "distribution_hosts": [],
        "distribution_instance_groups": [],
        "framework_module": None,
        "hosts": host.hosts,
        "hyperparameters": host.own_hyperparameters,
        "input_config_dir": f"{base}/input/config",
        "input_data_config": host.channels,
        "input_dir": f"{base}/input",
        "instance_groups": list(groups),
        "instance_groups_dict": groups,
        "is_hetero": len(groups) > 1,
        "is_master": host.number == 0,
        "is_modelparallel_enabled": None,
        "is_smddpmprun_installed": False,
        "is_smddprun_installed": False,
        "job_name": job or None,
        "log_level": host.hyperparameters.get("sagemaker_container_log_level", LOG_LEVEL),
        "master_hostname": host.hosts[0],
        "model_dir": f"{base}/model",
        "module_dir": host.hyperparameters.get("sagemaker_submit_directory", f"{base}/code"),
        "module_name": program[:-3] if program.endswith(".py") else program,
        "network_interface_name": host.interface,
        "num_cpus": machine.cpus,
        "num_gpus": machine.gpus,
        "num_neurons": 0,
        "output_data_dir": f"{base}/output/data",
        "output_dir": f"{base}/output",
        "output_intermediate_dir": f"{base}/output/intermediate",
        "resource_config": resources,
        "topology": resources.get("topology", []),
        "user_entry_point": program,
    }


_NAMED = (
    "sagemaker_program", "sagemaker_submit_directory", "sagemaker_enable_cloudwatch_metrics", "sagemaker_region",
    "sagemaker_container_log_level", "sagemaker_job_name", "sagemaker_s3_output",
)  # fmt: skip
"""The toolkit knows them itself; it passes other sagemaker_* on to a framework's module."""
_HIDDEN = (
    "additional_framework_parameters", "channel_input_dirs", "distribution_hosts", "hyperparameters", "is_master",
    "is_modelparallel_enabled", "is_smddpmprun_installed", "is_smddprun_installed", "job_name", "master_hostname",
    "topology",
)  # fmt: skip
"""Only in SM_TRAINING_ENV, some under another name outside of it."""


def _shown(facts: Mapping[str, Any]) -> dict[str, Any]:
    return {
        **{name: value for name, value in facts.items() if name not in _HIDDEN},
        **({"topology": facts["topology"]} if facts["topology"] else {}),
        "channels": sorted(facts["channel_input_dirs"]),
        "framework_params": facts["additional_framework_parameters"],
        "hps": facts["hyperparameters"],
        "training_env": facts,
        "user_args": arguments(facts["hyperparameters"]),
    }


def _text(value: Any) -> str:
    if value is None or isinstance(value, str):
        return value or ""
    return json.dumps(value, sort_keys=True, separators=(",", ":"))


def _argument(value: Any) -> str:
    if isinstance(value, dict):
        return ",".join(f"{name}={each}" for name, each in sorted(value.items()))
    return "" if value is None else str(value)
