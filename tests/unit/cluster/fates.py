"""What CloudFormation does to each resource when a stack's template becomes another one, read from its own schemas.

cfn-lint carries the registry's schemas: `createOnlyProperties` make a new resource, `conditionalCreateOnlyProperties`
may.
Two tables have what the schemas lack, each row with the words of CloudFormation's user guide.
Nothing is taken from the local cloud.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from functools import cache
from typing import Any

Template = Mapping[str, Any]
Path = tuple[str, ...]

ADDED, REMOVED, UPDATED, RESTARTED, REPLACED = "added", "removed", "updated", "restarted", "replaced"

# "If the Instance is backed by EBS: Some interruptions": it is stopped, changed and started, and stays itself.
RESTARTS = {"AWS::EC2::Instance": ({"InstanceType"}, {"UserData"}, {"EbsOptimized"})}

GUIDE = {
    # "Update requires: Replacement"
    "AWS::FSx::FileSystem": {("LustreConfiguration", "DeploymentType"), ("LustreConfiguration", "EfaEnabled")},
    # "Update requires: Updates are not supported": the update fails
    "AWS::EC2::Volume": {("AvailabilityZone",), ("Encrypted",), ("KmsKeyId",)},
}


def fates(old: Template, new: Template) -> dict[str, str]:
    """Logical id -> its fate; unchanged resources are left out."""
    before, after = old["Resources"], new["Resources"]
    found = dict.fromkeys(after.keys() - before.keys(), ADDED) | dict.fromkeys(before.keys() - after.keys(), REMOVED)
    both = [name for name in before if name in after]
    while more := {name: fate for name in both if (fate := _fate(before[name], after[name], found)) != found.get(name)}:
        found |= {name: fate for name, fate in more.items() if fate}
    return found


def retyped(old: Template, new: Template) -> list[str]:
    """Logical ids under which `new` has another type. CloudFormation refuses that: "Update of resource type is not
    permitted" (https://github.com/aws/aws-sam-cli/issues/6786)."""
    before, after = old["Resources"], new["Resources"]
    return [name for name in before if name in after and before[name]["Type"] != after[name]["Type"]]


def _fate(before: Mapping[str, Any], after: Mapping[str, Any], known: Mapping[str, str]) -> str | None:
    """Also considers the other resources' fates: a reference to a replaced resource has a new value."""
    changed = set(_changed(before.get("Properties", {}), after.get("Properties", {}), known))
    if any(_touches(changed, path) for path in replaces(before["Type"])):
        return REPLACED
    restarting = [{(name,) for name in names} for names in RESTARTS.get(before["Type"], ())]
    if any(_touches(changed, path) for paths in restarting for path in paths):
        return RESTARTED
    aspects = ("DeletionPolicy", "UpdateReplacePolicy", "Metadata")
    return UPDATED if changed or any(before.get(name) != after.get(name) for name in aspects) else None


def _touches(changed: set[Path], path: Path) -> bool:
    return any(each[: len(path)] == path or path[: len(each)] == each for each in changed)


def _changed(old: Any, new: Any, known: Mapping[str, str], path: Path = ()) -> Iterator[Path]:
    """Paths of properties; a list counts as a whole."""
    if isinstance(old, dict) and isinstance(new, dict) and not _is_function(old) and not _is_function(new):
        for name in {**old, **new}:
            if (name in old) != (name in new):
                yield (*path, name)
            else:
                yield from _changed(old[name], new[name], known, (*path, name))
    elif old != new or any(known.get(name) == REPLACED for name in named(new)):
        yield path


def _is_function(value: Mapping[str, Any]) -> bool:
    return len(value) == 1 and next(iter(value)).startswith(("Fn::", "Ref"))


def named(value: Any) -> Iterator[str]:
    """Logical ids that a value mentions."""
    if isinstance(value, list):
        for each in value:
            yield from named(each)
    elif isinstance(value, dict):
        if "Ref" in value:
            yield value["Ref"]
        elif "Fn::GetAtt" in value:
            yield value["Fn::GetAtt"][0]
        else:
            yield from named(list(value.values()))


@cache
def replaces(resource_type: str) -> frozenset[Path]:
    """Paths of properties whose change makes, or may make, a new resource."""
    from cfnlint.schema.manager import PROVIDER_SCHEMA_MANAGER  # half a second, and most workers do not need it

    schema = PROVIDER_SCHEMA_MANAGER.get_resource_schema("us-east-1", resource_type).schema
    names = [*schema.get("createOnlyProperties", ()), *schema.get("conditionalCreateOnlyProperties", ())]
    paths = {tuple(name.split("/")[2:]) for name in names}
    spared = {(name,) for names in RESTARTS.get(resource_type, ()) for name in names}
    return frozenset((paths - spared) | GUIDE.get(resource_type, set()))


def of_types(found: Mapping[str, str], old: Template, new: Template, *types: str) -> dict[str, str]:
    """Those fates that are of resources of these types; a type may stand for all of its service, with a `*`."""
    resources = {**new["Resources"], **old["Resources"]}
    return {name: fate for name, fate in found.items() if _is_of(resources[name]["Type"], types)}


def _is_of(resource_type: str, types: tuple[str, ...]) -> bool:
    return any(resource_type == each or each.endswith("*") and resource_type.startswith(each[:-1]) for each in types)


def brief(found: Mapping[str, str]) -> str:
    return json.dumps(dict(found), indent=1, sort_keys=True)
