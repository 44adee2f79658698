"""A cluster on virtual time: the local cloud at AWS's pace, a stand-in for Slurm, and the real node programs."""

from __future__ import annotations

import itertools
import json
import os
import re
import threading
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from gpucluster.cluster import tagged_instances
from localcloud.clients import ACCOUNT_ID
from localcloud.faults import Fault
from localcloud.testing.virtual_time import cloud as local
from localcloud.testing.virtual_time.clock import Stopped
from localcloud.testing.virtual_time.shims import ShimTime
from tests import snapshots
from tests.pace import slurm
from tests.pace.programs import Programs

ROOT = Path(__file__).resolve().parents[2]
CLUSTER, ZONE = "GpuCluster", "gpucluster.internal"
TYPES = ("g5.12xlarge",)
BOOT_S = 120.0  # from running to a slurmd that answers
LIVE = ("pending", "running")


class World:
    def __init__(
        self,
        cloud: local.Cloud,
        folder: Path,
        code: Path,
        sizes: dict[str, int],
        types: tuple[str, ...],
        reserved: bool,
    ) -> None:
        self.cloud, self.clock, self._folder, self._code = cloud, cloud.clock, folder, code
        self._ec2 = cloud.client("ec2")
        self.shim = ShimTime(self.clock)
        self.down_while_launching: list[slurm.Down] = []
        self._registered: set[str] = set()
        self._booting: dict[str, float] = {}
        self._requests = itertools.count()
        self.account = _Account(cloud, sizes, types, code, reserved)
        rendered = snapshots.bundle(code / "tests" / "golden", "cluster")
        conf = rendered["slurm/slurm.conf"] + rendered["slurm/image.conf"]
        self.slurm = slurm.Controller(
            sizes,
            self.clock.now,
            lambda: self.shim.utc().replace(tzinfo=None),
            _seconds(conf, "ResumeTimeout"),
            _seconds(conf, "SuspendTimeout"),
            _seconds(conf, "SlurmdTimeout"),
        )
        fleet = folder / "fleet.json"
        fleet.write_text(json.dumps(_fleet(sizes)))
        os.environ |= self.account.credentials()
        (folder / "var/lib/gpucluster").mkdir(parents=True)
        self._asked = folder / "run/gpucluster/requests"
        self._asked.mkdir(parents=True)
        self.programs = Programs(code / "bootstrap", self.clock, folder, fleet, self._scontrol)
        cloud.begin()
        cloud.calls.clear()
        cloud.errors.clear()

    # --- what runs ---

    def begin(self) -> None:
        for loop, pause_s in ((self._tick, slurm.TICK_S), (self._boot, slurm.TICK_S)):
            threading.Thread(target=self._loop, args=(loop, pause_s), daemon=True).start()
        self.programs.start("daemon")

    def _loop(self, step: Callable[[], None], pause_s: float) -> None:
        try:
            while True:
                step()
                self.clock.sleep(pause_s)
        except Stopped:
            pass

    def _tick(self) -> None:
        self.slurm.tick(lambda nodes, jobs: self._ask("resume", nodes, jobs), lambda nodes: self._ask("suspend", nodes))

    def _ask(self, verb: str, nodes: list[str], jobs: Sequence[dict[str, object]] = ()) -> None:
        """As bin/power-request."""
        name, now = f"{verb}.{next(self._requests)}", self.shim.utc().timestamp()
        new = self._asked / f".{name}"
        new.write_text(f"{','.join(nodes)}\n{json.dumps({'jobs': jobs})}")
        os.utime(new, (now, now))
        new.rename(self._asked / name)

    def _scontrol(self, program: str, argv: Sequence[str]) -> str:
        self.clock.sleep(slurm.SCONTROL_S)
        before = len(self.slurm.downs)
        text = self.slurm.run(list(argv))
        if type(threading.current_thread()).__name__ == "Rounds" and (new := self.slurm.downs[before:]):
            self._judge(new)
        return text

    def _judge(self, downs: list[slurm.Down]) -> None:
        """Booting nodes that reconcile set DOWN; only their launch may do that."""
        records = (self._folder / "run/gpucluster/launching").glob("[!.]*.json")
        launching = {node for each in records for node in json.loads(each.read_text())["nodes"]}
        alive = set(self.named().values())
        for down in downs:
            if down.node in alive or (down.node in launching and "POWERING_UP" in down.state):
                self.down_while_launching.append(down)

    def _boot(self) -> None:
        """Running instances with a name become nodes; nodes of ended instances stop answering."""
        now, live = self.clock.now(), self._live()
        for instance in live:
            node = self._node(instance)
            if instance.state != "running" or not node:
                continue
            began = self._booting.setdefault(instance.id, now)
            if now - began >= BOOT_S and instance.id not in self._registered:
                self._registered.add(instance.id)
                self.slurm.registers(node)
        alive = {self._node(instance) for instance in live}
        for node in self.slurm.nodes.values():
            if node.name not in alive:
                self.slurm.is_silent(node.name)

    # --- what there is ---

    def _live(self) -> list[Any]:
        from localcloud.ec2 import lifecycle

        with self.cloud.runtime.locks.whole:
            backend = self.account.backend()
            lifecycle.refresh(self.cloud.runtime, backend)
            found = [each for each in backend.all_instances() if each.state in LIVE]
            return [each for each in found if self._tags(each).get("gpucluster:role") == "compute"]

    def _tags(self, instance: Any) -> dict[str, str]:
        return dict(self.account.backend().tags.get(instance.id, {}))

    def _node(self, instance: Any) -> str:
        tags = [{"Key": key, "Value": value} for key, value in self._tags(instance).items()]
        return tagged_instances.node_of({"AmiLaunchIndex": int(instance.ami_launch_index), "Tags": tags}) or ""

    def named(self) -> dict[str, str]:
        """The actual running instances and their nodes."""
        return {each.id: self._node(each) for each in self._live()}

    def launches(self) -> int:
        with self.cloud.runtime.locks.whole:
            found = self.account.backend().all_instances()
            return sum(self._tags(each).get("gpucluster:role") == "compute" for each in found)

    def up(self) -> set[str]:
        """Nodes that are up or booting according to Slurm."""
        return {n.name for n in self.slurm.nodes.values() if not n.flags & {"POWERED_DOWN", "POWERING_DOWN"}}

    def leaked(self) -> list[str]:
        """Running instances that no node needs, or that share a node."""
        wanted, taken, found = self.up(), set[str](), []
        for instance_id, node in self.named().items():
            if node not in wanted or node in taken:
                found.append(instance_id)
            taken.add(node)
        return found

    def records(self) -> dict[str, str]:
        pages = self.cloud.client("route53").get_paginator("list_resource_record_sets")
        sets = [r for page in pages.paginate(HostedZoneId=self.account.zone_id) for r in page["ResourceRecordSets"]]
        return {r["Name"].rstrip("."): r["ResourceRecords"][0]["Value"] for r in sets if r["Type"] == "A"}

    # --- what is done to it ---

    def fault(self, kind: str, **values: Any) -> None:
        self.cloud.runtime.faults.add(Fault(kind, **values))

    def end(self, instance_ids: list[str]) -> None:
        """Terminates instances at once, without a request."""
        from localcloud.ec2 import lifecycle

        for instance_id in instance_ids:
            lifecycle.end_by_itself(
                self.cloud.runtime.hypervisor, instance_id, "Server.SpotInstanceTermination", hard=True
            )

    def run(self, until: Callable[[], bool], limit_s: float) -> bool:
        return self.clock.run(until, limit_s)


