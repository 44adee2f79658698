"""Puts a cloud together: hypervisor, moto with our extensions, API servers, tunnel. Imports moto: see daemon."""

from __future__ import annotations

import socket
from pathlib import Path

from moto.moto_server.werkzeug_app import DomainDispatcherApplication, create_backend_app
from websockets.sync.server import Server
from werkzeug.serving import BaseWSGIServer

from localcloud import authority, authorization, clients, runtime, server, services, state, truststore, tunnel
from localcloud.api_log import ApiLog
from localcloud.ec2 import service as ec2
from localcloud.errors import UsageError
from localcloud.faults import Faults
from localcloud.filesystems.contents import Contents
from localcloud.machines.spec import Hypervisor
from localcloud.metadata import CloudMetadata
from localcloud.no_boot import NoBoot
from localcloud.pace.clock import Clock
from localcloud.pace.hooks import Pace
from localcloud.roles import Sessions
from localcloud.routes import Routes
from localcloud.ssh_keys import PushedKeys

API_ADDRESS = ("169.254.169.251", 80)  # the API as guests see it


class RunningCloud:
    """Everything that answers; `close` ends it all."""

    def __init__(
        self, cloud: state.Cloud, secret: str, listener: socket.socket, image: Path | None, wheels: Path | None
    ) -> None:
        directory = state.state_dir(cloud.name)
        self._log = ApiLog(directory / "api.jsonl")
        self._servers: list[BaseWSGIServer] = []
        self._tunnel: Server | None = None
        self._contents = Contents(directory / "filesystems") if cloud.boot else None
        self._hypervisor = _hypervisor(cloud, directory, image, wheels)
        try:
            self._serve(cloud, secret, listener)
        except BaseException:
            self.close()
            raise

    def _serve(self, cloud: state.Cloud, secret: str, listener: socket.socket) -> None:
        clients.configure(cloud.endpoint_url, secret)
        tunnel_port = cloud.port + 1
        tunnel_address = f"127.0.0.1:{tunnel_port}"
        running = runtime.Runtime(self._hypervisor, Faults(), Sessions(), PushedKeys(), tunnel_address)
        running.contents = self._contents
        running.pace = Pace(authorization.policies_of)
        if cloud.pace:
            running.pace.begin(cloud.pace, Clock(cloud.pace_scale))
        runtime.install(running)
        ec2.install()
        services.install()
        moto_app = DomainDispatcherApplication(create_backend_app)
        try:
            self._tunnel = tunnel.start("127.0.0.1", tunnel_port)
        except OSError as error:
            raise UsageError(
                f"port {tunnel_port} of 127.0.0.1, --port plus one, is in use; choose another --port"
            ) from error
        if cloud.boot:
            inside = server.Application(moto_app, self._log, None, hosts=(API_ADDRESS[0], f"{API_ADDRESS[0]}:80"))
            self._servers.append(server.serve(inside, self._hypervisor.listen(*API_ADDRESS)))
            self._servers.append(truststore.serve(self._hypervisor.listen(*truststore.ENDPOINT)))
        outside = server.Application(moto_app, self._log, Routes(cloud, self._log))
        self._servers.append(server.serve(outside, listener))

    def close(self) -> None:
        for api in self._servers:
            api.shutdown()
        if self._tunnel:
            self._tunnel.shutdown()
        self._hypervisor.close()
        if self._contents:
            self._contents.close()
        self._log.close()


def _hypervisor(cloud: state.Cloud, directory: Path, image: Path | None, wheels: Path | None) -> Hypervisor:
    if not cloud.boot:
        return NoBoot()
    from localcloud.machines.hypervisor import NspawnHypervisor
    from localcloud.machines.image import default_path

    trusted = authority.web().certificate
    return NspawnHypervisor(cloud.id, directory, image or default_path(), CloudMetadata(), wheels, trusted)
