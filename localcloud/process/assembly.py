"""Assembles a cloud: hypervisor, moto with our extensions, API servers, tunnel. It imports moto: see daemon."""

from __future__ import annotations

import shutil
import socket
from http.server import HTTPServer
from pathlib import Path

from websockets.sync.server import Server
from werkzeug.serving import BaseWSGIServer

from localcloud import clients, state
from localcloud.api import public_endpoints, server
from localcloud.api.api_log import ApiLog
from localcloud.api.control_plane import ControlPlane
from localcloud.api.routes import Routes
from localcloud.api.tunnel import Tunnels
from localcloud.cloudformation import waits
from localcloud.databases import truststore
from localcloud.errors import UsageError
from localcloud.filesystems.contents import Contents
from localcloud.filesystems.objects import Store
from localcloud.guests import public_names
from localcloud.identity import authority
from localcloud.machines.networks.addressing import CREDENTIALS_ADDRESS
from localcloud.machines.no_boot import NoBoot
from localcloud.machines.spec import Hypervisor, Metadata
from localcloud.pace.clock import Clock
from localcloud.runtime import Locks
from localcloud.training import credentials

API_ADDRESS = ("169.254.169.251", 80)  # the API's address for guests


class RunningCloud:
    """All servers; `close` ends them."""

    def __init__(
        self, cloud: state.Cloud, secret: str, listener: socket.socket, image: Path | None, wheels: Path | None
    ) -> None:
        directory = state.state_dir(cloud.name)
        self._log = ApiLog(directory / "api.jsonl")
        self._servers: list[BaseWSGIServer] = []
        self._tunnel: Server | None = None
        self._credentials: HTTPServer | None = None
        self._hypervisor: Hypervisor | None = None
        locks = Locks()
        shutil.rmtree(directory / "jobs", ignore_errors=True)  # an earlier cloud's
        store = Store(clients.ACCOUNT_ID, locks)
        self._contents = Contents(directory / "filesystems", store) if cloud.boot else None

        def machines(metadata: Metadata) -> Hypervisor:
            self._hypervisor = _hypervisor(cloud, directory, metadata, image, wheels)
            return self._hypervisor

        try:
            address = f"127.0.0.1:{cloud.port + 1}"
            plane = ControlPlane(
                self._log, cloud.endpoint_url, secret, machines, locks, self._contents, address, directory / "jobs"
            )
            if cloud.pace:
                plane.runtime.pace.begin(cloud.pace, Clock(cloud.pace_scale))
            self._serve(cloud, plane, listener)
        except BaseException:
            self.close()
            raise

    def _serve(self, cloud: state.Cloud, plane: ControlPlane, listener: socket.socket) -> None:
        tunnel_port = cloud.port + 1
        try:
            self._tunnel = Tunnels(plane.runtime, plane.keys, plane.judge).start("127.0.0.1", tunnel_port)
        except OSError as error:
            raise UsageError(
                f"port {tunnel_port} of 127.0.0.1, --port plus one, is in use; choose another --port"
            ) from error
        if cloud.boot:
            hypervisor = plane.runtime.hypervisor
            inside = server.Application(plane, None, hosts=(API_ADDRESS[0], f"{API_ADDRESS[0]}:80"))
            self._servers.append(server.serve(inside, hypervisor.listen(*API_ADDRESS)))
            self._serve_public(cloud, plane)
            self._servers.append(truststore.serve(hypervisor.listen(*truststore.ENDPOINT)))
            self._credentials = credentials.serve(plane.grants, hypervisor.listen(CREDENTIALS_ADDRESS, 80))
        outside = server.Application(plane, Routes(cloud, plane))
        self._servers.append(server.serve(outside, listener))

    def _serve_public(self, cloud: state.Cloud, plane: ControlPlane) -> None:
        if not cloud.public_endpoints:
            return
        application = server.Application(plane, None, hosts=(API_ADDRESS[0],), on_internet=True)
        listener = plane.runtime.hypervisor.listen(*public_endpoints.ENDPOINT)
        api = server.serve(public_endpoints.Renamed(application), listener, public_endpoints.context())
        self._servers.append(api)
        waits.WAITS.base_url = f"https://{public_names.WAITS_HOST}{waits.PATH}"
        public_names.served.set()

    def close(self) -> None:
        for api in self._servers:
            api.shutdown()
        if self._credentials:
            self._credentials.shutdown()
        if self._tunnel:
            self._tunnel.shutdown()
        if self._hypervisor:
            self._hypervisor.close()
        if self._contents:
            self._contents.close()
        self._log.close()


def _hypervisor(
    cloud: state.Cloud, directory: Path, metadata: Metadata, image: Path | None, wheels: Path | None
) -> Hypervisor:
    if not cloud.boot:
        return NoBoot()
    from localcloud.machines.hypervisor import NspawnHypervisor
    from localcloud.machines.image import default_path

    trusted = authority.web().certificate
    return NspawnHypervisor(
        cloud.id,
        directory,
        image or default_path(),
        metadata,
        wheels,
        trusted,
        told_endpoint=not cloud.public_endpoints,
    )
