"""What the parts of the running control plane share: one cloud per process."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from localcloud.pace.hooks import Pace

if TYPE_CHECKING:
    from localcloud.faults import Faults
    from localcloud.filesystems.contents import Contents
    from localcloud.machines.spec import Hypervisor
    from localcloud.roles import Sessions
    from localcloud.ssh_keys import PushedKeys


# Calls that touch nothing but their own service's records: they need not wait for EC2's, which may take long.
_APART = {
    "logs": ("CreateLogStream", "PutLogEvents"),
    "monitoring": ("PutMetricData",),
    "route53": ("ChangeResourceRecordSets", "GetChange", "ListResourceRecordSets"),
    "ssm": ("GetParameter", "GetParameters", "PutParameter"),
    "sts": ("GetCallerIdentity",),
}


@dataclass
class Runtime:
    hypervisor: Hypervisor
    faults: Faults
    sessions: Sessions
    pushed_keys: PushedKeys
    tunnel_address: str  # host:port where the Instance Connect Endpoint's websocket answers
    # moto's backends are plain dictionaries: whoever touches them, a request or a guest's metadata, holds this,
    # and for those of a service in _APART that service's, too
    lock: threading.RLock = field(default_factory=threading.RLock)
    _apart: dict[str, threading.RLock] = field(default_factory=lambda: {name: threading.RLock() for name in _APART})
    pace: Pace = field(default_factory=Pace)
    contents: Contents | None = None  # of FSx's and EFS's file systems; None where no machine boots, which could look

    @contextmanager
    def holding(self, service: str, action: str = "") -> Iterator[None]:
        """The locks that a call needs; of no action: those for touching a service's records from elsewhere."""
        with ExitStack() as held:
            if action not in _APART.get(service, ()):
                held.enter_context(self.lock)
            if service in self._apart:
                held.enter_context(self._apart[service])
            yield


_runtime: Runtime | None = None


def install(runtime: Runtime) -> None:
    global _runtime
    _runtime = runtime


def current() -> Runtime:
    if _runtime is None:
        raise RuntimeError("no cloud runs in this process: localcloud.runtime.install() comes first")
    return _runtime
