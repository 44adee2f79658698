from __future__ import annotations

from validator_cases.case import cluster

from online_cases.case import Answers, Online


def offered(*zones: str, version: str = "10.11.14") -> Answers:
    option = {"Engine": "mariadb", "EngineVersion": version, "DBInstanceClass": "db.t4g.small"}
    places = {"AvailabilityZones": [{"Name": zone} for zone in zones]}
    return {"rds describe_orderable_db_instance_options": {"OrderableDBInstanceOptions": [{**option, **places}]}}


RDS = cluster(accounting="rds", availability_zone="us-east-1b")
CASES: dict[str, Online | list[Online]] = {
    "accounting-class-in-zone": [
        Online(
            RDS,
            key="accounting",
            says="RDS offers no db.t4g.small with mariadb 10.11 in us-east-1b",
            fails=fails,
            passes=offered("us-east-1b"),
        )
        for fails in (offered("us-east-1a"), offered("us-east-1a", "us-east-1b", version="11.4.8"))
    ]
}
