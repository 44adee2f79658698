"""Security groups: AWS refuses to delete one that an interface or another group's rule still uses; moto does not."""

from __future__ import annotations

from moto.core.responses import ActionResult
from moto.ec2.responses import EC2Response

from localcloud.ec2.errors import Ec2Error


class GroupActions(EC2Response):
    def delete_security_group(self) -> ActionResult:
        group_id = self._get_param("GroupId")
        for interface in self.ec2_backend.enis.values():
            if any(group.id == group_id for group in interface.group_set):
                raise Ec2Error("DependencyViolation", f"resource {group_id} has a dependent object")
        result: ActionResult = super().delete_security_group()
        return result
