"""The jobs' role, taken with the node's own and renewed in time.

A role that was assumed by a role lasts an hour, whatever it allows itself.
"""

from __future__ import annotations

import logging
import socket
import threading
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime, timedelta, timezone
from typing import Any

from botocore.exceptions import ClientError

from gpucluster_node import fleet
from gpucluster_node.aws import AWS_ERRORS, client, error_code

log = logging.getLogger("credentials")

RENEW_BEFORE = timedelta(minutes=30)
"""AWS's SDKs ask again when less than 15 minutes are left: what they are given then must be newer."""
TRY_AGAIN = timedelta(seconds=5)
"""Of many ranks that ask while AWS does not answer, one is sent there."""


class NoRole(Exception):
    """The cluster file gives jobs nothing in S3."""


class NoCredentials(Exception):
    """AWS refused the role, or could not be asked."""


@dataclass(frozen=True)
class Credentials:
    role_arn: str
    access_key_id: str
    secret_access_key: str
    token: str
    expires: datetime

    def document(self) -> dict[str, str]:
        """As AWS's SDKs take them from a container's agent."""
        return {
            "RoleArn": self.role_arn,
            "AccessKeyId": self.access_key_id,
            "SecretAccessKey": self.secret_access_key,
            "Token": self.token,
            "Expiration": self.expires.astimezone(timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ"),
        }


def take(cluster: fleet.Fleet) -> Credentials:
    """New ones. The session's name is the node's: CloudTrail shows it. Raises NoRole and AWS's errors."""
    role_arn = _role_arn(client("ssm"), cluster)
    answer = client("sts").assume_role(RoleArn=role_arn, RoleSessionName=socket.gethostname())["Credentials"]
    keys = (answer["AccessKeyId"], answer["SecretAccessKey"], answer["SessionToken"])
    return Credentials(role_arn, *keys, answer["Expiration"])


def _role_arn(ssm: Any, cluster: fleet.Fleet) -> str:
    try:
        return str(fleet.parameter(ssm, cluster, "jobs")["role_arn"])
    except ClientError as error:
        if error_code(error) != "ParameterNotFound":
            raise
        raise NoRole("the cluster file has no s3_access: its jobs have no role on AWS") from error


def now() -> datetime:
    return datetime.now(timezone.utc)


class Keeper:
    """Has the latest credentials; asks for others when they are due, and not more often. Safe for threads."""

    def __init__(self, take: Callable[[], Credentials], now: Callable[[], datetime] = now) -> None:
        self._take, self._now = take, now
        self._lock = threading.Lock()
        self._held: Credentials | None = None
        self._failure: Exception | None = None
        self._try_at = now()

    def get(self) -> Credentials:
        """Raises NoRole, NoCredentials."""
        with self._lock:
            held = self._held
            if (held is None or held.expires - self._now() < RENEW_BEFORE) and self._now() >= self._try_at:
                held = self._held = self._renewed()
            if held is not None and held.expires > self._now():
                return held
            raise self._failure or NoCredentials("the jobs' credentials have run out")

    def _renewed(self) -> Credentials | None:
        """Where AWS does not answer, those that there were go on as long as they last."""
        self._failure = None
        try:
            taken = self._take()
        except NoRole as error:
            self._failure, taken = error, None
        except AWS_ERRORS as error:
            self._failure, taken = NoCredentials(f"the jobs' role could not be taken: {error}"), self._held
            log.warning("%s", self._failure)
        if self._failure:
            self._try_at = self._now() + TRY_AGAIN
        return taken

    def renew(self) -> None:
        """Ahead of those who will ask; one who asks waits two seconds for an answer, and AWS may take longer."""
        if self._held is not None:
            try:
                self.get()
            except (NoRole, NoCredentials):
                return  # logged already; the asking job gets the reason
