"""The cloud's own routes under /_localcloud/: status, faults, calls. Only loopback may use them, except for wait
handles."""

from __future__ import annotations

import json
import threading
import time
from typing import Any

from werkzeug import Request, Response

from localcloud import state
from localcloud.api.control_plane import ControlPlane
from localcloud.ec2 import hardware, lifecycle, reservations
from localcloud.faults import INSIDE, Fault, FaultError, parse
from localcloud.pace.clock import Clock


class Routes:
    def __init__(self, cloud: state.Cloud, plane: ControlPlane) -> None:
        self._cloud = cloud
        self._log = plane.log
        self._sessions = plane.sessions
        self._runtime = plane.runtime

    def answer(self, request: Request) -> Response:
        routes = {
            ("GET", "/_localcloud/status"): self._status,
            ("GET", "/_localcloud/calls"): self._calls,
            ("GET", "/_localcloud/credentials"): self._credentials,
            ("GET", "/_localcloud/faults"): self._faults,
            ("POST", "/_localcloud/faults"): self._add_fault,
            ("DELETE", "/_localcloud/faults"): self._clear_faults,
            ("POST", "/_localcloud/kill"): self._kill,
            ("GET", "/_localcloud/pace"): self._pace,
            ("POST", "/_localcloud/pace"): self._begin_pace,
            ("DELETE", "/_localcloud/pace"): self._end_pace,
        }
        handler = routes.get((request.method, request.path))
        if handler is None:
            return _json({"error": f"no route {request.method} {request.path}"}, status=404)
        try:
            return handler(request)
        except (FaultError, TypeError, ValueError, KeyError, OSError) as error:
            return _json({"error": str(error)}, status=400)

    def _status(self, request: Request) -> Response:
        with self._runtime.locks.whole:
            instances = [_shown(instance) for backend in self._refreshed() for instance in backend.all_instances()]
        return _json(
            {
                "name": self._cloud.name,
                "id": self._cloud.id,
                "pid": self._cloud.pid,
                "endpoint_url": self._cloud.endpoint_url,
                "boot": self._cloud.boot,
                "instances": instances,
            }
        )

    def _calls(self, request: Request) -> Response:
        return _json(self._log.since(float(request.args.get("since", 0))))

    def _credentials(self, request: Request) -> Response:
        """What the instance's metadata service would return; for debugging permissions without a booted guest."""
        with self._runtime.locks.holding("sts"):
            credentials = self._sessions.credentials(request.args["instance_id"])
        return _json(vars(credentials) if credentials else {"error": "no such instance, or it has no role"})

    def _faults(self, request: Request) -> Response:
        return _json(self._runtime.faults.list())

    def _add_fault(self, request: Request) -> Response:
        fault = parse(request.get_json(force=True))
        if fault.kind in INSIDE:
            hardware.require_running(self._runtime, fault.instance_id)
        if fault.kind == "kernel-log":
            self._runtime.hypervisor.log_kernel(fault.instance_id, fault.message)
            return _json({"logged": fault.instance_id})
        if fault.kind == "block-end":
            with self._runtime.locks.whole:
                reservations.end_early(fault.reservation_id, fault.delay_s)
            return _json({"ends": fault.reservation_id})
        if fault.kind == "network-cut":
            self._runtime.hypervisor.cut_network(fault.instance_id)
        self._runtime.faults.add(fault)
        hardware.refit(self._runtime, [fault])
        if fault.kind == "interruption":
            timer = threading.Timer(fault.due_epoch_s - time.time(), self._interrupt, (fault,))
            timer.daemon = True
            timer.start()
        return _json({"id": fault.id})

    def _clear_faults(self, request: Request) -> Response:
        gone = self._runtime.faults.clear(request.args.get("id"))
        hardware.refit(self._runtime, gone)
        for fault in gone:
            if fault.kind == "network-cut":
                self._runtime.hypervisor.mend_network(fault.instance_id)
        return _json({"cleared": len(gone)})

    def _kill(self, request: Request) -> Response:
        """Instance death: kills the machine at once, without a shutdown."""
        instance_id = str(request.get_json(force=True)["instance_id"])
        hardware.require_running(self._runtime, instance_id)
        lifecycle.end_by_itself(self._runtime.hypervisor, instance_id, "Server.InternalError", hard=True)
        return _json({"killed": instance_id})

    def _pace(self, request: Request) -> Response:
        return _json(self._runtime.pace.described())

    def _begin_pace(self, request: Request) -> Response:
        """Running instances keep their state; buckets are full."""
        wanted = request.get_json(force=True)
        self._runtime.pace.begin(wanted["pace"], Clock(float(wanted.get("scale", 1.0))))
        return self._pace(request)

    def _end_pace(self, request: Request) -> Response:
        self._runtime.pace.end()
        return self._pace(request)

    def _interrupt(self, fault: Fault) -> None:
        """Ends the instance as announced, unless the fault was removed since, or replaced by a later one."""
        if self._runtime.faults.interruption_epoch_s(fault.instance_id) == fault.due_epoch_s:
            hypervisor = self._runtime.hypervisor
            lifecycle.end_by_itself(hypervisor, fault.instance_id, "Server.SpotInstanceTermination", hard=False)

    def _refreshed(self) -> list[Any]:
        backends = list(lifecycle.all_backends())
        for backend in backends:
            lifecycle.refresh(self._runtime, backend)
        return backends


def _shown(instance: Any) -> dict[str, Any]:
    return {
        "instance_id": instance.id,
        "instance_type": instance.instance_type,
        "state": instance.state,
        "private_ip": instance.private_ip_address,
        "launch_index": int(instance.ami_launch_index),
        "vpc_id": instance.vpc_id,
        "tags": {tag["key"]: tag["value"] for tag in instance.get_tags()},
    }


def _json(value: Any, *, status: int = 200) -> Response:
    return Response(json.dumps(value) + "\n", status=status, content_type="application/json")
