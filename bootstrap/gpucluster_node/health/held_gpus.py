"""The GPUs that a running job has on a node, by their device files."""

from __future__ import annotations

import re

from gpucluster_node import slurm

_GRES = re.compile(r"^ +Nodes=(?P<nodes>\S+) .*\bGRES=(?P<held>\S+)", re.MULTILINE)
_INDEXES = re.compile(r"\bgpu[^(]{0,100}\(IDX:([\d,-]+)\)")
_HOSTS = re.compile(r"([^,\[]+)(?:\[([^\]]+)\])?(?:,|$)")
_RANGE = re.compile(r"([0-9]{1,9})(?:-([0-9]{1,9}))?")
_MOST_GPUS = 1000


def parse(text: str, job_id: str, node: str) -> list[str]:
    """From `scontrol --details show job`: the device files, because gres.conf numbers GPUs by them. Of an array's or a
    heterogeneous job's first id, the text has other jobs too.

    The text also has the job's name. A user who writes such a line there changes what is known of their own job: it
    would be requeued for another GPU's fault, or not for its own. So no list is made of the ranges in it."""
    of_job = [each for each in text.split("\n\n") if re.match(rf"\s*JobId={job_id}\s", each)]
    held = [found["held"] for each in of_job for found in _GRES.finditer(each) if _includes(found["nodes"], node)]
    ranges = {each for gres in held for numbers in _INDEXES.findall(gres) for each in numbers.split(",")}
    return [f"/dev/nvidia{index}" for index in range(_MOST_GPUS) if any(_within(each, index) for each in ranges)]


def _includes(hostlist: str, node: str) -> bool:
    """Whether it has the node, as slurm.expand would find."""
    for prefix, ranges in _HOSTS.findall(hostlist):
        number = node.removeprefix(prefix) if node.startswith(prefix) else ""
        if node == prefix and not ranges:
            return True
        if re.fullmatch("[0-9]{1,9}", number) and any(_within(each, int(number)) for each in ranges.split(",")):
            return True
    return False


def _within(each: str, number: int) -> bool:
    """each: 3, or 0-7; anything else has no number."""
    found = _RANGE.fullmatch(each)
    return found is not None and int(found[1]) <= number <= int(found[2] or found[1])


def of(job_id: str, node: str) -> list[str]:
    return parse(slurm.call(["scontrol", "--details", "show", "job", job_id]), job_id, node)
