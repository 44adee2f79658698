"""RDS: corrections of moto, and a machine for each MariaDB instance. Instances of other engines do not answer."""

from __future__ import annotations

import copy
import secrets
import string
from typing import Any

import moto.rds.urls
from moto.core.responses import ActionResult
from moto.ec2.models.availability_zones_and_regions import RegionsAndZonesBackend
from moto.rds.exceptions import RDSClientError
from moto.rds.models import DBInstance, RDSBackend
from moto.rds.responses import RDSResponse

from localcloud.databases import hosts
from localcloud.runtime import Runtime, bound

# Two of the versions that cfn-lint 1.58 lists for AWS::RDS::DBInstance EngineVersion.
MARIADB_VERSIONS = ("10.11.18", "10.11.19")
# On AWS each account has one in each region; here all share one.
_LABEL = "c" + "".join(secrets.choice(string.ascii_lowercase + string.digits) for _ in range(11))


class Rds(RDSResponse):
    runtime: Runtime

    def create_db_instance(self) -> ActionResult:
        result = super().create_db_instance()
        database = _made(result)
        if hosts.boots(self.runtime, database):
            self._boot(database)
            return result
        shown = copy.copy(database)
        shown.status = "creating"  # moto's record is already `available`, which the next describe call shows
        return ActionResult({"DBInstance": shown})

    def _boot(self, database: DBInstance) -> None:
        try:
            hosts.start(self.runtime, database)
        except BaseException:
            del self.backend.databases[database.db_instance_identifier]
            raise

    def delete_db_instance(self) -> ActionResult:
        """An instance with a machine is `deleting` until the machine has ended."""
        backend: RDSBackend = self.backend
        name = str(self.params.get("DBInstanceIdentifier"))
        if name in backend.databases and backend.databases[name].status == "deleting":
            raise RDSClientError("InvalidDBInstanceState", f"Instance {name} is already being deleted.")
        result = super().delete_db_instance()
        database = _made(result)
        if hosts.has_machine(database):
            backend.databases[name] = database
            hosts.end(self.runtime, database, lambda: _forget(backend, name))
        return result

    def describe_orderable_db_instance_options(self) -> ActionResult:
        """moto offers no MariaDB instances. Here every requested class and version is offered in every zone."""
        if self.params.get("Engine") != "mariadb":
            return super().describe_orderable_db_instance_options()
        zones = [{"Name": zone.name} for zone in RegionsAndZonesBackend.zones[self.region]]
        option = {
            "Engine": "mariadb",
            "DBInstanceClass": self.params.get("DBInstanceClass", "db.t4g.small"),
            "AvailabilityZones": zones,
        }
        versions = [self.params["EngineVersion"]] if "EngineVersion" in self.params else MARIADB_VERSIONS
        return ActionResult({"OrderableDBInstanceOptions": [{**option, "EngineVersion": each} for each in versions]})

    def modify_db_subnet_group(self) -> ActionResult:
        """moto loses the record of a group when it modifies the group."""
        groups, name = self.backend.subnet_groups, self.params.get("DBSubnetGroupName")
        group = groups.get(name)
        result = super().modify_db_subnet_group()
        if group:
            groups[name] = group
        return result


def _made(result: ActionResult) -> DBInstance:
    answer: Any = result.result
    database: DBInstance = answer["DBInstance"]
    return database


def _forget(backend: RDSBackend, name: str) -> None:
    del backend.databases[name]


def install(runtime: Runtime) -> None:
    moto.rds.urls.url_paths["{0}/$"] = bound(Rds, runtime=runtime).dispatch
    DBInstance.default_engine_versions["mariadb"] = MARIADB_VERSIONS[-1]  # moto has none, and fails without one
    DBInstance.address = property(_address)  # type: ignore[method-assign, assignment]
    DBInstance.endpoint = property(_endpoint)  # type: ignore[method-assign, assignment]


def _address(database: DBInstance) -> str:
    return f"{database.db_instance_identifier}.{_LABEL}.{database.region}.rds.amazonaws.com"


def _endpoint(database: DBInstance) -> dict[str, Any] | None:
    """None while the instance is being created."""
    return None if database.status == "creating" else {"Address": database.address, "Port": database.port}
