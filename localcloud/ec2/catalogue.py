"""Instance types: moto's catalogue, the p3 sizes that it lacks, and their data for guests."""

from __future__ import annotations

import copy
from typing import Any

from moto.ec2.models.instance_types import (
    INSTANCE_TYPE_OFFERINGS,
    INSTANCE_TYPES,
    InstanceType,
    InstanceTypeBackend,
)

from localcloud.machines.spec import Hardware

# size: GPUs, vCPUs, memory MiB, network interfaces, network performance (EC2's published specifications)
_P3 = {
    "p3.2xlarge": (1, 8, 62464, 4, "Up to 10 Gigabit"),
    "p3.8xlarge": (4, 32, 249856, 8, "10 Gigabit"),
    "p3.16xlarge": (8, 64, 499712, 8, "25 Gigabit"),
}


def install() -> None:
    """Adds the missing types, wherever p3dn.24xlarge is offered."""
    for name in _P3:
        if name not in INSTANCE_TYPES:
            INSTANCE_TYPES[name] = _p3(name)
            InstanceTypeBackend.instance_types.append(InstanceType(name))
            _offer(name, like="p3dn.24xlarge")


def _p3(name: str) -> dict[str, Any]:
    gpus, vcpus, memory_mib, interfaces, performance = _P3[name]
    entry: dict[str, Any] = copy.deepcopy(INSTANCE_TYPES["p3dn.24xlarge"])
    entry |= {"InstanceType": name, "InstanceStorageSupported": False, "MemoryInfo": {"SizeInMiB": memory_mib}}
    entry["Hypervisor"] = "xen"
    entry.pop("InstanceStorageInfo", None)
    entry["VCpuInfo"] = {"DefaultVCpus": vcpus, "DefaultCores": vcpus // 2, "DefaultThreadsPerCore": 2}
    gpu = entry["GpuInfo"]["Gpus"][0] | {"Count": gpus, "MemoryInfo": {"SizeInMiB": 16384}}
    entry["GpuInfo"] = {"Gpus": [gpu], "TotalGpuMemoryInMiB": 16384 * gpus}
    network = entry["NetworkInfo"]
    network.pop("EfaInfo", None)
    network |= {"EfaSupported": False, "MaximumNetworkInterfaces": interfaces, "NetworkPerformance": performance}
    for card in network.get("NetworkCards", []):
        card |= {"MaximumNetworkInterfaces": interfaces, "NetworkPerformance": performance}
    return entry


def _offer(name: str, *, like: str) -> None:
    for regions in INSTANCE_TYPE_OFFERINGS.values():
        for offerings in regions.values():
            offerings += [o | {"InstanceType": name} for o in list(offerings) if o["InstanceType"] == like]


def exists(instance_type: str) -> bool:
    return instance_type in INSTANCE_TYPES


def network(instance_type: str) -> dict[str, Any]:
    info: dict[str, Any] = INSTANCE_TYPES[instance_type]["NetworkInfo"]
    return info


def max_efa_interfaces(instance_type: str) -> int:
    return int(network(instance_type).get("EfaInfo", {}).get("MaximumEfaInterfaces", 0))


def hardware(instance_type: str) -> Hardware:
    entry = INSTANCE_TYPES[instance_type]
    gpus = entry.get("GpuInfo", {}).get("Gpus", [])
    first = gpus[0] if gpus else {}
    return Hardware(
        vcpus=int(entry["VCpuInfo"]["DefaultVCpus"]),
        memory_mib=int(entry["MemoryInfo"]["SizeInMiB"]),
        gpus=sum(int(gpu["Count"]) for gpu in gpus),
        gpu_name=f"{first['Manufacturer']} {first['Name']}" if first else None,
        gpu_memory_mib=int(first["MemoryInfo"]["SizeInMiB"]) if first else 0,
        efa_interfaces=max_efa_interfaces(instance_type),
        instance_store_gb=_instance_store(entry),
        instance_type=instance_type,
    )


def _instance_store(entry: dict[str, Any]) -> tuple[int, ...]:
    disks = entry.get("InstanceStorageInfo", {}).get("Disks", [])
    return tuple(int(disk["SizeInGB"]) for disk in disks for _ in range(int(disk["Count"])))
