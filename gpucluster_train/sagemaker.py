"""A job's input data on SageMaker: its channels are folders and pipes in /opt/ml/input/data.

https://docs.aws.amazon.com/sagemaker/latest/dg/model-access-training-data.html
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from gpucluster_train.assignment import Shard
from gpucluster_train.channels import PIPE, Channel, ChannelError
from gpucluster_train.sources import listing
from gpucluster_train.world import World, ranks_on_node, world

READERS = "GPUCLUSTER_CHANNELS"
"""JSON: channel -> by-rank, by-node, none, or for a channel per rank local-rank or global-rank."""


def is_here(environment: Mapping[str, str]) -> bool:
    """Jobs on a Slurm cluster may have SageMaker's variables, too."""
    return "SM_INPUT_DATA_CONFIG" in environment and "GPUCLUSTER_JOB_DIR" not in environment


def channel(name: str, environment: Mapping[str, str] | None = None) -> Channel:
    """A channel of this job for this rank, from the environment (default: this process's). Raises ChannelError."""
    variables = os.environ if environment is None else environment
    given: dict[str, dict[str, Any]] = json.loads(variables["SM_INPUT_DATA_CONFIG"])
    reader, here, local = _reader(name, variables), world(variables), ranks_on_node(variables)
    own = _own(name, given, reader, here, local)
    folder = Path(variables["SM_INPUT_DIR"], "data")
    if given[own].get("TrainingInputMode") == "Pipe":
        return _pipe(name, own, folder, here, local)
    found = listing(str(folder / own))
    hosts, host = tuple(json.loads(variables["SM_HOSTS"])), variables["SM_CURRENT_HOST"]
    if own != name:
        reader = "none"
    elif given[own].get("S3DistributionType") == "ShardedByS3Key":  # this host has files that no other host has
        hosts, here = (host,), World(here.local_rank, local, here.local_rank, here.launcher)
    return Channel(
        name,
        found.root,
        shard=reader or "by-rank",
        mode="direct",
        unpack="none",
        seed=variables.get("GPUCLUSTER_SEED", "0"),
        nodes=hosts,
        every=found.shards,
        world=here,
        node=host,
        classes=found.classes,
    )


def _reader(name: str, variables: Mapping[str, str]) -> str:
    readers: dict[str, str] = json.loads(variables.get(READERS) or "{}")
    return readers.get(name, "")


def _own(name: str, given: Mapping[str, Any], reader: str, here: World, local: int) -> str:
    """SageMaker's channel that has this rank's data. Without a word about its readers, NAME_0, NAME_1, … are for the
    job's ranks if there are as many, or for the ranks of each host."""
    numbered = [each for each in given if re.fullmatch(rf"{re.escape(name)}_[0-9]+", each)]
    if not reader and name not in given and len(numbered) in (here.size, local):
        reader = "global-rank" if len(numbered) == here.size else "local-rank"
    number = {"global-rank": here.rank, "local-rank": here.local_rank}.get(reader)
    own = name if number is None else f"{name}_{number}"
    if own in given:
        return own
    known = ", ".join(sorted(given)) or "none"
    if numbered:
        raise ChannelError(
            f"channel {name}: the job has {len(numbered)} channels {name}_0 …, but {here.size} ranks, {local} on each "
            f"host; a channel per rank needs as many as one of the two; the job's channels: {known}"
        )
    raise ChannelError(f"the job has no channel {name!r}; its channels: {known}")


def _pipe(name: str, own: str, folder: Path, here: World, local: int) -> Channel:
    if own == name and local > 1:
        raise ChannelError(
            f"channel {name}: is one pipe, which only one process may read, and this host has {local} ranks: ask for a "
            f"channel per rank ({name}_0 to {name}_{local - 1}), or for the mode FastFile"
        )
    return Channel(
        name, str(folder), shard="none", mode=PIPE, unpack="none", seed="0", nodes=(), every=(Shard(own),), world=here
    )
