"""The hypervisor of this machine: systemd-nspawn containers that look like EC2 instances from outside and inside."""

from __future__ import annotations

import shutil
import socket
import threading
import traceback
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any

from localcloud.machines import cgroups, imds, leftovers, nspawn, ownership, shares, time_server, watches
from localcloud.machines.agent import Agent, Peer
from localcloud.machines.layers import Layers
from localcloud.machines.machine import Machine
from localcloud.machines.networks import resolver
from localcloud.machines.networks.addressing import METADATA_ADDRESS, TIME_ADDRESS
from localcloud.machines.networks.namespaces import bind_udp, connect_tcp, listen_tcp
from localcloud.machines.networks.network import Network, Vpc
from localcloud.machines.processes import MachineError
from localcloud.machines.rootfs import Root
from localcloud.machines.spec import BootFault, Hardware, InstanceSpec, Metadata, Unreachable
from localcloud.machines.volumes import Volumes


class NspawnHypervisor:
    """See `spec.Hypervisor`. Each run of an instance has a thread, which boots it, waits for its end and cleans up."""

    def __init__(
        self,
        cloud_id: str,
        state_dir: Path,
        image: Path,
        metadata: Metadata,
        wheels: Path | None,
        trusted: str = "",
        *,
        told_endpoint: bool = True,
    ) -> None:
        """`trusted`: certificates of authorities, in PEM, that guests trust besides those of the image.
        `told_endpoint`: guests have the variable with the API's address; otherwise they use AWS's names."""
        self._cloud_id = cloud_id
        self._state_dir = state_dir
        self._layers = Layers(state_dir / "images", image)
        self._metadata = metadata
        self._wheels = wheels
        self._trusted = trusted
        self._told_endpoint = told_endpoint
        self._machines: dict[str, Machine] = {}
        self._left = False  # whether something of an ended instance is left on this machine
        self._ends = threading.Lock()  # whether a guest that ended is stopped or terminated
        self._tokens = imds.Tokens()
        ownership.claim(state_dir, cloud_id)
        watches.allow_many()
        shutil.rmtree(state_dir / "machines", ignore_errors=True)  # an earlier cloud's consoles
        self._volumes = Volumes(state_dir / "volumes")
        self._resolver = resolver.Resolver(resolver.forward_to(resolver.host_nameservers()), metadata.dns_delay_s)
        plumbing = cgroups.create(f"{ownership.cgroup(cloud_id)}/network")
        try:
            self._network = Network(cloud_id, state_dir / "network", plumbing, self._serve_vpc)
        except BaseException:
            leftovers.clean(state_dir)
            raise

    def _serve_vpc(self, vpc: Vpc) -> Callable[[], None]:
        """Serves metadata, names and time at EC2's addresses for every VPC, until the returned function is called."""

        def lookup(address: str) -> InstanceSpec | None:
            machine = self._machine_at(vpc.vpc_id, address)
            return machine.spec if machine else None

        def ahead(address: str) -> float:
            spec = lookup(address)
            return self._metadata.clock_ahead_s(spec.instance_id) if spec else 0.0

        def resolve(name: str, record_type: str) -> list[str] | None:
            return self._metadata.resolve(vpc.vpc_id, name, record_type)

        listener = listen_tcp(vpc.netns, METADATA_ADDRESS, 80)
        server = imds.serve(listener, lookup, self._metadata, self._tokens)
        bound = [make(vpc.netns, address, 53) for address in vpc.addresses for make in (bind_udp, listen_tcp)]
        for one in bound:
            self._resolver.serve(one, resolve)
        clock = bind_udp(vpc.netns, TIME_ADDRESS, time_server.PORT)
        time_server.serve(clock, ahead)

        def stop() -> None:
            time_server.end(clock)
            server.shutdown()
            server.server_close()
            for one in bound:
                self._resolver.leave(one)

        return stop

    def _machine_at(self, vpc_id: str, private_ip: str) -> Machine | None:
        """The running instance with this address. Another VPC may use the same address."""
        for machine in reversed(list(self._machines.values())):
            spec = machine.spec
            if (spec.vpc_id, spec.interfaces[0].private_ip) == (vpc_id, private_ip) and not machine.gone.is_set():
                return machine
        return None

    def start(self, spec: InstanceSpec, fault: BootFault) -> None:
        root = Root(self._state_dir / "machines" / spec.instance_id)
        before = self._machines.get(spec.instance_id)  # its image may have been deleted
        layers = before.layers if before else self._layers.of(spec.image_id)
        machine = Machine(spec, fault, root, layers, f"{ownership.cgroup(self._cloud_id)}/{spec.instance_id}")
        root.folder.mkdir(parents=True, exist_ok=True)
        self._machines[spec.instance_id] = machine
        threading.Thread(target=self._live, args=(machine,), name=spec.instance_id, daemon=True).start()

    def _live(self, machine: Machine) -> None:
        agent: Agent | None = None
        try:
            netns = self._network.join(machine.spec)
            machine.root.host.mkdir(parents=True, exist_ok=True)
            agent = Agent(machine.root.host, lambda request, peer: self._answer(machine, request, peer))
            with self._ends:
                machine.state = machine.state if machine.asked else "running"
            if not machine.asked:
                self._volumes.furnish(machine.spec.instance_id, machine.spec.hardware.instance_store_gb)
                machine.boot(netns, self._wheels, self._trusted, told_endpoint=self._told_endpoint)
            machine.wait(lambda leader: self._volumes.show_again(machine.spec.instance_id, leader))
        except Exception as error:  # noqa: BLE001 - the thread is the instance's: its end is told on the console, never lost
            machine.say(f"localcloud: this instance could not run: {error}\n{traceback.format_exc()}")
        finally:
            self._settle_end(machine)
            self._power_off(machine, agent)

    def _settle_end(self, machine: Machine) -> None:
        """A guest that shut itself down is stopped or terminated according to its shutdown behaviour."""
        survives = machine.process is not None and self._metadata.survives_shutdown(machine.spec.instance_id)
        with self._ends:  # only now, because the thread that answers may be waiting for this lock
            if not machine.asked:
                machine.end(hard=False, keep_disk=survives)

    def _power_off(self, machine: Machine, agent: Agent | None) -> None:
        self._remove(machine, partial(self._clear, machine, agent))
        with self._ends:
            if machine.keeps_disk:
                machine.state = "stopped"
                machine.gone.set()
                return
        self._bury(machine)

    def _remove(self, machine: Machine, parts: Callable[[], None]) -> None:
        """The instance ends also if something of it stays on this machine."""
        try:
            parts()
        except Exception as error:  # noqa: BLE001 - told on the console; `close` leaves the rest to its owner's id
            self._left = True
            machine.say(f"localcloud: not all of this instance was removed: {error}\n{traceback.format_exc()}")

    def _clear(self, machine: Machine, agent: Agent | None) -> None:
        if agent:
            agent.close()
        cgroups.kill(machine.cgroup)
        machine.root.kernel_log.close()
        self._network.leave(machine.spec)
        machine.root.unmount()
        cgroups.remove(machine.cgroup)
        self._volumes.strip(machine.spec.instance_id)
        nspawn.forget(machine.spec.instance_id)

    def _bury(self, machine: Machine) -> None:
        """Not under `_ends`: it runs programs and deletes a disk, and calls of the API wait for that lock."""
        self._remove(machine, partial(self._volumes.detach_all, machine.spec.instance_id))
        self._remove(machine, machine.root.discard)
        with self._ends:
            machine.state = "terminated"
            machine.gone.set()

    def _answer(self, machine: Machine, request: Mapping[str, Any], peer: Peer) -> Mapping[str, object]:
        """Answers only processes of the guest. Others on this machine may have the same user and find the socket in
        /proc."""
        if peer.uid and not nspawn.is_inside(peer.pid, machine.leader()):
            raise shares.ShareError("only processes of this instance may ask")
        if request["op"] == "lustre":
            try:
                return self._metadata.lustre(request, peer.uid)
            except OSError as error:
                raise shares.ShareError(error.strerror or str(error)) from error
        if request["op"] != "mount":
            raise ValueError(f"operation {request['op']!r}")
        if peer.uid:
            raise shares.ShareError("only root can mount")
        return self._share(machine, shares.MountRequest.parse(request), peer.pid)

    def _share(self, machine: Machine, request: shares.MountRequest, pid: int) -> Mapping[str, object]:
        """`system`: the file system's id, if it is one of the cloud's."""

        def leader_at(address: str) -> int | None:
            server = self._machine_at(machine.spec.vpc_id, address)
            return server.leader() if server else None

        try:
            kept = self._metadata.file_server(machine.spec, request.server, tls="tls" in request.options)
        except Unreachable as error:
            raise shares.ShareError(f"connection timed out: {error}") from error
        except PermissionError as error:
            raise shares.ShareError(str(error)) from error
        if kept:
            shares.attach(request, kept, pid)
        elif request.kind == "lustre":
            raise shares.ShareError(f"no Lustre server at {request.server}")
        else:
            shares.mount(request, machine.spec.interfaces[0].private_ip or "", pid, leader_at)
        return {"system": kept.system_id} if kept else {}

    def stop(self, instance_id: str, *, hard: bool = False) -> None:
        machine = self._machines.get(instance_id)
        with self._ends:
            if machine and not machine.gone.is_set():
                machine.end(hard=hard, keep_disk=True)

    def reboot(self, instance_id: str) -> None:
        if machine := self._machines.get(instance_id):
            machine.reboot()

    def terminate(self, instance_id: str, *, hard: bool = False) -> None:
        machine = self._machines.get(instance_id)
        if machine is None:
            return
        with self._ends:
            stopped = machine.state == "stopped"
            if stopped:
                machine.state = "shutting-down"
            elif not machine.gone.is_set():
                machine.end(hard=hard, keep_disk=False)
        if stopped:
            self._bury(machine)

    def create_image(self, instance_id: str, image_id: str) -> None:
        machine = self._machines[instance_id]
        self._layers.make(image_id, machine.root.upper, machine.layers)

    def delete_image(self, image_id: str) -> None:
        disks = [each.layers for each in self._machines.values() if each.state != "terminated"]
        self._layers.remove(image_id, in_use={layer for layers in disks for layer in layers})

    def state(self, instance_id: str) -> str | None:
        machine = self._machines.get(instance_id)
        return machine.state if machine else None

    def console_output(self, instance_id: str) -> str:
        machine = self._machines.get(instance_id)
        return machine.console_output() if machine else ""

    def written(self, instance_id: str, start: int) -> bytes:
        machine = self._machines.get(instance_id)
        return machine.written(start) if machine else b""

    def exit_code(self, instance_id: str) -> int | None:
        machine = self._machines.get(instance_id)
        return machine.process.poll() if machine and machine.process else None

    def signal(self, instance_id: str, number: int) -> bool:
        machine = self._machines.get(instance_id)
        return machine is not None and machine.signal(number)

    def refit(self, instance_id: str, hardware: Hardware) -> None:
        machine = self._machines.get(instance_id)
        if machine and machine.ready_leader():
            machine.root.show(hardware)

    def log_kernel(self, instance_id: str, text: str) -> None:
        self._machines[instance_id].root.kernel_log.write(text)

    def attach_volume(self, instance_id: str, volume_id: str, size_gib: int, device: str) -> None:
        machine = self._machines[instance_id]
        leader = self._await_leader(machine)
        self._volumes.attach(instance_id, leader, volume_id, size_gib, device)

    def _await_leader(self, machine: Machine) -> int | None:
        """The guest's init, once it has its own /dev: a volume may be attached before a slow machine has booted.

        None if the machine is stopped.
        """
        while not machine.gone.wait(0.1):
            if leader := machine.ready_leader():
                return leader
        if machine.state == "stopped":
            return None
        raise MachineError(f"instance {machine.spec.instance_id} has ended before it had a running system")

    def detach_volume(self, instance_id: str, volume_id: str) -> None:
        if self._volumes.instance_of(volume_id) == instance_id:
            self._volumes.detach(volume_id, self._machines[instance_id].leader())

    def grow_volume(self, volume_id: str, size_gib: int) -> None:
        self._volumes.grow(volume_id, size_gib)

    def delete_volume(self, volume_id: str) -> None:
        self._volumes.delete(volume_id)

    def snapshot_volume(self, volume_id: str, snapshot_id: str) -> None:
        machine = self._machines.get(self._volumes.instance_of(volume_id) or "")
        self._volumes.snapshot(volume_id, snapshot_id, machine.leader() if machine else None)

    def restore_volume(self, snapshot_id: str, volume_id: str, size_gib: int) -> None:
        self._volumes.restore(snapshot_id, volume_id, size_gib)

    def delete_snapshot(self, snapshot_id: str) -> None:
        self._volumes.delete(snapshot_id)

    def cut_network(self, instance_id: str) -> None:
        machine = self._machines.get(instance_id)
        if machine is None or machine.gone.is_set():
            raise ValueError(f"no instance {instance_id} runs in this cloud")
        self._network.cut(machine.spec)

    def mend_network(self, instance_id: str) -> None:
        machine = self._machines.get(instance_id)
        if machine and not machine.gone.is_set():
            self._network.mend(machine.spec)

    def connect(self, vpc_id: str, private_ip: str, port: int) -> socket.socket:
        machine = self._machine_at(vpc_id, private_ip)
        vpc = self._network.vpc(vpc_id) if machine else None
        if vpc is None:
            raise ConnectionRefusedError(f"no running instance of {vpc_id} has the address {private_ip}")
        return connect_tcp(vpc.netns, private_ip, port)

    def listen(self, address: str, port: int) -> socket.socket:
        return listen_tcp(self._network.hub, address, port)

    def close(self) -> None:
        machines = list(self._machines.values())
        for machine in machines:
            self.terminate(machine.spec.instance_id, hard=True)
        gone = [machine.gone.wait(30) for machine in machines]
        self._network.close()
        self._resolver.close()
        cgroups.kill(ownership.cgroup(self._cloud_id))
        cgroups.remove(ownership.cgroup(self._cloud_id))
        for folder in ("network", "volumes", "images"):  # the consoles stay, for later questions
            shutil.rmtree(self._state_dir / folder, ignore_errors=True)
        if all(gone) and not self._left:  # otherwise the rest must still be found by its owner's id
            ownership.release(self._state_dir)
