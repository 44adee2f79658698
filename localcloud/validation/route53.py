"""Rules for Route 53's batches of changes and zones.

https://docs.aws.amazon.com/Route53/latest/DeveloperGuide/DNSLimitations.html, .../ResourceRecordTypes.html;
messages of refused changes: DNSControl/dnscontrol#1114.
"""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Iterator
from typing import Any

from moto.ec2.models import ec2_backends
from moto.route53.models import FakeZone, route53_backends

from localcloud.clients import ACCOUNT_ID
from localcloud.validation.refusal import Refusal
from localcloud.validation.rules import Parameters, rule

_MOST_CHARACTERS = 32000
_MOST_RECORDS = 1000
_LONGEST_LABEL, _LONGEST_NAME = 63, 255
# https://docs.aws.amazon.com/Route53/latest/DeveloperGuide/ResourceRecordTypes.html
_HOST = r"[^\s/]+"
_FORMS = {
    "MX": rf"\d{{1,5}} {_HOST}", "SRV": rf"\d{{1,5}} \d{{1,5}} \d{{1,5}} {_HOST}", "CNAME": _HOST, "NS": _HOST,
    "PTR": _HOST, "CAA": r'\d{1,3} [a-zA-Z0-9]+ ".*"', "SPF": r'".*"',
}  # fmt: skip
Records = dict[tuple[str, str, str], tuple[Any, ...]]
"""Name, type and set identifier -> TTL and values."""


def _zones() -> dict[str, FakeZone]:
    return dict(route53_backends[ACCOUNT_ID]["aws"].zones)


def _zone(given: Parameters) -> FakeZone | None:
    return _zones().get(str(given.get("HostedZoneId") or given.get("Id")).rpartition("/")[2])


def _batch(*messages: str) -> Refusal:
    return Refusal("InvalidChangeBatch", f"[{', '.join(messages)}]")


def _name(name: str) -> str:
    return name.lower().rstrip(".").replace("*", "\\052") + "."


@rule("route53", "ChangeResourceRecordSets")
def changes(given: Parameters, region: str) -> None:
    wanted = (given.get("ChangeBatch") or {}).get("Changes") or []
    weights = [2 if change["Action"] == "UPSERT" else 1 for change in wanted]
    values = [
        [record["Value"] for record in change["ResourceRecordSet"].get("ResourceRecords") or []] for change in wanted
    ]
    if sum(weight * len(each) for weight, each in zip(weights, values, strict=True)) > _MOST_RECORDS:
        raise _batch(f"Number of records limit of {_MOST_RECORDS} exceeded.")
    characters = sum(weight * sum(map(len, each)) for weight, each in zip(weights, values, strict=True))
    if characters > _MOST_CHARACTERS:
        raise _batch(f"Number of characters limit of {_MOST_CHARACTERS} exceeded.")
    zone = _zone(given)
    if zone is None:
        return  # moto reports it
    held = _held(zone)
    found = [message for change in wanted for message in _applied(zone, held, change)]
    if found:
        raise _batch(*found)


def _held(zone: FakeZone) -> Records:
    return {
        (_name(each.name), str(each.type), str(each.set_identifier or "")): (str(each.ttl), tuple(sorted(each.records)))
        for each in zone.rrsets
    }


