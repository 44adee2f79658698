"""Network interfaces of a launch: EC2's rules for cards, indexes and EFA, and their representation in moto's model.

moto identifies an instance's interfaces by device index only; EC2 by (network card, device). `slot` makes one number of
both while moto builds the instance; `settle` then gives each interface its real indexes and type.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Any

from moto.ec2.models import elastic_network_interfaces as moto_interfaces
from moto.ec2.models.elastic_network_interfaces import NetworkInterface
from moto.ec2.models.instances import Instance

from localcloud.ec2 import catalogue
from localcloud.ec2.errors import Ec2Error

Nic = dict[str, Any]  # a NetworkInterface of RunInstances, with the API's names
_CARD = 100  # no instance type has as many devices on a card
TYPES = ("interface", "efa", "efa-only")


def card(nic: Nic) -> int:
    return int(nic.get("NetworkCardIndex") or 0)


def device(nic: Nic) -> int:
    return int(nic.get("DeviceIndex") or 0)


def slot(nic: Nic) -> int:
    return card(nic) * _CARD + device(nic)


def kind(nic: Nic) -> str:
    return str(nic.get("InterfaceType") or "interface")


def check(instance_type: str, nics: list[Nic]) -> None:
    """Raises RunInstances' error for a layout that the instance type does not support."""
    network = catalogue.network(instance_type)
    for check_rule in (_check_types, _check_efa, _check_cards, _check_primary, _check_public):
        check_rule(instance_type, network, nics)


def _check_types(instance_type: str, network: dict[str, Any], nics: list[Nic]) -> None:
    for nic in nics:
        if kind(nic) not in TYPES:
            raise Ec2Error(
                "InvalidParameterValue",
                f"Value ({kind(nic)}) for parameter interfaceType is invalid. Allowed values: {', '.join(TYPES)}.",
            )


def _check_efa(instance_type: str, network: dict[str, Any], nics: list[Nic]) -> None:
    wanted, allowed = sum(kind(nic) != "interface" for nic in nics), catalogue.max_efa_interfaces(instance_type)
    if wanted and not allowed:
        raise Ec2Error("UnsupportedOperation", f"EFA interfaces are not supported on {instance_type}")
    if wanted > allowed:
        raise Ec2Error(
            "AttachmentLimitExceeded",
            f"The instance type {instance_type} supports a maximum of {allowed} EFA interfaces, "
            f"{wanted} were requested.",
        )


def _check_cards(instance_type: str, network: dict[str, Any], nics: list[Nic]) -> None:
    cards = {int(entry["NetworkCardIndex"]): entry for entry in network.get("NetworkCards", [])}
    for index, wanted in Counter(card(nic) for nic in nics).items():
        if index not in cards:
            raise Ec2Error(
                "InvalidParameterValue",
                f"Network card index {index} is not valid for instance type {instance_type}, "
                f"which has {len(cards)} network card(s).",
            )
        most = int(cards[index]["MaximumNetworkInterfaces"])
        if wanted > most:
            raise Ec2Error(
                "AttachmentLimitExceeded",
                f"Interface count {wanted} exceeds the limit of {most} for network card {index} of {instance_type}.",
            )
        for nic in nics:
            if card(nic) == index:
                _check_device_index(device(nic), index, most)
        _check_efa_of_card(index, cards[index], [kind(nic) for nic in nics if card(nic) == index])


def _check_device_index(number: int, card_index: int, most: int) -> None:
    """EC2's message, as in eksctl-io/eksctl#7520."""
    if number >= most:
        raise Ec2Error(
            "InvalidParameterValue",
            f"The specified number '{number}' for the device index exceeds the maximum number of network interfaces "
            f"supported by the network card at network card index {card_index}. The maximum devices for this network "
            f"card is {most}. Specify a number from 0 to {most - 1}, and try again.",
        )


def _check_efa_of_card(index: int, entry: dict[str, Any], kinds: list[str]) -> None:
    """A card accepts one EFA interface; card 0 of a p6-b300 none."""
    limit = int("efa-only" in entry.get("InterfaceTypes", TYPES))
    wanted = sum(each != "interface" for each in kinds)
    if wanted > limit:
        raise Ec2Error(
            "AttachmentLimitExceeded", f"{wanted} EFA interfaces exceed the limit of {limit} on network card {index}."
        )


