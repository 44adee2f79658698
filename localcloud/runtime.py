"""What the parts of the running control plane share: one cloud per process."""

from __future__ import annotations

import threading
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from localcloud.pace.hooks import Pace

if TYPE_CHECKING:
    from localcloud.faults import Faults
    from localcloud.filesystems.contents import Contents
    from localcloud.machines.spec import Hypervisor
    from localcloud.roles import Sessions
    from localcloud.ssh_keys import PushedKeys


@dataclass
class Runtime:
    hypervisor: Hypervisor
    faults: Faults
    sessions: Sessions
    pushed_keys: PushedKeys
    tunnel_address: str  # host:port where the Instance Connect Endpoint's websocket answers
    # moto's backends are plain dictionaries: whoever touches them, a request or a guest's metadata, holds this
    lock: threading.RLock = field(default_factory=threading.RLock)
    pace: Pace = field(default_factory=Pace)
    contents: Contents | None = None  # of FSx's and EFS's file systems; None where no machine boots, which could look


_runtime: Runtime | None = None


def install(runtime: Runtime) -> None:
    global _runtime
    _runtime = runtime


def current() -> Runtime:
    if _runtime is None:
        raise RuntimeError("no cloud runs in this process: localcloud.runtime.install() comes first")
    return _runtime