def _applied(zone: FakeZone, held: Records, change: dict[str, Any]) -> Iterator[str]:
    """The errors of one change. Applies the change to `held`."""
    wanted, action = change["ResourceRecordSet"], change["Action"]
    name, kind = _name(wanted["Name"]), wanted["Type"]
    key, shown = (name, kind, str(wanted.get("SetIdentifier") or "")), f"[name='{name}', type='{kind}']"
    values = [record["Value"] for record in wanted.get("ResourceRecords") or []]
    if not wanted.get("AliasTarget") and (wanted.get("TTL") is None or not values):
        raise Refusal(
            "InvalidInput",
            "Invalid request: Expected exactly one of [AliasTarget, all of [TTL, and ResourceRecords], or "
            f"TrafficPolicyInstanceId], but found none in Change with [Action={action}, Name={wanted['Name']}, "
            f"Type={kind}, SetIdentifier={wanted.get('SetIdentifier', 'null')}]",
        )
    if wanted.get("AliasTarget") and (wanted.get("TTL") is not None or values):
        raise Refusal(
            "InvalidInput",
            "Invalid request: Expected exactly one of [AliasTarget, all of [TTL, and ResourceRecords], or "
            f"TrafficPolicyInstanceId], but found more than one in Change with [Action={action}, "
            f"Name={wanted['Name']}, Type={kind}, SetIdentifier={wanted.get('SetIdentifier', 'null')}]",
        )
    yield from _labels(name)
    if len(set(values)) < len(values):
        yield f"Invalid Resource Record: FATAL problem: Duplicate Resource Record encountered with '{name}'"
    yield from _policies(held, key, action)
    if action == "CREATE" and key in held:
        yield f"Tried to create resource record set {shown} but it already exists"
    if action == "DELETE":
        yield from _deleted(zone, held, key, shown, (str(wanted.get("TTL")), tuple(sorted(values))))
        return
    if problem := _invalid_value(kind, values):
        yield problem
    yield from _conflicts(zone, held, name, kind)
    held[key] = (str(wanted.get("TTL")), tuple(sorted(values)))


def _policies(held: Records, key: tuple[str, str, str], action: str) -> Iterator[str]:
    """Among the records with one name and type, either none or all have a set identifier."""
    name, kind, identifier = key
    others = [each for each in held if each[:2] == (name, kind) and bool(each[2]) != bool(identifier)]
    if others and action != "DELETE":
        yield f"RRSet with DNS name {name}, type {kind} cannot be created: simple and other records do not mix"


def _labels(name: str) -> Iterator[str]:
    """https://docs.aws.amazon.com/Route53/latest/DeveloperGuide/DomainNameFormat.html"""
    if any(len(label) > _LONGEST_LABEL for label in name.split(".")):
        yield f"FATAL problem: DomainLabelTooLong (Domain label is too long) encountered with '{name}'"
    if len(name) > _LONGEST_NAME:
        yield f"FATAL problem: DomainNameTooLong (Domain name is too long) encountered with '{name}'"
    if "" in name.removesuffix(".").split("."):
        yield f"FATAL problem: DomainLabelEmpty (Domain label is empty) encountered with '{name}'"


def _deleted(
    zone: FakeZone, held: Records, key: tuple[str, str, str], shown: str, given: tuple[Any, ...]
) -> Iterator[str]:
    if key not in held:
        yield f"Tried to delete resource record set {shown} but it was not found"
    elif given[1] and held[key] != given:
        yield f"Tried to delete resource record set {shown} but the values provided do not match the current values"
    elif key[0] == _name(zone.name) and key[1] in ("SOA", "NS"):
        yield f"A HostedZone must contain at least one {key[1]} record for the zone itself."
    else:
        del held[key]


def _conflicts(zone: FakeZone, held: Records, name: str, kind: str) -> Iterator[str]:
    if kind == "CNAME" and name == _name(zone.name):
        yield f"RRSet of type CNAME with DNS name {name} is not permitted at apex in zone {_name(zone.name)}"
    others = {other for at, other, _ in held if at == name and other != kind}
    if others and (kind == "CNAME" or "CNAME" in others):
        yield (
            f"RRSet of type {kind} with DNS name {name} is not permitted as it conflicts with other records with the "
            f"same DNS name in zone {_name(zone.name)}"
        )


def _invalid_value(kind: str, values: list[str]) -> str | None:
    for value in values:
        if kind in ("A", "AAAA") and not _is_address(value, 4 if kind == "A" else 6):
            what = f"{kind}RRDATAIllegalIPv{4 if kind == 'A' else 6}Address (Value is not a valid address)"
        elif kind == "TXT" and not value.startswith('"'):
            what = "InvalidCharacterString (Value should be enclosed in quotation marks)"
        elif kind == "TXT" and any(len(each) > _LONGEST_NAME for each in re.findall(r'"((?:[^"\\]|\\.)*)"', value)):
            what = "CharacterStringTooLong (Value is too long)"
        elif kind in _FORMS and not re.fullmatch(_FORMS[kind], value):
            what = f"{kind}RRDATAMalformed (Value is not of the form of {kind} records)"
        elif kind == "CNAME" and len(values) > 1:
            what = "CNAMEMultipleValues (A CNAME has one value)"
        else:
            continue
        return f"Invalid Resource Record: 'FATAL problem: {what} encountered with '{value}''"
    return None


