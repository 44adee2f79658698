"""The machines, faults, pace and locks that a cloud's services share. Each service gets them when it is created."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from typing import TypeVar, cast

from localcloud.faults import Faults
from localcloud.machines.spec import Hypervisor
from localcloud.pace.hooks import Pace

# Calls that use only their own service's records. They need not wait for EC2's calls, which may take long.
_APART = {
    "logs": ("CreateLogStream", "PutLogEvents"),
    "monitoring": ("PutMetricData",),
    "route53": ("ChangeResourceRecordSets", "GetChange", "ListResourceRecordSets"),
    "ssm": ("GetParameter", "GetParameters", "PutParameter"),
    "sts": ("GetCallerIdentity",),
}
Service = TypeVar("Service")


class Locks:
    """moto's backends are plain dictionaries. Every thread that uses them (for a request or a guest's metadata) holds
    `whole`; for a service in _APART also that service's lock."""

    def __init__(self) -> None:
        self.whole = threading.RLock()
        self._apart = {name: threading.RLock() for name in _APART}

    @contextmanager
    def holding(self, service: str, action: str = "") -> Iterator[None]:
        """Holds the locks that a call needs. Without an action: those for using a service's records outside a call."""
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
    """A subclass with `given` as attributes: moto creates an object for each request, and passes it no arguments."""
    return cast("type[Service]", type(service.__name__, (service,), given))
