"""The jobs' role, assumed with the node's role and renewed in time.

A session of a role that another role assumes lasts at most an hour, whatever its limit. It ends earlier if `up` deletes
the role, and a role that `up` creates later is another one.
"""

from __future__ import annotations

import logging
import socket
import threading
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Any

from botocore.exceptions import ClientError

from gpucluster_node import fleet
from gpucluster_node.aws import AWS_ERRORS, client, error_code

log = logging.getLogger("credentials")

MARK = Path("/home/gpucluster/job-role")
"""The head node writes another one for each role, and deletes it with the role."""
RENEW_BEFORE = timedelta(minutes=30)
"""AWS's SDKs renew credentials that expire in less than 15 minutes, so they must get newer ones."""
TRY_AGAIN = timedelta(seconds=5)
"""While AWS does not answer, only one of many asking ranks makes a call."""


class NoRole(Exception):
    """The cluster file gives jobs nothing in S3."""


class NoCredentials(Exception):
    """AWS refused the role, or did not answer."""


@dataclass(frozen=True)
class Credentials:
    role_arn: str
    access_key_id: str
    secret_access_key: str
    token: str
    expires: datetime

    def document(self) -> dict[str, str]:
        """In the form that AWS's SDKs expect from a container agent."""
        return {
            "RoleArn": self.role_arn,
            "AccessKeyId": self.access_key_id,
            "SecretAccessKey": self.secret_access_key,
            "Token": self.token,
            "Expiration": self.expires.astimezone(timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ"),
        }


def take(cluster: fleet.Fleet) -> Credentials:
    """Fetches credentials. CloudTrail shows the session's name, the node's. Raises NoRole and AWS's errors."""
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


def mark() -> str:
    """Empty without a role. Raises OSError if the head node's files cannot be read."""
    try:
        return MARK.read_text()
    except FileNotFoundError:
        return ""


def now() -> datetime:
    return datetime.now(timezone.utc)


class Keeper:
    """Keeps the latest credentials and fetches new ones when they are due, and not more often. Thread-safe."""

    def __init__(
        self, take: Callable[[], Credentials], now: Callable[[], datetime] = now, mark: Callable[[], str] = mark
    ) -> None:
        self._take, self._now, self._mark = take, now, mark
        self._marked: str | None = None
        """The role's mark, once it was read."""
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
            raise self._failure or NoCredentials("the jobs' credentials have expired")

    def _renewed(self) -> Credentials | None:
        """If AWS does not answer, the current credentials are used until they expire."""
        self._failure = None
        try:
            taken = self._take()
        except NoRole as error:
            self._failure, taken = error, None
        except AWS_ERRORS as error:
            self._failure, taken = NoCredentials(f"the jobs' role could not be assumed: {error}"), self._held
            log.warning("%s", self._failure)
        if self._failure:
            self._try_at = self._now() + TRY_AGAIN
        return taken

    def renew(self) -> None:
        """Renews before anybody asks: a client waits two seconds for an answer, and AWS may take longer."""
        if self._held is not None:
            self._ask()

    def follow(self) -> None:
        """Gives up the credentials of a role that is gone. `get` does not, because it must answer while the head node
        does not."""
        try:
            found = self._mark()
        except OSError:
            return
        is_another, self._marked = self._marked not in (None, found), found
        if is_another:
            with self._lock:
                had, self._held, self._try_at = self._held, None, self._now()
            if had:
                self._ask()

    def _ask(self) -> None:
        try:
            self.get()
        except (NoRole, NoCredentials):
            return  # logged already; the client gets the reason
