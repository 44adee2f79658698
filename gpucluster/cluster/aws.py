"""The only boto3 on the user's side: the cluster's stack, its head node, the way in.

`connect` finds out where the cluster lives. After that nobody asks again whether that is AWS.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlencode, urlsplit

from gpucluster.cluster import local_cloud, stack
from gpucluster.errors import AwsError, CloudError, NotDeployedError

if TYPE_CHECKING:
    from gpucluster.config import ClusterConfig

TUNNEL_S = 3600
"""The longest that AWS allows."""
SSH_PORT = 22
_SIGNATURE_S = 60

CREDENTIALS = (
    "AuthFailure",
    "ExpiredToken",
    "ExpiredTokenException",
    "InvalidClientTokenId",
    "InvalidSignatureException",
    "RequestExpired",
    "SignatureDoesNotMatch",
    "UnrecognizedClientException",
)
"""Error codes of every service: AWS refuses the caller, not this call."""
_DENIED = ("AccessDenied", "AccessDeniedException", "UnauthorizedOperation")


def connect(config: ClusterConfig, config_path: Path | str | None = None) -> Aws:
    """Calls nothing yet. `config_path` is the cluster file where it is not the one that `config` was loaded from."""
    import boto3

    record = local_cloud.read(Path(config_path or config._document.file), config.name)
    with aws_errors():
        if record is None:
            return Aws(config, boto3.Session(region_name=config.region), None)
        keys = {"aws_access_key_id": record.access_key_id, "aws_secret_access_key": record.secret_access_key}
        return Aws(config, boto3.Session(region_name=config.region, **keys), record.endpoint_url)


@dataclass(frozen=True)
class Head:
    instance_id: str
    private_ip: str
    endpoint_id: str
    """Of the Instance Connect Endpoint that leads to it."""
    state: str
    """As EC2 says: pending, running, stopped …"""


@dataclass
class Aws:
    config: ClusterConfig
    session: Any
    """A boto3 session."""
    endpoint_url: str | None
    """None: AWS's own."""
    _clients: dict[str, Any] = field(default_factory=dict)

    def client(self, service: str) -> Any:
        if service not in self._clients:
            with aws_errors():  # this reads the user's profile and credentials
                self._clients[service] = self.session.client(service, endpoint_url=self.endpoint_url)
        return self._clients[service]

    def has_credentials(self) -> bool:
        """Whether there are some; what AWS thinks of them shows when it is asked."""
        with aws_errors():
            return self.session.get_credentials() is not None

    def stack_status(self) -> str | None:
        """None where there is no stack."""
        with aws_errors():
            return stack.status(self.client("cloudformation"), self.config.name)

    def outputs(self) -> dict[str, str]:
        """Raises NotDeployedError."""
        with aws_errors():
            status = stack.status(self.client("cloudformation"), self.config.name)
            found = stack.outputs(self.client("cloudformation"), self.config.name) if status else {}
        if "HeadInstanceId" in found:
            return found
        where = f"the cluster {self.config.name} in {self.config.region}"
        if status is None:
            raise NotDeployedError(
                f"{where} does not exist", "`gpucluster up` creates it on AWS, `gpucluster up --local` on this machine"
            )
        raise NotDeployedError(
            f"{where} is not ready: its stack is {status}", "`gpucluster up` waits for it, or repairs it"
        )

    def head(self) -> Head:
        """Raises NotDeployedError."""
        outputs = self.outputs()
        instance_id = outputs["HeadInstanceId"]
        with aws_errors():
            found = self.client("ec2").describe_instances(Filters=[{"Name": "instance-id", "Values": [instance_id]}])
        instances = [instance for reservation in found["Reservations"] for instance in reservation["Instances"]]
        state = instances[0]["State"]["Name"] if instances else "gone"
        return Head(instance_id, outputs["HeadPrivateIp"], outputs["InstanceConnectEndpointId"], state)

    def parameter(self, name: str) -> str:
        """Of the cluster's SSM parameters, by its last part."""
        with aws_errors():
            value: str = self.client("ssm").get_parameter(Name=self.config.ssm_path + name)["Parameter"]["Value"]
            return value

    def door(self) -> HeadDoor:
        """Raises NotDeployedError, or CloudError where the head does not run."""
        head = self.head()
        if head.state != "running":
            raise CloudError(f"the head node {head.instance_id} is {head.state}", "`gpucluster up` starts it again")
        return HeadDoor(self, head.instance_id, head.private_ip, head.endpoint_id)


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
                InstanceId=self.instance_id, InstanceOSUser="ubuntu", SSHPublicKey=public_key
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
        """To a compute node, through the same endpoint. Raises CloudError where no instance of it runs."""
        tags = {"cluster": self.aws.config.name, "role": "compute", "node": name}
        wanted = [{"Name": f"tag:gpucluster:{tag}", "Values": [value]} for tag, value in tags.items()]
        with aws_errors():
            found = self.aws.client("ec2").describe_instances(
                Filters=[*wanted, {"Name": "instance-state-name", "Values": ["running"]}]
            )
        for reservation in found["Reservations"]:
            for instance in reservation["Instances"]:
                return Way(self.aws, instance["InstanceId"], instance["PrivateIpAddress"], self.endpoint_id)
        raise CloudError(
            f"no instance of the node {name} runs",
            "a job that needs it starts it; `gpucluster status` lists the nodes and their states",
        )


@contextmanager
def aws_errors() -> Iterator[None]:
    """botocore's exceptions as ours, with what to do next."""
    from botocore.exceptions import (
        BotoCoreError,
        ClientError,
        EndpointConnectionError,
    )

    try:
        yield
    except EndpointConnectionError as error:
        endpoint = error.kwargs.get("endpoint_url", "AWS")
        raise AwsError(
            f"{endpoint} does not answer",
            "check the network; `gpucluster up --local` starts a local cloud again",
        ) from None
    except ClientError as error:
        raise _client_error(error) from None
    except BotoCoreError as error:
        raise _botocore_error(error) from None


def _botocore_error(error: Exception) -> AwsError:
    """What keeps a call from being made: the user's own profile and credentials, most of all."""
    from botocore import exceptions as known

    match error:
        case known.NoCredentialsError() | known.PartialCredentialsError():
            hint = "run `aws configure`, or set AWS_PROFILE; `gpucluster up --local` needs no credentials"
            return AwsError(f"no AWS credentials: {error}", hint)
        case known.ProfileNotFound():
            return AwsError(str(error), "correct AWS_PROFILE; `aws configure list-profiles` lists the profiles")
        case known.SSOError() | known.TokenRetrievalError() | known.LoginError():
            profile = os.environ.get("AWS_PROFILE") or os.environ.get("AWS_DEFAULT_PROFILE") or "default"
            login = "login" if isinstance(error, known.LoginError) else "sso login"
            return AwsError(f"you are not logged in to AWS: {error}", f"aws {login} --profile {profile}")
        case known.ConfigParseError():
            return AwsError(str(error), "correct that file, or set AWS_CONFIG_FILE to another one")
    return AwsError(f"AWS: {error}")


def _client_error(error: Any) -> AwsError:
    details = error.response.get("Error", {})
    code, message = details.get("Code", "unknown"), details.get("Message", "")
    hint = None
    if code in CREDENTIALS:
        hint = "your AWS credentials are wrong or have expired: log in again"
    elif code in _DENIED:
        hint = "your AWS identity lacks this permission"
    return AwsError(f"{error.operation_name}: {code}: {message}", hint)
