"""Names inside a VPC, on moto's Route 53 and EC2 in this process."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from moto.ec2.models import ec2_backends
from moto.route53.models import route53_backends

from localcloud.clients import ACCOUNT_ID
from localcloud.guests.names import resolve

RECORDS = [
    ("head.mine.internal.", "A", ["10.0.0.5"]),
    ("login.mine.internal.", "CNAME", ["head.mine.internal."]),
    ("away.mine.internal.", "CNAME", ["ip-10-0-1-2.ec2.internal"]),
    ("\\052.apps.mine.internal.", "A", ["10.0.0.9"]),
    ("_slurmctld._tcp.mine.internal.", "SRV", ["0 0 6817 head.mine.internal."]),
    ("note.mine.internal.", "TXT", ['"two " "parts"']),
    ("deep.inner.mine.internal.", "A", ["10.0.0.1"]),
]


@pytest.fixture(scope="module")
def vpc_id() -> Iterator[str]:
    route53, ec2 = route53_backends[ACCOUNT_ID]["aws"], ec2_backends[ACCOUNT_ID]["us-east-1"]
    vpc = ec2.create_vpc("10.0.0.0/16")
    zone = route53.create_hosted_zone("mine.internal.", private_zone=True, vpcid=vpc.id, vpcregion="us-east-1")
    inner = route53.create_hosted_zone("inner.mine.internal.", private_zone=True, vpcid=vpc.id, vpcregion="us-east-1")
    public = route53.create_hosted_zone("public.internal.", private_zone=False)
    public.add_rrset({"Name": "www.public.internal.", "Type": "A", "ResourceRecords": ["192.0.2.1"]})
    inner.add_rrset({"Name": "deep.inner.mine.internal.", "Type": "A", "ResourceRecords": ["10.0.0.2"]})
    for name, kind, values in RECORDS:
        zone.add_rrset({"Name": name, "Type": kind, "ResourceRecords": values})
    yield vpc.id
    for made in (zone, inner, public):
        del route53.zones[made.resource_id]
    ec2.delete_vpc(vpc.id)


@pytest.mark.parametrize(
    ("name", "record_type", "answer"),
    [
        ("head.mine.internal", "A", ["10.0.0.5"]),
        ("head.mine.internal", "AAAA", []),
        ("nobody.mine.internal", "A", []),
        ("login.mine.internal", "A", ["10.0.0.5"]),
        ("login.mine.internal", "CNAME", ["head.mine.internal."]),
        ("away.mine.internal", "A", ["10.0.1.2"]),
        ("x.apps.mine.internal", "A", ["10.0.0.9"]),
        ("_slurmctld._tcp.mine.internal", "SRV", ["0 0 6817 head.mine.internal."]),
        ("note.mine.internal", "TXT", ["two parts"]),
        ("deep.inner.mine.internal", "A", ["10.0.0.2"]),
        ("notmine.internal", "A", None),
        ("www.public.internal", "A", None),
        ("truststore.pki.rds.amazonaws.com", "A", ["203.0.113.53"]),
        ("truststore.pki.rds.amazonaws.com", "AAAA", []),
        ("db.c0123456789a.us-east-1.rds.amazonaws.com", "A", None),
        ("ip-10-0-1-2.ec2.internal", "A", ["10.0.1.2"]),
        ("ip-10-0-1-2.ec2.internal", "AAAA", []),
        ("ip-10-9-1-2.ec2.internal", "A", None),
        ("ip-10-0-1-999.ec2.internal", "A", None),
        ("ip-10-0-1-2.eu-west-1.compute.internal", "A", None),
        ("2.1.0.10.in-addr.arpa", "PTR", ["ip-10-0-1-2.ec2.internal."]),
        ("2.1.9.10.in-addr.arpa", "PTR", None),
        ("example.com", "A", None),
    ],
)
def test_resolve(vpc_id: str, name: str, record_type: str, answer: list[str] | None) -> None:
    assert resolve(vpc_id, name, record_type) == answer


def test_another_vpc_does_not_see_the_zones(vpc_id: str) -> None:
    assert resolve("vpc-other", "head.mine.internal", "A") is None
