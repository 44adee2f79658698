"""The machine of a database, from CreateDBInstance to DeleteDBInstance. Callers hold the cloud's lock."""

from __future__ import annotations

import secrets
import threading
import time
from collections.abc import Callable
from typing import Any

from moto.ec2.models import EC2Backend, ec2_backends
from moto.ec2.models.subnets import Subnet
from moto.rds.exceptions import RDSClientError
from moto.rds.models import DBInstance, rds_backends

from localcloud.clients import ACCOUNT_ID
from localcloud.databases import guest
from localcloud.ec2 import catalogue
from localcloud.ec2 import spec as ec2_spec
from localcloud.filesystems import network
from localcloud.identity import authority
from localcloud.machines.no_boot import NoBoot
from localcloud.machines.spec import BootFault, Hardware, Hypervisor, InstanceSpec, Interface
from localcloud.runtime import Runtime

ENGINES = ("mariadb",)
ANSWER_TIMEOUT_S = 300.0
_ASK_EVERY_S = 0.5
_GREETING_TIMEOUT_S = 5.0
_SMALL = Hardware(vcpus=2, memory_mib=2048, gpus=0, gpu_name=None, gpu_memory_mib=0, efa_interfaces=0)

_hosts: dict[str, InstanceSpec] = {}  # by the database's ARN


def boots(runtime: Runtime, database: DBInstance) -> bool:
    return database.engine in ENGINES and not isinstance(runtime.hypervisor, NoBoot)


def start(runtime: Runtime, database: DBInstance) -> None:
    """Boots its machine. The status becomes `available` when the port answers, or `failed` if it does not."""
    ec2 = ec2_backends[database.account_id][database.region]
    subnet = _subnet(ec2, database)
    database.availability_zone = subnet.availability_zone
    database.status = "creating"
    groups = database.vpc_security_group_ids
    interface = network.connect(ec2, subnet, groups, "RDSNetworkInterface")
    spec = _spec(ec2, database, subnet, interface)
    _hosts[database.db_instance_arn] = spec
    runtime.hypervisor.start(spec, BootFault())
    _in_background(spec, lambda: _await_answer(runtime, database, spec))


def end(runtime: Runtime, database: DBInstance, gone: Callable[[], None]) -> None:
    """Kills its machine, because its data is deleted anyway; calls `gone` when the machine has ended."""
    spec = _hosts[database.db_instance_arn]
    runtime.hypervisor.terminate(spec.instance_id, hard=True)
    _in_background(spec, lambda: _await_end(runtime, database, spec, gone))


def has_machine(database: DBInstance) -> bool:
    return database.db_instance_arn in _hosts


def resolve(vpc_id: str, name: str, record_type: str) -> list[str] | None:
    """See `Metadata.resolve`."""
    for region in list(rds_backends[ACCOUNT_ID].values()):
        for database in region.databases.values():
            spec = _hosts.get(database.db_instance_arn)
            if spec and (spec.vpc_id, database.address) == (vpc_id, name):
                return [_address(spec)] if record_type == "A" else []
    return None


def _subnet(ec2: EC2Backend, database: DBInstance) -> Subnet:
    """The first subnet of the database's group in the database's zone."""
    group = getattr(database, "db_subnet_group", None)
    subnets: list[Subnet] = group._subnets if group else list(ec2.get_default_subnets().values())
    found = [subnet for subnet in subnets if subnet.availability_zone == database.availability_zone]
    if not found:
        raise RDSClientError(
            "InvalidVPCNetworkStateFault",
            f"The DB subnet group has no subnet in Availability Zone {database.availability_zone}.",
        )
    return found[0]


def _spec(ec2: EC2Backend, database: DBInstance, subnet: Subnet, interface: Any) -> InstanceSpec:
    way = ec2_spec.reach(ec2, subnet)
    instance_type = database.db_instance_class.removeprefix("db.")
    primary = Interface(
        interface.id, interface.mac_address, interface.private_ip_address, 0, 0, "interface",
        tuple(group.id for group in interface.group_set),
    )  # fmt: skip
    return InstanceSpec(
        instance_id=f"i-{secrets.token_hex(9)[:17]}",
        image_id="ami-rds",
        instance_type=instance_type,
        hardware=catalogue.hardware(instance_type) if catalogue.exists(instance_type) else _SMALL,
        user_data=guest.user_data(_described(database)),
        account_id=database.account_id,
        region=database.region,
        availability_zone=subnet.availability_zone,
        vpc_id=subnet.vpc_id,
        vpc_cidr=ec2.get_vpc(subnet.vpc_id).cidr_block,
        subnet_id=subnet.id,
        subnet_cidr=subnet.cidr_block,
        public=way.public,
        internet=way.internet,
        interfaces=(primary,),
    )


def _described(database: DBInstance) -> guest.Database:
    return guest.Database(
        port=int(database.port or 3306),
        user=str(database.master_username),
        password=str(database._master_user_password),
        schema=database.db_name,
        parameters={
            name: str(parameter["ParameterValue"])
            for group in database.db_parameter_groups()
            for name, parameter in group.parameters.items()
            if "ParameterValue" in parameter
        },
        certificate=authority.rds().issue(database.address),
    )


def _address(spec: InstanceSpec) -> str:
    return str(spec.interfaces[0].private_ip)


def _in_background(spec: InstanceSpec, work: Callable[[], None]) -> None:
    threading.Thread(target=work, name=f"database-{spec.instance_id}", daemon=True).start()


def _await_answer(runtime: Runtime, database: DBInstance, spec: InstanceSpec) -> None:
    deadline = time.monotonic() + ANSWER_TIMEOUT_S
    hypervisor, answered = runtime.hypervisor, False
    while not answered and time.monotonic() < deadline and hypervisor.state(spec.instance_id) != "terminated":
        time.sleep(_ASK_EVERY_S)
        answered = _answers(hypervisor, spec.vpc_id, _address(spec), int(database.port or 3306))
    with runtime.locks.whole:
        if database.status == "creating":
            database.status = "available" if answered else "failed"


def _answers(hypervisor: Hypervisor, vpc_id: str, address: str, port: int) -> bool:
    """A MariaDB server sends a greeting to every client that connects."""
    try:
        with hypervisor.connect(vpc_id, address, port) as connection:
            connection.settimeout(_GREETING_TIMEOUT_S)
            return bool(connection.recv(1))
    except OSError:
        return False


def _await_end(runtime: Runtime, database: DBInstance, spec: InstanceSpec, gone: Callable[[], None]) -> None:
    while runtime.hypervisor.state(spec.instance_id) != "terminated":
        time.sleep(0.1)
    with runtime.locks.whole:
        del _hosts[database.db_instance_arn]
        network.disconnect(ec2_backends[database.account_id][database.region], spec.interfaces[0].interface_id)
        gone()
