"""The only boto3 on the user's side: the cluster's stack, its head node, connections to nodes.

`connect` determines whether the cluster runs on AWS or on a local cloud. No later call depends on that.
"""

from __future__ import annotations

import threading
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlencode, urlsplit

from gpucluster import account
from gpucluster.cluster import api_errors, credentials, local_cloud, register, stack, tagged_instances
from gpucluster.cluster.api_errors import aws_errors as aws_errors
from gpucluster.errors import CloudError, NotDeployedError, RemoteError, UsageError

if TYPE_CHECKING:
    from gpucluster.config import ClusterConfig

TUNNEL_S = 3600
"""The longest time that AWS allows."""
SSH_PORT = 22
_SIGNATURE_S = 60
_HEAD_LOST = "`gpucluster up` creates another one with the same volume: queue, accounting records and running jobs stay"
_HEAD_AWAY = {
    "pending": "it is booting: try again in a minute",
    "stopping": "`gpucluster start` starts it; running jobs continue",
    "stopped": "`gpucluster start` starts it; running jobs continue",
}


_MAKING = threading.Lock()


def connect(config: ClusterConfig, config_path: Path | str | None = None) -> Aws:
    """Makes no AWS call. `config_path`: the cluster file, if `config` was loaded from another one."""
    import boto3

    _check_user(config)
    file = Path(config_path or config._document.file)
    record = local_cloud.read(file, config.name)
    with aws_errors():
        if record is None:
            return Aws(config, credentials.session(config.region), None, file)
        local_cloud.leave_proxy()
        keys = {"aws_access_key_id": record.access_key_id, "aws_secret_access_key": record.secret_access_key}
        return Aws(config, boto3.Session(region_name=config.region, **keys), record.endpoint_url, file)


def _check_user(config: ClusterConfig) -> None:
    """Raises UsageError."""
    known = [account.ADMINISTRATOR, *(each.name for each in config.users)]
    if account.user() not in known:
        what = f"{account.VARIABLE}: {account.user()!r} is not a user of the cluster {config.name}"
        raise UsageError(what, f"cluster.yaml has: {', '.join(known)}")


@dataclass(frozen=True)
class Head:
    instance_id: str
    private_ip: str
    endpoint_id: str
    """The Instance Connect Endpoint for tunnels to it."""
    state: str
    """EC2's state: pending, running, stopped …"""
    volumes: Mapping[str, str] = field(default_factory=dict)
    """Volume -> EC2's state of its attachment: attaching, attached, detaching."""
    zone: str = ""


@dataclass
class Aws:
    config: ClusterConfig
    session: Any
    """A boto3 session."""
    endpoint_url: str | None
    """None: AWS's own."""
    config_file: Path | None = None
    """None: nobody knows which clusters `up` created."""
    _clients: dict[str, Any] = field(default_factory=dict)

    def client(self, service: str) -> Any:
        """Threads may share a client, but not boto3's session, which is the same for all of the process."""
        with _MAKING:
            if service not in self._clients:
                with aws_errors(), credentials.reading():
                    made = self.session.client(service, endpoint_url=self.endpoint_url, config=patient())
                made.meta.events.register("before-parse", api_errors.refuse_web_page)
                self._clients[service] = made
            return self._clients[service]

    def has_credentials(self) -> bool:
        """Whether credentials are configured. Only a call shows whether AWS accepts them."""
        with aws_errors(), credentials.reading():
            return self.session.get_credentials() is not None

    def environment(self) -> dict[str, str | None]:
        """Variables for a program that calls AWS: region, credentials, and a local cloud's endpoint. None removes a
        variable."""
        record = local_cloud.read(self.config_file, self.config.name) if self.config_file else None
        found = local_cloud.environment(record, region=self.config.region)
        with aws_errors(), credentials.reading():
            return found if record else found | credentials.environment(self.session)

    def stack_status(self) -> str | None:
        """None if there is no stack."""
        with aws_errors():
            return stack.status(self.client("cloudformation"), self.config.name)

    def account(self) -> str:
        """The caller's."""
        with aws_errors():
            found: str = self.client("sts").get_caller_identity()["Account"]
            return found

    def outputs(self) -> dict[str, str]:
        """Raises NotDeployedError, or UsageError if it is not the cluster that `up` created from this file."""
        with aws_errors():
            found = stack.described(self.client("cloudformation"), self.config.name)
        if self._registered():
            self.refuse_another(found.account if found else self.account())
        if found and "HeadInstanceId" in found.outputs:
            return found.outputs
        where = f"the cluster {self.config.name} in {self.config.region}"
        if found is None:
            raise NotDeployedError(f"{where} does not exist", self._instead())
        raise NotDeployedError(
            f"{where} is not ready: its stack is {found.status}", "`gpucluster up` waits for it, or repairs it"
        )

    def refuse_another(self, account: str) -> None:
        """Raises UsageError if `up` created this file's cluster in another account or region. `account`: that of the
        cluster which the verb would use."""
        if self.config_file:
            name, region = self.config.name, self.config.region
            register.refuse_another(self.config_file, name=name, region=region, account=account)

    def _registered(self) -> list[register.Entry]:
        return register.read(self.config_file) if self.config_file else []

    def _instead(self) -> str:
        """What to do if the cluster does not exist."""
        others = [entry for entry in self._registered() if entry.name != self.config.name]
        if others:
            return f"`gpucluster up` created {others[-1]} from this file: set name: {others[-1].name} to use it"
        return "`gpucluster up` creates it on AWS, `gpucluster up --local` on this machine"

    def head(self) -> Head:
        """Raises NotDeployedError."""
        outputs = self.outputs()
        instance_id = outputs["HeadInstanceId"]
        with aws_errors():
            found = self.client("ec2").describe_instances(Filters=[{"Name": "instance-id", "Values": [instance_id]}])
        instances = [instance for reservation in found["Reservations"] for instance in reservation["Instances"]]
        place = instance_id, outputs["HeadPrivateIp"], outputs["InstanceConnectEndpointId"]
        if not instances:
            return Head(*place, "gone")
        zone = instances[0].get("Placement", {}).get("AvailabilityZone", "")
        return Head(*place, instances[0]["State"]["Name"], _volumes(instances[0]), zone)

    def parameter(self, name: str) -> str:
        """The value of one of the cluster's SSM parameters, by the last part of its name."""
        with aws_errors():
            value: str = self.client("ssm").get_parameter(Name=self.config.ssm_path + name)["Parameter"]["Value"]
            return value

    def door(self) -> HeadDoor:
        """Raises NotDeployedError, or RemoteError if the head node does not run."""
        head = self.head()
        if head.state != "running":
            hint = _HEAD_AWAY.get(head.state, _HEAD_LOST)
            raise RemoteError(f"the head node {head.instance_id} is {head.state}", hint)
        return HeadDoor(self, head.instance_id, head.private_ip, head.endpoint_id)


