"""Where in EC2's network nodes and jobs are: the head node keeps it in Slurm, in each node's field Extra.

It is the node's network nodes from the top layer to the lowest, `nn-1/nn-2/nn-3`. The lowest one is its switch.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence

from gpucluster.head import slurm
from gpucluster.head.remote import Remote
from gpucluster.head.slurm import Job

Place = tuple[str, ...]
_PLACE = r"Extra=(?P<place>nn-\w+(/nn-\w+)*)"
_NODE = re.compile(rf"^NodeName=(?P<name>\S+) .*?\bState=(?P<state>\S+).* {_PLACE}(?: |$)", re.MULTILINE)


def of(remote: Remote) -> dict[str, Place]:
    """The place of each node that runs and has one."""
    return parse(remote.run(slurm.scontrol_nodes_argv()).stdout)


def parse(text: str) -> dict[str, Place]:
    """From `scontrol show nodes --oneliner`. A node that is powered off has no place."""
    found = (node for node in _NODE.finditer(text) if not re.search("POWERED_DOWN|POWERING_DOWN", node["state"]))
    return {node["name"]: tuple(node["place"].split("/")) for node in found}


def nodes_of(remote: Remote, jobs: Sequence[Job]) -> dict[str, list[str]]:
    """Job id -> its nodes, of jobs that have nodes."""
    have = [job for job in jobs if job.node_list and slurm.job_state(job.state).has_nodes]
    if not have:
        return {}
    show = 'for nodes in "$@"; do scontrol show hostnames "$nodes" | tr "\\n" " "; echo; done'
    lines = remote.run(["sh", "-c", show, "sh", *(job.node_list for job in have)]).stdout.splitlines()
    return {job.job_id: line.split() for job, line in zip(have, lines, strict=False)}


def lines(places: Mapping[str, Place], jobs: Mapping[str, Sequence[str]]) -> Iterator[str]:
    """A tree of the network nodes, and under each switch its nodes with their jobs."""
    if not places:
        yield "EC2 has not reported any node's place in its network; it does for running p4d, p5 and similar types"
        return
    yield "the nodes in EC2's network:"
    yield from _below((), {node: places[node] for node in sorted(places, key=_by_number)}, jobs)


def _below(above: Place, places: Mapping[str, Place], jobs: Mapping[str, Sequence[str]]) -> Iterator[str]:
    depth, indent = len(above), "  " * (len(above) + 1)
    for name in dict.fromkeys(place[depth] for place in places.values() if len(place) > depth):
        inside = {node: place for node, place in places.items() if place[: depth + 1] == (*above, name)}
        here = [node for node, place in inside.items() if len(place) == depth + 1]
        yield f"{indent}{name}" + (":" if here else "")
        for node in here:
            its = [job for job, nodes in jobs.items() if node in nodes]
            yield f"{indent}  {node}" + (f": job {', '.join(its)}" if its else "")
        yield from _below((*above, name), inside, jobs)


def spread(nodes: Sequence[str], places: Mapping[str, Place], partition: str) -> Iterator[str]:
    """On how many switches the job is, and whether one would have room for it. Nothing about a job of one node, or if a
    place is unknown."""
    if len(nodes) < 2 or any(node not in places for node in nodes):
        return
    used = dict.fromkeys(places[node] for node in nodes)
    if len(used) == 1:
        yield f"its {len(nodes)} nodes are on one switch of EC2's network"
        return
    yield f"its {len(nodes)} nodes are on {len(used)} switches of EC2's network{_meet(list(used))}"
    larger = _with_room(len(nodes), places, partition)
    if larger:
        yield f"the switch {larger[-1]} has enough nodes of {partition} for the whole job"


def _meet(switches: Sequence[Place]) -> str:
    layers, common = max(len(each) for each in switches), 0
    while len({each[: common + 1] for each in switches}) == 1:
        common += 1
    above = layers - common
    return f", which meet {above} layer{'s' * (above != 1)} above" if common else ", which no layer connects"


def _with_room(count: int, places: Mapping[str, Place], partition: str) -> Place:
    """The switch with the most nodes of the partition, if they suffice."""
    sizes: dict[Place, int] = {}
    for node, place in places.items():
        if node.rpartition("-")[0] == partition:
            sizes[place] = sizes.get(place, 0) + 1
    largest = max(sizes, key=lambda place: sizes[place], default=())
    return largest if sizes.get(largest, 0) >= count else ()


def _by_number(node: str) -> tuple[str, int]:
    name, _, number = node.rpartition("-")
    return name, int(number) if number.isdecimal() else 0
