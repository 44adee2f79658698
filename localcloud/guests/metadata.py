"""The metadata of guests, read from the control plane at each request."""

from __future__ import annotations

import datetime
from collections.abc import Mapping
from email.utils import formatdate
from typing import Any

from localcloud.ec2 import lifecycle, statuses
from localcloud.faults import Faults
from localcloud.filesystems import servers
from localcloud.filesystems.contents import Contents
from localcloud.guests import names
from localcloud.identity import roles
from localcloud.identity.roles import Sessions
from localcloud.identity.ssh_keys import PushedKeys
from localcloud.machines.spec import Credentials, FileServer, InstanceSpec
from localcloud.runtime import Locks


class CloudMetadata:
    """`localcloud.machines.spec.Metadata`, of the control plane."""

    def __init__(
        self, locks: Locks, faults: Faults, sessions: Sessions, pushed_keys: PushedKeys, contents: Contents | None
    ) -> None:
        self._locks = locks
        self._faults = faults
        self._sessions = sessions
        self._pushed_keys = pushed_keys
        self._contents = contents

    def tags(self, instance_id: str) -> Mapping[str, str]:
        with self._locks.whole:
            instance = lifecycle.find(instance_id)
            return {tag["key"]: tag["value"] for tag in instance.get_tags()} if instance else {}

    def credentials(self, instance_id: str) -> Credentials | None:
        with self._locks.holding("sts"):
            return self._sessions.credentials(instance_id)

    def instance_profile_arn(self, instance_id: str) -> str | None:
        with self._locks.whole:
            profile = roles.profile_of(instance_id)
            return profile.arn if profile else None

    def ssh_keys(self, instance_id: str, os_user: str) -> list[str]:
        return self._pushed_keys.of(instance_id, os_user)

    def spot_interruption(self, instance_id: str) -> str | None:
        due_epoch_s = self._faults.interruption_epoch_s(instance_id)
        if due_epoch_s is None:
            return None
        return datetime.datetime.fromtimestamp(due_epoch_s, datetime.UTC).strftime("%Y-%m-%dT%H:%M:%SZ")

    def scheduled_events(self, instance_id: str) -> list[dict[str, str]]:
        """EC2's guide, monitoring-instances-status-check_sched."""
        return [
            {
                "NotBefore": formatdate(rule.due_epoch_s, usegmt=True).partition(", ")[2],
                "Code": rule.code,
                "Description": statuses.description(rule),
                "EventId": statuses.event_id(rule),
                "State": "active",
            }
            for rule in self._faults.events(instance_id)
        ]

    def clock_ahead_s(self, instance_id: str) -> float:
        return self._faults.clock_ahead_s(instance_id)

    def has_no_metadata(self, instance_id: str) -> bool:
        return self._faults.has_no_metadata(instance_id)

    def dns_delay_s(self) -> float:
        return self._faults.dns_delay_s()

    def survives_shutdown(self, instance_id: str) -> bool:
        with self._locks.whole:
            instance = lifecycle.find(instance_id)
            return instance is not None and lifecycle.survives_shutdown(instance)

    def resolve(self, vpc_id: str, name: str, record_type: str) -> list[str] | None:
        with self._locks.holding("route53"):
            return names.resolve(vpc_id, name, record_type)

    def file_server(self, client: InstanceSpec, address: str, *, tls: bool) -> FileServer | None:
        with self._locks.whole:
            return servers.find(self._contents, client, address, tls=tls) if self._contents else None

    def lustre(self, request: Mapping[str, Any], uid: int) -> Mapping[str, object]:
        if self._contents is None:
            raise FileNotFoundError(19, "No such device")
        return self._contents.ask(request, uid)
