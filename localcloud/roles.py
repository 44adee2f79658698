"""Role credentials of instances: temporary keys that IAM, STS and the permission check know."""

from __future__ import annotations

import datetime
import re
from dataclasses import dataclass

from moto.iam.models import IAMBackend, InstanceProfile, Role, iam_backends
from moto.sts.models import sts_backends

from localcloud.clients import ACCOUNT_ID
from localcloud.ec2 import lifecycle
from localcloud.machines.spec import Credentials

VALID = datetime.timedelta(hours=6)
_RENEW_BEFORE = datetime.timedelta(minutes=15)


@dataclass(frozen=True)
class Session:
    """Who a temporary key stands for."""

    instance_id: str
    role_name: str
    credentials: Credentials
    until: datetime.datetime


def iam() -> IAMBackend:
    backend: IAMBackend = iam_backends[ACCOUNT_ID]["aws"]
    return backend


def profile_of(instance_id: str) -> InstanceProfile | None:
    instance = lifecycle.find(instance_id)
    association = instance and instance.ec2_backend.iam_instance_profile_associations.get(instance_id)
    return association.iam_instance_profile if association else None


class Sessions:
    """Live sessions by access key. Callers hold the runtime's lock."""

    def __init__(self) -> None:
        self._by_key: dict[str, Session] = {}
        self._latest: dict[str, Session] = {}

    def of_key(self, access_key_id: str) -> Session | None:
        return self._by_key.get(access_key_id)

    def assumed(self, caller: Session, role_arn: str, answer: str) -> None:
        """Keep the session that STS has just answered `caller` with: a job's role is held to its policies, too."""
        held = [re.search(rf"<{name}>([^<]+)</{name}>", answer) for name in ("AccessKeyId", "SecretAccessKey")]
        if held[0] is None or held[1] is None:
            return  # refused
        name, until = role_arn.rpartition("/")[2], datetime.datetime.now(datetime.UTC) + VALID
        credentials = Credentials(name, held[0][1], held[1][1], "", until.strftime("%Y-%m-%dT%H:%M:%SZ"))
        self._by_key[held[0][1]] = Session(caller.instance_id, name, credentials, until)

    def credentials(self, instance_id: str) -> Credentials | None:
        """The instance's current credentials, renewed in good time; None without a role."""
        profile = profile_of(instance_id)
        if profile is None or not profile.roles:
            return None
        role: Role = profile.roles[0]
        latest = self._latest.get(instance_id)
        now = datetime.datetime.now(datetime.UTC)
        if latest is None or latest.role_name != role.name or latest.until - now < _RENEW_BEFORE:
            latest = self._latest[instance_id] = _assume(role, instance_id, now)
            self._by_key[latest.credentials.access_key_id] = latest
        return latest.credentials


def _assume(role: Role, instance_id: str, now: datetime.datetime) -> Session:
    assumed = sts_backends[ACCOUNT_ID]["aws"].assume_role(
        region_name="us-east-1",
        role_session_name=instance_id,
        role_arn=role.arn,
        policy="",
        duration=int(VALID.total_seconds()),
        external_id="",
    )
    until = now + VALID
    credentials = Credentials(
        role_name=role.name,
        access_key_id=assumed.access_key_id,
        secret_access_key=assumed.secret_access_key,
        session_token=assumed.session_token,
        expiration=until.strftime("%Y-%m-%dT%H:%M:%SZ"),
    )
    return Session(instance_id, role.name, credentials, until)