def _is_address(value: str, version: int) -> bool:
    try:
        return ipaddress.ip_address(value).version == version
    except ValueError:
        return False


@rule("route53", "ListResourceRecordSets", "ListHostedZones", "ListHostedZonesByName")
def page_size(given: Parameters, region: str) -> None:
    most = given.get("MaxItems")
    if most is not None and not re.fullmatch(r"[1-9]\d*", str(most)):
        raise Refusal("InvalidInput", f"1 validation error detected: Value '{most}' at 'maxItems' must be a number")


@rule("route53", "CreateHostedZone")
def create_zone(given: Parameters, region: str) -> None:
    name, reference, vpc = _name(given["Name"]), given["CallerReference"], given.get("VPC") or {}
    if any(_labels(name)) or not re.fullmatch(r"[!-~]+", name):
        raise Refusal("InvalidDomainName", f"{given['Name']} is not a valid domain name.")
    if any(zone.caller_reference == reference for zone in _zones().values()):
        raise Refusal(
            "HostedZoneAlreadyExists",
            "A hosted zone has already been created with the specified caller reference.",
            409,
        )
    if vpc:
        _check_vpc(vpc)
        _check_free(name, vpc)


def _check_free(name: str, vpc: dict[str, Any]) -> None:
    """A VPC can have only one zone of a name."""
    for zone in _zones().values():
        if _name(zone.name) == name and any(held.get("vpc_id") == vpc.get("VPCId") for held in zone.vpcs):
            raise Refusal(
                "ConflictingDomainExists",
                f"The VPC {vpc['VPCId']} in region {vpc.get('VPCRegion')} has already been associated with the hosted "
                f"zone {zone.resource_id} with the same domain name.",
            )


def _check_vpc(vpc: dict[str, Any]) -> None:
    """AWS refuses a VPC of another account, which AWS RAM may share, in these words: aws/aws-app-mesh-examples#432."""
    region = str(vpc.get("VPCRegion") or "us-east-1")
    if vpc.get("VPCId") not in ec2_backends[ACCOUNT_ID][region].vpcs:
        raise Refusal(
            "InvalidVPCId",
            f"The VPC: {vpc.get('VPCId')} in region {region} that you provided is not authorized to make the "
            "association.",
        )


@rule("route53", "AssociateVPCWithHostedZone")
def associate(given: Parameters, region: str) -> None:
    zone = _zone(given)
    if zone and not zone.private_zone:
        raise Refusal("PublicZoneVPCAssociation", "Public hosted zones cannot be associated with VPCs.")
    vpc = given.get("VPC") or {}
    _check_vpc(vpc)
    if zone:
        _check_free(_name(zone.name), vpc)


@rule("route53", "DisassociateVPCFromHostedZone")
def disassociate(given: Parameters, region: str) -> None:
    zone, vpc_id = _zone(given), (given.get("VPC") or {}).get("VPCId")
    if zone is None:
        return
    held = [each.get("vpc_id") for each in zone.vpcs]
    if vpc_id not in held:
        raise Refusal("VPCAssociationNotFound", f"The VPC: {vpc_id} is not associated with this hosted zone.", 404)
    if len(held) == 1:
        raise Refusal("LastVPCAssociation", "The last VPC of a private hosted zone cannot be disassociated.")


@rule("route53", "DeleteHostedZone")
def delete_zone(given: Parameters, region: str) -> None:
    zone = _zone(given)
    own = [record for record in zone.rrsets if str(record.type) not in ("SOA", "NS")] if zone else []
    if own:
        raise Refusal(
            "HostedZoneNotEmpty",
            "The specified hosted zone contains non-required resource record sets and so cannot be deleted.",
        )
