"""The APIs of a cloud without a server: moto with our services in front, and the checks that each call passes."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterable
from functools import lru_cache, partial
from pathlib import Path
from typing import Any

from moto.moto_server.werkzeug_app import create_backend_app

from localcloud import clients
from localcloud.api.api_log import ApiLog
from localcloud.api.dispatch import Dispatcher
from localcloud.clients import ACCOUNT_ID
from localcloud.cloudformation import authorization as cloudformation_authorization
from localcloud.cloudformation.service import Service as CloudFormation
from localcloud.ec2 import authorization as ec2_authorization
from localcloud.ec2 import service as ec2
from localcloud.faults import Faults
from localcloud.filesystems import authorization as fsx_authorization
from localcloud.filesystems.contents import Contents
from localcloud.guests.metadata import CloudMetadata
from localcloud.identity import authorization
from localcloud.identity.authorization import Judge
from localcloud.identity.keys import Keys
from localcloud.identity.resources import Checker
from localcloud.identity.roles import Sessions
from localcloud.identity.ssh_keys import PushedKeys
from localcloud.machines.spec import Hypervisor, Metadata
from localcloud.pace.hooks import Pace
from localcloud.runtime import Locks, Runtime
from localcloud.services import extensions as services
from localcloud.training import authorization as training_authorization
from localcloud.training.credentials import Grants
from localcloud.training.site import Site

StartResponse = Callable[..., Any]
Environ = dict[str, Any]
WsgiApp = Callable[[Environ, StartResponse], Iterable[bytes]]


class ControlPlane:
    """One at a time, because moto's records are global to the process."""

    def __init__(
        self,
        log: ApiLog,
        endpoint_url: str,
        secret: str,
        hypervisor: Callable[[Metadata], Hypervisor],
        locks: Locks | None = None,
        contents: Contents | None = None,
        tunnel_address: str = "",
        jobs: Path | None = None,
    ) -> None:
        """`hypervisor`: a function that creates it from the guests' data. `contents`: None if no machine boots, because
        then nothing can read files. `jobs`: where the files of training jobs lie; None: in a temporary folder."""
        clients.configure(endpoint_url, secret)
        locks, faults, pushed_keys = locks or Locks(), Faults(), PushedKeys()
        self.log = log
        self.sessions = Sessions()
        self.keys = Keys(secret, self.sessions)
        machines = hypervisor(CloudMetadata(locks, faults, self.sessions, pushed_keys, contents))
        pace = Pace(authorization.policies_of)
        self.runtime = Runtime(machines, faults, pace, locks, tunnel_address)
        self.cloudformation = CloudFormation(clients.client, ACCOUNT_ID, pace.knows_profile)
        checkers: dict[str, Checker] = {
            "cloudformation": partial(cloudformation_authorization.checks, self.cloudformation),
            "ec2": partial(ec2_authorization.checks, pace),
            "ec2-instance-connect": partial(ec2_authorization.instance_connect, pace),
            "fsx": fsx_authorization.checks,
            "sagemaker": training_authorization.checks,
        }
        self.judge = Judge(pace, checkers)
        ec2.install(self.runtime)
        self.grants = Grants(self.sessions, locks)
        folder = lru_cache(maxsize=1)(lambda: jobs or Path(tempfile.mkdtemp(prefix="localcloud-jobs-")))
        services.install(self.runtime, pushed_keys, contents, Site(self.runtime, self.grants, contents, folder))
        self.moto = Dispatcher(create_backend_app)
