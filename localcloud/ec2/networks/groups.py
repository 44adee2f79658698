"""Security groups: AWS refuses to delete one that an interface or another group's rule still uses; moto does not.

moto counts the rules of IPv4 and IPv6 together; validation/groups.py counts them as AWS does, before moto sees them.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Iterator
from typing import Any

from moto.core.responses import ActionResult
from moto.ec2.models.security_groups import SecurityGroupBackend
from moto.ec2.responses import EC2Response

from localcloud.ec2.errors import Ec2Error


def install() -> None:
    SecurityGroupBackend._verify_group_will_respect_rule_count_limit = _uncounted  # type: ignore[method-assign, assignment]


def _uncounted(backend: SecurityGroupBackend, *_: Any, **__: Any) -> None:
    pass


class GroupActions(EC2Response):
    def _process_rules_from_querystring(self) -> Iterator[dict[str, Any]]:
        """EC2 "canonicalizes IPv4 and IPv6 CIDRs": 100.68.0.18/18 becomes 100.68.0.0/18.

        https://docs.aws.amazon.com/AWSEC2/latest/APIReference/API_IpRange.html
        """
        for rule in super()._process_rules_from_querystring():
            if rule["ip_protocol"] in ("icmpv6", "58") and rule["from_port"] is None:  # all types and codes
                rule |= {"from_port": -1, "to_port": -1}
            for each in rule["ip_ranges"]:
                for name in each.keys() & {"CidrIp", "CidrIpv6"}:
                    each[name] = str(ipaddress.ip_network(each[name], strict=False))
            yield rule

    def delete_security_group(self) -> ActionResult:
        group_id = self._get_param("GroupId")
        for interface in self.ec2_backend.enis.values():
            if any(group.id == group_id for group in interface.group_set):
                raise Ec2Error("DependencyViolation", f"resource {group_id} has a dependent object")
        result: ActionResult = super().delete_security_group()
        return result
