"""RDS: what moto gets wrong. The API keeps instances; no database answers at their endpoints."""

from __future__ import annotations

import moto.rds.urls
from moto.core.responses import ActionResult
from moto.rds.responses import RDSResponse


class Rds(RDSResponse):
    def modify_db_subnet_group(self) -> ActionResult:
        """moto forgets a group when it changes it."""
        groups, name = self.backend.subnet_groups, self.params.get("DBSubnetGroupName")
        group = groups.get(name)
        result = super().modify_db_subnet_group()
        if group:
            groups[name] = group
        return result


def install() -> None:
    moto.rds.urls.url_paths["{0}/$"] = Rds.dispatch