class _Account:
    """What a deployment makes: network, roles, launch templates, parameters; and the head node."""

    def __init__(
        self, cloud: local.Cloud, sizes: dict[str, int], types: tuple[str, ...], code: Path, reserved: bool
    ) -> None:
        self._ec2, self._iam, ssm = cloud.client("ec2"), cloud.client("iam"), cloud.client("ssm")
        self._cloud, self._code = cloud, code
        vpc_id = self._ec2.create_vpc(CidrBlock="10.0.0.0/16")["Vpc"]["VpcId"]
        subnet = self._ec2.create_subnet(VpcId=vpc_id, CidrBlock="10.0.0.0/18", AvailabilityZone="us-east-1a")
        self.subnet_id = subnet["Subnet"]["SubnetId"]
        self._image_id = self._ec2.describe_images(Owners=["amazon"])["Images"][0]["ImageId"]
        zone = cloud.client("route53").create_hosted_zone(
            Name=ZONE, CallerReference="x", VPC={"VPCRegion": "us-east-1", "VPCId": vpc_id}
        )
        self.zone_id = zone["HostedZone"]["Id"].rpartition("/")[2]
        head = _policy(code, "HeadRoleDefaultPolicy")
        _allow_types(head, types)
        if reserved:
            head["Statement"].append(_RESERVATIONS)
        self._role("head", head)
        self._role("compute", _policy(code, "ComputeRoleDefaultPolicy"))
        path = f"/gpucluster/{CLUSTER}/"
        self._put(ssm, path + "network", {"hosted_zone_id": self.zone_id, "subnet_id": self.subnet_id})
        for name in sizes:
            templates = [self._template(name, each, self._reserve(each, sizes[name], reserved)) for each in types]
            self._put(ssm, f"{path}partitions/{name}", {"instance_types": templates, "subnet_id": self.subnet_id})
        self.head_id = self._ec2.run_instances(
            ImageId=self._image_id, InstanceType="m6i.large", SubnetId=self.subnet_id, MinCount=1, MaxCount=1,
            IamInstanceProfile={"Name": "head"}, TagSpecifications=_tagged("instance", "head"),
        )["Instances"][0]["InstanceId"]  # fmt: skip

    def _put(self, ssm: Any, name: str, value: dict[str, Any]) -> None:
        ssm.put_parameter(Name=name, Value=json.dumps(value), Type="String")

    def _role(self, name: str, policy: dict[str, Any]) -> None:
        self._iam.create_role(RoleName=name, AssumeRolePolicyDocument=json.dumps(_TRUST))
        self._iam.put_role_policy(RoleName=name, PolicyName="x", PolicyDocument=json.dumps(policy))
        self._iam.create_instance_profile(InstanceProfileName=name)
        self._iam.add_role_to_instance_profile(InstanceProfileName=name, RoleName=name)

    def _reserve(self, instance_type: str, count: int, reserved: bool) -> dict[str, Any]:
        """The part of a launch that names a reservation of exactly so many instances."""
        if not reserved:
            return {}
        made = self._ec2.create_capacity_reservation(
            InstanceType=instance_type, InstancePlatform="Linux/UNIX", AvailabilityZone="us-east-1a",
            InstanceCount=count, InstanceMatchCriteria="targeted",
        )["CapacityReservation"]  # fmt: skip
        target = {"CapacityReservationTarget": {"CapacityReservationId": made["CapacityReservationId"]}}
        return {"CapacityReservationSpecification": target}

    def _template(self, partition: str, instance_type: str, more: dict[str, Any]) -> dict[str, Any]:
        data = {
            "ImageId": self._image_id,
            "InstanceType": instance_type,
            "IamInstanceProfile": {"Name": "compute"},
            "NetworkInterfaces": [{"DeviceIndex": 0, "SubnetId": self.subnet_id}],
            "TagSpecifications": _tagged("instance", "compute") + _tagged("volume", "compute"),
        }
        made = self._ec2.create_launch_template(
            LaunchTemplateName=f"{partition}-{instance_type}", LaunchTemplateData=data | more,
            TagSpecifications=_tagged("launch-template", "compute"),
        )["LaunchTemplate"]  # fmt: skip
        template_id = made["LaunchTemplateId"]
        return {"instance_type": instance_type, "launch_template_id": template_id, "version": "1"}

    def credentials(self) -> dict[str, str]:
        """Credentials from the head's metadata service."""
        with self._cloud.runtime.locks.whole:
            found = self._cloud.sessions.credentials(self.head_id)
        assert found is not None
        return {
            "AWS_ACCESS_KEY_ID": found.access_key_id,
            "AWS_SECRET_ACCESS_KEY": found.secret_access_key,
            "AWS_SESSION_TOKEN": found.session_token,
        }

    def backend(self) -> Any:
        from moto.ec2.models import ec2_backends

        return ec2_backends[ACCOUNT_ID]["us-east-1"]


