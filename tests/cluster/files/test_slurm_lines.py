"""A user's lines in Slurm's files, against the parser of the image's real Slurm. Nothing boots."""

from __future__ import annotations

import subprocess
from functools import cache
from pathlib import Path

import pytest

from gpucluster import config, render
from gpucluster.config.checks.slurm_lines import KNOWN
from gpucluster.layout import expand
from localcloud.machines import image

CLUSTER = """
name: c
region: us-east-1
partitions:
  - name: train
    instance_types: [g4dn.12xlarge]
    max_nodes: 4
    partition_options: {OverSubscribe: "YES", MaxTime: 2-0, Hidden: false, PriorityTier: 3}
    node_options: {Weight: 5, Feature: fast, Gres: "licence:2", MemSpecLimit: 1024}
  - {name: cpu, instance_types: [u-6tb1.56xlarge, hpc7a.96xlarge], max_nodes: 1, threads_per_core: 1}
users: [{name: ada}]
slurm:
  memory: allocated
  slurm_conf: |
    # of ours
    KillWait=60                 # instead of GpuCluster's
    NodeSet=quick Feature=fast
    LaunchParameters=use_interactive_step
    SlurmctldDebug=debug
  gres_conf: NodeName=train-[1-4] Name=licence Count=2 Flags=CountOnly
"""
# A private tmpfs over the image's /tmp: nothing is written into the image.
IN_IMAGE = """
mount -t tmpfs tmpfs "$1/tmp"
cp "$2"/*.conf "$1/tmp/"
SLURM_CONF=/tmp/slurm.conf exec chroot "$1" scontrol show hostnames head
"""
root = cache(image.build)


def parsed(folder: Path, more: str = "") -> subprocess.CompletedProcess[str]:
    """What every command of Slurm says of these files when it starts; `more`: at the end of slurm.conf."""
    for name, text in render.slurm(expand(config.loads(CLUSTER))).items():
        (folder / Path(name).name).write_text(text)
    with (folder / "slurm.conf").open("a") as file:
        file.write(more)
    argv = ["unshare", "--mount", "bash", "-ec", IN_IMAGE, "bash", root(), folder]
    return subprocess.run(argv, capture_output=True, text=True, timeout=60, check=False)


def test_slurm_takes_the_lines_that_we_take(tmp_path: Path) -> None:
    done = parsed(tmp_path)
    assert (done.returncode, done.stdout, done.stderr) == (0, "head\n", "")


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("SlurmctldDebg=debug", "Parsing error at unrecognized key: SlurmctldDebg"),
        ("KillWait=abc", 'KillWait value "abc" is not a valid number'),
        ("PartitionName=x Nodes=cpu-1 Hiden=YES", "Parsing error at unrecognized key: Hiden"),
        ("PartitionName=x Nodes=cpu-1 OverSubscribe=MAYBE", 'Bad value "MAYBE" for OverSubscribe'),
    ],
)
def test_what_slurm_refuses_the_head_node_refuses_before_it_replaces_its_file(
    tmp_path: Path, line: str, said: str
) -> None:
    """slurm_conf.sh runs the same command; the first and third are refused at `validate`, values are Slurm's."""
    done = parsed(tmp_path, f"{line}\n")
    assert done.returncode == 1 and said in done.stderr


@pytest.mark.parametrize(("key", "start"), [("slurm_conf", ""), ("partition_options", "PartitionName=x Nodes=cpu-1 ")])
def test_slurm_knows_the_names_that_we_know(tmp_path: Path, key: str, start: str) -> None:
    """Every tenth, because its parser stops at the first fault, here the value."""
    for name in [*KNOWN[key]][::10]:
        assert "unrecognized key" not in parsed(tmp_path, f"{start}{name}=1\n").stderr, name
