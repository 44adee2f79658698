"""Recognizes the configuration files of other tools: one sentence helps more than an error for each of their keys."""

from __future__ import annotations

import re
from typing import NamedTuple

from gpucluster.config.document import Document

INIT = "`gpucluster init` writes a commented cluster.yaml"
PARALLELCLUSTER, PARALLELCLUSTER_2 = (
    "a configuration of AWS ParallelCluster",
    "a configuration of AWS ParallelCluster 2",
)
_CONVERT = (
    "`gpucluster init --from FILE` converts it to a cluster.yaml; docs/existing-slurm.md says what becomes of each key"
)
_CONVERT_2 = "`pcluster3-config-converter` makes one of version 3 of it, which `gpucluster init --from FILE` converts"
JOB = "a job is `command: [python, train.py]` and more, see docs/jobs.md"


class Foreign(NamedTuple):
    what: str
    hint: str


# Sources: https://docs.aws.amazon.com/parallelcluster/latest/ug/cluster-configuration-file-v3.html,
# https://kubernetes.io/docs/concepts/overview/working-with-objects/, https://docs.docker.com/reference/compose-file/,
# https://docs.aws.amazon.com/AWSCloudFormation/latest/UserGuide/template-anatomy.html,
# https://docs.aws.amazon.com/sagemaker/latest/APIReference/API_CreateCluster.html,
# https://docs.ray.io/en/latest/cluster/vms/references/ray-cluster-configuration.html,
# https://docs.skypilot.co/en/latest/reference/yaml-spec.html, https://dstack.ai/docs/reference/dstack.yml/task/.
_BY_KEYS = (
    (Foreign(PARALLELCLUSTER, _CONVERT), {"HeadNode"}),
    (Foreign(PARALLELCLUSTER, _CONVERT), {"Scheduling"}),
    (Foreign("a Kubernetes manifest", INIT), {"apiVersion", "kind"}),
    (Foreign("a CloudFormation template", INIT), {"AWSTemplateFormatVersion"}),
    (Foreign("a CloudFormation template", INIT), {"Resources"}),
    (Foreign("a request for a SageMaker HyperPod cluster", INIT), {"ClusterName", "InstanceGroups"}),
    (Foreign("a cluster file of Ray", INIT), {"cluster_name", "provider"}),
    (Foreign("a blueprint of Google's Cluster Toolkit", INIT), {"blueprint_name"}),
    (Foreign("a Docker Compose file", INIT), {"services"}),
    (Foreign("a configuration of dstack", JOB), {"type", "commands"}),
)
"""A file with all of these keys is of this kind."""
_NOT_OF_JOBS = (
    (Foreign("a configuration of dstack", INIT), {"type", "nodes"}),
    (Foreign("a task of SkyPilot", JOB), {"resources"}),
    (Foreign("a task of SkyPilot", JOB), {"run"}),
)
"""A job's file may have these keys."""

_OURS = {"region", "partitions", "command"}
"""A file with one of these keys is meant for GpuCluster, whatever else is in it."""


def recognized(document: Document, *, cluster: bool) -> Foreign | None:
    """`cluster`: whether the file was given as a cluster file, not as a job."""
    data = document.data
    if not isinstance(data, dict):
        return _by_text(document.lines)
    if data.keys() & _OURS:
        return None
    kinds = (*_BY_KEYS, *_NOT_OF_JOBS) if cluster else _BY_KEYS
    return next((foreign for foreign, keys in kinds if data.keys() >= keys), None)


_SECTION = re.compile(r"\s*\[\s*([A-Za-z_][\w.\"-]*)[\w \"-]*\]\s*$")
_VERSION_2 = ("global", "aws", "aliases", "cluster", "vpc", "queue", "compute_resource", "scaling")
"""https://docs.aws.amazon.com/parallelcluster/v2/ug/configuration.html"""


def _by_text(lines: tuple[str, ...]) -> Foreign | None:
    """A script, INI or TOML."""
    if lines and lines[0].startswith("#!"):
        return Foreign("a script", JOB)
    section = _SECTION.match(next((line for line in lines if not re.match(r"\s*([#;]|$)", line)), ""))
    if not section:
        return None
    if section[1] in _VERSION_2:
        return Foreign(PARALLELCLUSTER_2, _CONVERT_2)
    return Foreign("an INI or TOML file", f"write YAML; {INIT}")