_TRUST = {
    "Version": "2012-10-17",
    "Statement": [{"Effect": "Allow", "Principal": {"Service": "ec2.amazonaws.com"}, "Action": "sts:AssumeRole"}],
}
_RESERVATIONS = {"Effect": "Allow", "Action": "ec2:RunInstances", "Resource": "arn:aws:ec2:*:*:capacity-reservation/*"}
"""What the head may launch into where a partition names a reservation."""


def _tagged(kind: str, role: str) -> list[dict[str, Any]]:
    tags = {"gpucluster:cluster": CLUSTER, "gpucluster:role": role}
    return [{"ResourceType": kind, "Tags": [{"Key": key, "Value": value} for key, value in tags.items()]}]


def _policy(code: Path, begins: str) -> dict[str, Any]:
    """The policy in the default cluster's template, with * for what a deployment fills in."""
    resources = snapshots.template(code / "tests" / "golden", "cluster")["Resources"]
    found = next(value for key, value in resources.items() if key.startswith(begins))["Properties"]["PolicyDocument"]
    resolved: dict[str, Any] = _resolved(found)
    return resolved


def _allow_types(policy: dict[str, Any], types: tuple[str, ...]) -> None:
    """Gives the head's role the world's instance types: the default cluster's stack allows that cluster's alone."""
    for statement in policy["Statement"]:
        allowed = statement.get("Condition", {}).get("StringEqualsIfExists", {})
        if "ec2:InstanceType" in allowed:
            allowed["ec2:InstanceType"] = list(types)


