"""What guests learn about themselves, read from the control plane as they ask."""

from __future__ import annotations

import datetime
from collections.abc import Mapping

from localcloud import names, roles
from localcloud.ec2 import lifecycle
from localcloud.machines.spec import Credentials
from localcloud.runtime import current

_SPOT_WARNING = datetime.timedelta(minutes=2)


class CloudMetadata:
    """`localcloud.machines.spec.Metadata`, on the runtime of this process."""

    def __init__(self) -> None:
        self._interruptions: dict[str, str] = {}

    def tags(self, instance_id: str) -> Mapping[str, str]:
        with current().lock:
            instance = lifecycle.find(instance_id)
            return {tag["key"]: tag["value"] for tag in instance.get_tags()} if instance else {}

    def credentials(self, instance_id: str) -> Credentials | None:
        with current().lock:
            return current().sessions.credentials(instance_id)

    def instance_profile_arn(self, instance_id: str) -> str | None:
        with current().lock:
            profile = roles.profile_of(instance_id)
            return profile.arn if profile else None

    def ssh_keys(self, instance_id: str, os_user: str) -> list[str]:
        return current().pushed_keys.of(instance_id, os_user)

    def spot_interruption(self, instance_id: str) -> str | None:
        """Two minutes after it was first asked for while a fault of that kind is laid."""
        if not current().faults.interrupted(instance_id):
            self._interruptions.pop(instance_id, None)
            return None
        when = datetime.datetime.now(datetime.UTC) + _SPOT_WARNING
        return self._interruptions.setdefault(instance_id, when.strftime("%Y-%m-%dT%H:%M:%SZ"))

    def resolve(self, vpc_id: str, name: str, record_type: str) -> list[str] | None:
        with current().lock:
            return names.resolve(vpc_id, name, record_type)
