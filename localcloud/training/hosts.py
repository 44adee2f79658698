"""The machines of a training job: containers in a network of their own, in which the names algo-1… resolve."""

from __future__ import annotations

import secrets
import time
from dataclasses import dataclass, field

from localcloud.clients import ACCOUNT_ID
from localcloud.ec2 import catalogue
from localcloud.machines.networks import addressing
from localcloud.machines.spec import Container, Hardware, InstanceSpec, Interface
from localcloud.training.jobs import Job

NAMES_LATE_S = 2.0
"""How long after its start a host's name resolves. Assumed: SageMaker's names come late, by no documented time."""
_CIDR, _SUBNET = "10.0.0.0/16", "10.0.0.0/20"
_FIRST = 10  # the last byte of the first host's address
_SMALL = Hardware(vcpus=2, memory_mib=2048, gpus=0, gpu_name=None, gpu_memory_mib=0, efa_interfaces=0)

_networks: dict[str, Network] = {}  # by the id of its VPC


@dataclass
class Network:
    """Those of one attempt of a job. On AWS it is a VPC of SageMaker's, which nobody else sees."""

    vpc_id: str = field(default_factory=lambda: f"vpc-{secrets.token_hex(9)[:17]}")
    subnet_id: str = field(default_factory=lambda: f"subnet-{secrets.token_hex(9)[:17]}")
    names: dict[str, tuple[str, float]] = field(default_factory=dict)
    """Name -> address, and the monotonic time from which it resolves."""

    def open(self) -> None:
        _networks[self.vpc_id] = self

    def close(self) -> None:
        _networks.pop(self.vpc_id, None)

    def spec(self, job: Job, host: str, container: Container) -> InstanceSpec:
        """The host's name resolves from now on, or a little later."""
        address = address_of(job, host)
        self.names[host] = address, time.monotonic() + NAMES_LATE_S
        self.names[container.host_name] = address, 0.0
        mac = "02:00:" + ":".join(f"{int(part):02x}" for part in address.split("."))
        return InstanceSpec(
            instance_id=f"i-{secrets.token_hex(9)[:17]}",
            image_id="",
            instance_type=job.instance_type,
            hardware=hardware(job.instance_type),
            user_data=b"",
            account_id=ACCOUNT_ID,
            region=job.region,
            availability_zone=f"{job.region}a",
            vpc_id=self.vpc_id,
            vpc_cidr=_CIDR,
            subnet_id=self.subnet_id,
            subnet_cidr=_SUBNET,
            public=False,
            internet=not job.request.get("EnableNetworkIsolation"),
            interfaces=(Interface(f"eni-{secrets.token_hex(9)[:17]}", mac, address, 0, 0, "interface", ()),),
            container=container,
        )


def address_of(job: Job, host: str) -> str:
    number = job.hosts.index(host) + _FIRST
    return f"10.0.{number // 256}.{number % 256}"


def host_name(job: Job, host: str) -> str:
    """What gethostname returns: not algo-1, so AWS's toolkit preloads a gethostname of its own (sagemaker-training,
    libchangehostname)."""
    return f"{addressing.host_name(address_of(job, host))}.{addressing.search_domain(job.region)}"


def hardware(instance_type: str) -> Hardware:
    """That of the type of EC2; its disks are left out, because nothing of a container reads them."""
    own = instance_type.removeprefix("ml.")
    found = catalogue.hardware(own) if catalogue.exists(own) else _SMALL
    return Hardware(
        found.vcpus, found.memory_mib, found.gpus, found.gpu_name, found.gpu_memory_mib, found.efa_interfaces
    )


def resolve(vpc_id: str, name: str, record_type: str) -> list[str] | None:
    """See `Metadata.resolve`."""
    network = _networks.get(vpc_id)
    if network is None or name not in network.names:
        return [] if network and name.startswith("algo-") else None
    address, since = network.names[name]
    return [address] if record_type == "A" and time.monotonic() >= since else []