def _resolved(value: Any) -> Any:
    if isinstance(value, dict):
        if value == {"Ref": "AWS::Partition"}:
            return "aws"
        if "Fn::Join" in value:
            return "".join(_resolved(part) for part in value["Fn::Join"][1])
        if value.keys() & {"Ref", "Fn::GetAtt"}:
            return "*"
        return {key: _resolved(inner) for key, inner in value.items()}
    if isinstance(value, list):
        return [_resolved(inner) for inner in value]
    return re.sub(r"ami-[0-9a-f]+", "*", value) if isinstance(value, str) else value


def _fleet(sizes: dict[str, int]) -> dict[str, Any]:
    """As `gpucluster.render.fleet` makes it."""
    partitions = [
        {"name": name, "min_nodes": 0, "max_nodes": size, "purchase": "on-demand"} for name, size in sizes.items()
    ]
    return {
        "cluster": CLUSTER, "zone": ZONE, "ssm_path": f"/gpucluster/{CLUSTER}/",
        "state": "/home/gpucluster", "partitions": partitions,
    }  # fmt: skip


def _seconds(conf: str, key: str) -> float:
    found = re.search(rf"^{key}=(\d+)", conf, re.MULTILINE)
    assert found, f"no {key} in slurm.conf"
    return float(found[1])


@contextmanager
def made(
    folder: Path,
    sizes: dict[str, int],
    types: tuple[str, ...] = TYPES,
    code: Path = ROOT,
    pace: str = "aws",
    reserved: bool = False,
    without_lags: Collection[str] = (),
) -> Iterator[World]:
    with local.made(folder, pace, without_lags) as cloud:
        yield World(cloud, folder, code, sizes, types, reserved)
