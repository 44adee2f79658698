"""What the services of a cloud share: its machines, faults, pace and locks. Each is given it as it is made."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from typing import TypeVar, cast

from localcloud.faults import Faults
from localcloud.machines.spec import Hypervisor
from localcloud.pace.hooks import Pace

# Calls that touch nothing but their own service's records: they need not wait for EC2's, which may take long.
_APART = {
    "logs": ("CreateLogStream", "PutLogEvents"),
    "monitoring": ("PutMetricData",),
    "route53": ("ChangeResourceRecordSets", "GetChange", "ListResourceRecordSets"),
    "ssm": ("GetParameter", "GetParameters", "PutParameter"),
    "sts": ("GetCallerIdentity",),
}
Service = TypeVar("Service")


class Locks:
    """moto's backends are plain dictionaries: whoever touches them, a request or a guest's metadata, holds `whole`,
    and for those of a service in _APART that service's lock, too."""

    def __init__(self) -> None:
        self.whole = threading.RLock()
        self._apart = {name: threading.RLock() for name in _APART}

    @contextmanager
    def holding(self, service: str, action: str = "") -> Iterator[None]:
        """The locks that a call needs; of no action: those for touching a service's records from elsewhere."""
        with ExitStack() as held:
            if action not in _APART.get(service, ()):
                held.enter_context(self.whole)
            if service in self._apart:
                held.enter_context(self._apart[service])
            yield


@dataclass(frozen=True)
class Runtime:
    hypervisor: Hypervisor
    faults: Faults = field(default_factory=Faults)
    pace: Pace = field(default_factory=Pace)
    locks: Locks = field(default_factory=Locks)
    tunnel_address: str = ""
    """host:port where the Instance Connect Endpoint's websocket answers."""


def bound(service: type[Service], **given: object) -> type[Service]:
    """A class of its own of one of moto's services: moto makes an object of it for each request, without arguments."""
    return cast("type[Service]", type(service.__name__, (service,), given))