def _volumes(instance: Mapping[str, Any]) -> dict[str, str]:
    disks = (each["Ebs"] for each in instance.get("BlockDeviceMappings", ()) if "Ebs" in each)
    return {each["VolumeId"]: each.get("Status", "attached") for each in disks}


def patient() -> Any:
    """The settings of every client for a user's command."""
    from botocore.config import Config

    return Config(retries={"mode": "standard", "total_max_attempts": api_errors.ATTEMPTS})


@dataclass(frozen=True)
class Way:
    """A `gpucluster.head.remote.Way`."""

    aws: Aws
    instance_id: str
    private_ip: str
    endpoint_id: str

    def push_key(self, public_key: str) -> None:
        with aws_errors():
            self.aws.client("ec2-instance-connect").send_ssh_public_key(
                InstanceId=self.instance_id, InstanceOSUser=account.user(), SSHPublicKey=public_key
            )

    def tunnel_url(self) -> str:
        ids = [self.endpoint_id]
        with aws_errors():
            ec2 = self.aws.client("ec2")
            found = ec2.describe_instance_connect_endpoints(InstanceConnectEndpointIds=ids)["InstanceConnectEndpoints"]
            secure = urlsplit(ec2.meta.endpoint_url).scheme == "https"
        query = {
            "instanceConnectEndpointId": self.endpoint_id,
            "remotePort": SSH_PORT,
            "privateIpAddress": self.private_ip,
            "maxTunnelDuration": TUNNEL_S,
        }
        return self._signed(f"{'wss' if secure else 'ws'}://{found[0]['DnsName']}/openTunnel?{urlencode(query)}")

    def _signed(self, url: str) -> str:
        from botocore.auth import SigV4QueryAuth
        from botocore.awsrequest import AWSRequest

        request = AWSRequest(method="GET", url=url)
        credentials = self.aws.session.get_credentials()
        SigV4QueryAuth(credentials, "ec2-instance-connect", self.aws.config.region, expires=_SIGNATURE_S).add_auth(
            request
        )
        signed: str = request.url
        return signed


class HeadDoor(Way):
    """A `gpucluster.head.remote.Door`."""

    def host_key(self) -> str:
        return self.aws.parameter("host-key")

    def to_node(self, name: str) -> Way:
        """The tunnel to a compute node, through the same endpoint. Raises CloudError if it has no running instance."""
        ec2, cluster = self.aws.client("ec2"), self.aws.config.name
        with aws_errors():
            found = tagged_instances.find(ec2, ["running"], cluster=cluster, role="compute")
        for instance in found:
            if tagged_instances.node_of(instance) == name:
                return Way(self.aws, instance["InstanceId"], instance["PrivateIpAddress"], self.endpoint_id)
        raise CloudError(
            f"the node {name} has no running instance",
            "Slurm starts it when a job needs it; `gpucluster status` lists the nodes and their states",
        )
