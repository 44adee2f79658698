"""The policies of a synthesized template's roles, with what CloudFormation fills in as recorded calls write it."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from tests.recorded_calls import ACCOUNT, REGION, without_hash

Template = dict[str, Any]
_PSEUDO = {
    "AWS::Partition": "aws",
    "AWS::Region": REGION,
    "AWS::AccountId": ACCOUNT,
    "AWS::URLSuffix": "amazonaws.com",
    "AWS::NoValue": "",
}
_ARNS = {
    "AWS::IAM::Role": "arn:aws:iam::{account}:role/{id}",
    "AWS::IAM::InstanceProfile": "arn:aws:iam::{account}:instance-profile/{id}",
    "AWS::S3::Bucket": "arn:aws:s3:::{id}",
    "AWS::KMS::Key": "arn:aws:kms:{region}:{account}:key/{id}",
    "AWS::Logs::LogGroup": "arn:aws:logs:{region}:{account}:log-group:{id}:*",
    "AWS::FSx::FileSystem": "arn:aws:fsx:{region}:{account}:file-system/{id}",
    "AWS::EFS::FileSystem": "arn:aws:elasticfilesystem:{region}:{account}:file-system/{id}",
}
_NAMES = {"AWS::SSM::Parameter": "Name", "AWS::Logs::LogGroup": "LogGroupName"}


@dataclass(frozen=True)
class Grant:
    """One action of one statement of a role."""

    role: str
    statement: int
    action: str
    resources: str


def policies(template: Template) -> dict[str, list[dict[str, Any]]]:
    """Statements by role, the role's logical id without its hash."""
    found: dict[str, list[dict[str, Any]]] = {}
    for logical_id, resource in template["Resources"].items():
        properties = resource.get("Properties", {})
        if resource["Type"] == "AWS::IAM::Role":
            found.setdefault(without_hash(logical_id), [])
            for inline in properties.get("Policies", []):
                found[without_hash(logical_id)] += _statements(template, inline["PolicyDocument"])
        elif resource["Type"] in ("AWS::IAM::Policy", "AWS::IAM::ManagedPolicy"):
            for role in properties.get("Roles", []):
                found.setdefault(without_hash(role["Ref"]), []).extend(
                    _statements(template, properties["PolicyDocument"])
                )
    return found


def of_nodes(template: Template) -> dict[str, list[dict[str, Any]]]:
    """The roles that nodes and their jobs have, not those of AWS's services."""
    services = {
        without_hash(logical_id)
        for logical_id, resource in template["Resources"].items()
        if resource["Type"] == "AWS::IAM::Role" and not _is_for_nodes(resource["Properties"])
    }
    return {role: found for role, found in policies(template).items() if role not in services}


def _is_for_nodes(role: dict[str, Any]) -> bool:
    """Trusts EC2, or another role of this stack."""
    principals = [statement["Principal"] for statement in role["AssumeRolePolicyDocument"]["Statement"]]
    return all("AWS" in principal or principal.get("Service") == "ec2.amazonaws.com" for principal in principals)


def grants(template: Template) -> Iterator[Grant]:
    for role, statements in of_nodes(template).items():
        for number, statement in enumerate(statements):
            if statement["Effect"] == "Allow":
                for action in actions(statement):
                    yield Grant(role, number, action, ", ".join(_list(statement["Resource"])))


def without(statements: list[dict[str, Any]], grant: Grant) -> list[dict[str, Any]]:
    """The role's statements as they would be without this one action."""
    rest = [
        statement | {"Action": [action for action in actions(statement) if action != grant.action]}
        if number == grant.statement
        else statement
        for number, statement in enumerate(statements)
    ]
    return [statement for statement in rest if statement["Action"]]


def actions(statement: dict[str, Any]) -> list[str]:
    return [str(action) for action in _list(statement["Action"])]


def _list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else [value]


def _statements(template: Template, document: dict[str, Any]) -> list[dict[str, Any]]:
    resolved: list[dict[str, Any]] = resolve(template, document["Statement"])
    return resolved


def resolve(template: Template, value: Any) -> Any:
    """The value with its intrinsic functions carried out."""
    if isinstance(value, list):
        return [resolve(template, each) for each in value]
    if not isinstance(value, dict):
        return re.sub(r"\bami-[0-9a-f]{8,17}\b", "ami-0", value) if isinstance(value, str) else value
    if len(value) == 1:
        (name, argument), *_ = value.items()
        if name in _FUNCTIONS:
            return _FUNCTIONS[name](template, argument)
    return {key: resolve(template, each) for key, each in value.items()}


def _ref(template: Template, name: str) -> Any:
    if name in _PSEUDO:
        return _PSEUDO[name]
    resource = template["Resources"].get(name)
    if resource is None:  # a parameter
        return template["Parameters"][name].get("Default", f"<{name}>")
    literal = resource.get("Properties", {}).get(_NAMES.get(resource["Type"], ""))
    return resolve(template, literal) if literal else f"<{name}>"


def _attribute(template: Template, path: Any) -> str:
    name, attribute = path if isinstance(path, list) else path.split(".")
    kind = template["Resources"][name]["Type"]
    if attribute == "Arn" and kind in _ARNS:
        return _ARNS[kind].format(account=ACCOUNT, region=REGION, id=_ref(template, name))
    if attribute in ("GroupId", "TopicArn", "VolumeId", "Id"):
        return f"<{name}>"
    return f"<{name}.{attribute}>"


def _join(template: Template, argument: Any) -> str:
    separator, parts = argument
    return str(separator).join(str(resolve(template, part)) for part in resolve(template, parts))


def _sub(template: Template, argument: Any) -> str:
    text, names = argument if isinstance(argument, list) else (argument, {})

    def fill(match: re.Match[str]) -> str:
        name = match[1]
        if name in names:
            return str(resolve(template, names[name]))
        return _attribute(template, name) if "." in name else str(_ref(template, name))

    return re.sub(r"\$\{([^!}][^}]*)\}", fill, text)


def _select(template: Template, argument: Any) -> Any:
    return resolve(template, argument[1])[int(argument[0])]


def _split(template: Template, argument: Any) -> list[str]:
    return str(resolve(template, argument[1])).split(argument[0])


_FUNCTIONS = {
    "Ref": _ref,
    "Fn::GetAtt": _attribute,
    "Fn::Join": _join,
    "Fn::Sub": _sub,
    "Fn::Select": _select,
    "Fn::Split": _split,
}
