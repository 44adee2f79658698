"""The GPUs that a running job has on a node, by their device files."""

from __future__ import annotations

import re

from gpucluster_node import slurm

_GRES = re.compile(r"^ +Nodes=(?P<nodes>\S+) .*\bGRES=(?P<held>\S+)", re.MULTILINE)
_INDEXES = re.compile(r"\bgpu[^(]*\(IDX:([\d,-]+)\)")


def parse(text: str, job_id: str, node: str) -> list[str]:
    """From `scontrol --details show job`: the device files, because gres.conf numbers GPUs by them. Of an array's or a
    heterogeneous job's first id, the text has other jobs too.

    The text also has the job's name. A user who writes such a line there changes what is known of their own job: it
    would be requeued for another GPU's fault, or not for its own."""
    of_job = [each for each in text.split("\n\n") if re.match(rf"\s*JobId={job_id}\s", each)]
    held = [found["held"] for each in of_job for found in _GRES.finditer(each) if node in slurm.expand(found["nodes"])]
    return [
        file for each in held for numbers in _INDEXES.findall(each) for file in slurm.expand(f"/dev/nvidia[{numbers}]")
    ]


def of(job_id: str, node: str) -> list[str]:
    return parse(slurm.call(["scontrol", "--details", "show", "job", job_id]), job_id, node)
