"""Where in the network instances are, as DescribeInstanceTopology tells it.

EC2's user guide, "Prerequisites for Amazon EC2 instance topology" (November 2026): only these types have network nodes,
and only while they run; three layers, P6-B200 and P6-B300 four. The last one is the instance's own switch. Here it has
room for two instances, so that a small cluster has several, and a placement group shares all layers above it.
"""

from __future__ import annotations

import hashlib
import re
from fnmatch import fnmatchcase
from typing import Any

from moto.ec2.models import EC2Backend

from localcloud.ec2 import kept

ROOM = 2
SWITCHES = "switches"
_DESCRIBED = re.compile(
    r"(g6e|g7e|hpc6a|hpc6id|hpc7a|hpc7g|hpc8a|p3dn|p4de?|p5en?|p6e-gb200|p6-b200|p6-b300|trn1n?|trn2u?)\..*|p5\.48xlarge"
)
_FOUR_LAYERS = ("p6-b200.", "p6-b300.")
_GONE = ("shutting-down", "terminated")


def described(backend: EC2Backend, instance: Any) -> dict[str, Any]:
    zone = instance.placement.zone
    return {
        "InstanceId": instance.id,
        "InstanceType": instance.instance_type,
        "GroupName": instance.placement.group_name or None,
        "NetworkNodes": _nodes(backend, instance),
        "AvailabilityZone": zone,
        "ZoneId": f"use1-az{ord(zone[-1]) - ord('a') + 1}",
    }


def matches(found: dict[str, Any], filters: dict[str, Any]) -> bool:
    fields = {"availability-zone": "AvailabilityZone", "instance-type": "InstanceType", "zone-id": "ZoneId"}
    return all(any(fnmatchcase(found[fields[name]], each) for each in values) for name, values in filters.items())


def _nodes(backend: EC2Backend, instance: Any) -> list[str] | None:
    if instance.state != "running" or not _DESCRIBED.fullmatch(instance.instance_type):
        return None
    switch = kept.of(backend, SWITCHES).get(instance.id) or _plug_in(backend, instance)
    upper = 3 if instance.instance_type.startswith(_FOUR_LAYERS) else 2
    above = [f"{layer} {instance.placement.zone} {switch['Above'] * (layer > 0)}" for layer in range(upper)]
    return [f"nn-{hashlib.sha256(each.encode()).hexdigest()[:17]}" for each in (*above, switch["Name"])]


def _plug_in(backend: EC2Backend, instance: Any) -> kept.Record:
    """An instance keeps its switch while it runs. Without a placement group it has one of its own."""
    switches = kept.of(backend, SWITCHES)
    for each in backend.all_instances():
        if each.state in _GONE:
            switches.pop(each.id, None)
    above = instance.placement.group_name or instance.id
    used = [each["Name"] for each in switches.values()]
    number = 0
    while used.count(name := f"switch {instance.placement.zone} {above} {number}") >= ROOM:
        number += 1
    switches[instance.id] = {"Name": name, "Above": above}
    return switches[instance.id]
