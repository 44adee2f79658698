"""Callers other than the administrator: instances with a role, sessions of roles, users with keys."""

from __future__ import annotations

import datetime
import re
from collections.abc import Mapping
from dataclasses import dataclass

from moto.ec2.models import ec2_backends
from moto.iam.models import IAMBackend, InstanceProfile, Role, iam_backends
from moto.sts.models import sts_backends

from localcloud.clients import ACCOUNT_ID
from localcloud.machines.spec import Credentials

VALID = datetime.timedelta(hours=6)
_ASSUMED_S = 3600
_ANSWERED = ("AccessKeyId", "SecretAccessKey", "SessionToken")
_RENEW_BEFORE = datetime.timedelta(minutes=15)


@dataclass(frozen=True)
class Session:
    """The caller to whom an access key belongs."""

    instance_id: str
    """Or the session's name, if no instance assumed the role; empty for a user."""
    role_name: str
    credentials: Credentials
    until: datetime.datetime | None
    user_name: str = ""

    @property
    def name(self) -> str:
        return self.instance_id or self.user_name

    @property
    def arn(self) -> str:
        if self.user_name:
            return self.principal_arn
        return f"arn:aws:sts::{ACCOUNT_ID}:assumed-role/{self.role_name}/{self.instance_id}"

    @property
    def principal_arn(self) -> str:
        """The ARN that policies use."""
        kind = f"user/{self.user_name}" if self.user_name else f"role/{self.role_name}"
        return f"arn:aws:iam::{ACCOUNT_ID}:{kind}"


def iam() -> IAMBackend:
    backend: IAMBackend = iam_backends[ACCOUNT_ID]["aws"]
    return backend


def profile_of(instance_id: str) -> InstanceProfile | None:
    for regions in list(ec2_backends.values()):
        for backend in list(regions.values()):
            if association := backend.iam_instance_profile_associations.get(instance_id):
                profile: InstanceProfile = association.iam_instance_profile
                return profile
    return None


def secret_of_user(access_key_id: str) -> str | None:
    """None if no user has this key, or the key is inactive."""
    for user in list(iam().users.values()):
        for key in list(user.access_keys):
            if key.access_key_id == access_key_id and key.status == "Active":
                return str(key.secret_access_key)
    return None


def user_session(access_key_id: str) -> Session | None:
    for user in list(iam().users.values()):
        if any(key.access_key_id == access_key_id for key in list(user.access_keys)):
            return Session("", "", Credentials("", access_key_id, "", "", ""), None, user.name)
    return None


class Sessions:
    """Active sessions by access key. Callers of every method but `of_key` hold the cloud's lock."""

    def __init__(self) -> None:
        self._by_key: dict[str, Session] = {}
        self._latest: dict[str, Session] = {}

    def of_key(self, access_key_id: str) -> Session | None:
        return self._by_key.get(access_key_id)

    def assumed(self, caller: Session | None, form: Mapping[str, str], answer: str) -> None:
        """Records the session in STS's answer to `caller`, so that the role's policies apply to its calls."""
        found = [re.search(rf"<{name}>([^<]+)</{name}>", answer) for name in _ANSWERED]
        key, secret, token = (each[1] if each else "" for each in found)
        if not key:
            return  # refused
        name = form.get("RoleArn", "").rpartition("/")[2]
        seconds = int(form.get("DurationSeconds") or _ASSUMED_S)
        until = datetime.datetime.now(datetime.UTC) + datetime.timedelta(seconds=seconds)
        credentials = Credentials(name, key, secret, token, until.strftime("%Y-%m-%dT%H:%M:%SZ"))
        session_name = (caller.instance_id if caller else "") or form.get("RoleSessionName", "")
        self._by_key[key] = Session(session_name, name, credentials, until)

    def of_service(self, role: Role, session_name: str) -> Credentials:
        """For a service that has assumed a role and gives its credentials to a program."""
        return self._renewed(role, session_name, f"{session_name}/{role.arn}")

    def credentials(self, instance_id: str) -> Credentials | None:
        """The instance's current credentials, renewed in good time; None without a role."""
        profile = profile_of(instance_id)
        if profile is None or not profile.roles:
            return None
        return self._renewed(profile.roles[0], instance_id, instance_id)

    def _renewed(self, role: Role, session_name: str, key: str) -> Credentials:
        latest = self._latest.get(key)
        now = datetime.datetime.now(datetime.UTC)
        if (
            latest is None
            or latest.role_name != role.name
            or latest.until is None
            or latest.until - now < _RENEW_BEFORE
        ):
            latest = self._latest[key] = _assume(role, session_name, now)
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