def _check_primary(instance_type: str, network: dict[str, Any], nics: list[Nic]) -> None:
    slots = Counter(slot(nic) for nic in nics)
    if 0 not in slots:
        raise Ec2Error(
            "InvalidParameterCombination",
            "The primary network interface is missing: one network interface must have "
            "network card index 0 and device index 0.",
        )
    if double := [number for number, times in slots.items() if times > 1]:
        where, which = divmod(double[0], _CARD)
        raise Ec2Error(
            "InvalidParameterValue",
            f"Each network interface requires a unique device index: {which} is used twice on network card {where}.",
        )
    if any(slot(nic) == 0 and kind(nic) == "efa-only" for nic in nics):
        raise Ec2Error(
            "InvalidParameterCombination",
            "An efa-only network interface cannot be the primary network interface of an instance.",
        )


def _check_public(instance_type: str, network: dict[str, Any], nics: list[Nic]) -> None:
    if len(nics) > 1 and any(nic.get("AssociatePublicIpAddress") for nic in nics):
        raise Ec2Error(
            "InvalidParameterCombination",
            "The associatePublicIPAddress parameter cannot be specified when launching with multiple network "
            "interfaces.",
        )


def for_moto(nics: list[Nic]) -> list[Nic]:
    """The same interfaces with one-number device indexes and EC2's defaults."""
    return [
        {k: v for k, v in nic.items() if k not in ("NetworkCardIndex", "InterfaceType")}
        | {"DeviceIndex": slot(nic), "DeleteOnTermination": nic.get("DeleteOnTermination") is not False}
        for nic in sorted(nics, key=slot)
    ]


def settle(instance: Instance, nics: list[Nic]) -> None:
    """Gives the instance's interfaces their real card, device and type; efa-only ones have no address."""
    for nic in nics:
        interface = instance.nics[slot(nic)]
        interface.device_index = device(nic)
        interface.network_card_index = card(nic)  # type: ignore[attr-defined]
        interface.interface_type = kind(nic)
        if kind(nic) == "efa-only":
            interface.private_ip_address = None
            interface.private_ip_addresses = []


def described(instance: Instance) -> list[Nic]:
    """The interfaces of an instance, in the form of a launch request."""
    return [
        {
            "DeviceIndex": interface.device_index,
            "NetworkCardIndex": getattr(interface, "network_card_index", 0),
            "InterfaceType": interface.interface_type,
        }
        for interface in of(instance)
    ]


def of(instance: Instance) -> Iterator[NetworkInterface]:
    """An instance's interfaces, the primary one first."""
    for _, interface in sorted(instance.nics.items()):
        yield interface


def install() -> None:
    """Shows the network card of an attachment; hides what a terminated instance no longer has."""
    plain = moto_interfaces.Attachment.__init__

    def with_card(self: Any, eni: NetworkInterface) -> None:
        plain(self, eni)
        self.network_card_index = getattr(eni, "network_card_index", 0)

    moto_interfaces.Attachment.__init__ = with_card  # type: ignore[method-assign]
    NetworkInterface.association = property(_shown_association)  # type: ignore[method-assign, assignment]
    Instance.network_interfaces = property(_shown_interfaces)  # type: ignore[method-assign, assignment]
    Instance.private_ip_address = property(_shown_address)  # type: ignore[method-assign, assignment]


_association = NetworkInterface.association


def _shown_association(interface: NetworkInterface) -> dict[str, Any] | None:
    """Absent, not empty, if there is no public address."""
    found: dict[str, Any] = _association.fget(interface)  # type: ignore[attr-defined]
    return found or None


def _shown_interfaces(instance: Instance) -> list[NetworkInterface]:
    return [] if instance.state == "terminated" else list(of(instance))


def _shown_address(instance: Instance) -> str | None:
    return None if instance.state == "terminated" else instance.private_ip
