"""Records the calls of nodes' roles in a booted run, so that tests can compare roles with them without booting.

`tests/data/iam/calls.json` has one entry for each distinct (role, action, resource, keys). Values that differ between
runs are normalised: ids of the stack's resources become `<LogicalId>`, other ids `i-0`, hashes and names fixed words.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from localcloud.identity.permissions import ALLOWED, evaluate

PATH = Path(__file__).parent / "data" / "iam" / "calls.json"
ACCOUNT, REGION = "123456789012", "us-east-1"

# Values that name a node, describe a failure or change with each revision.
_VARYING = re.compile(
    r"aws:(Request|Resource)Tag/(Name|gpucluster:(node|boot-failure|generation))$"
    r"|sts:RoleSessionName$|route53:ChangeResourceRecordSetsNormalizedRecordNames$"
)
_RUNTIME_ID = re.compile(r"\b(i|vol|eni|snap|ami)-[0-9a-f]{8,17}\b")
_STREAM = re.compile(r":log-stream:.+")
_HASH = re.compile(r"\b[0-9a-f]{64}\b")
# Their names are in the template; policies use patterns for them.
_NAMED = ("AWS::SSM::Parameter", "AWS::Logs::LogGroup")
_SHORTEST_ID = 8

JOBS_ROLE = "StorageJobsRole"
"""The role of users' jobs, which a test gives the cluster for a while by s3_access. Users decide what it calls."""


@dataclass(frozen=True)
class Recorded:
    role: str  # HeadRole, ComputeRole, …: the logical id without its hash
    action: str
    resource: str
    keys: tuple[tuple[str, tuple[str, ...]], ...]

    def allowed(self, policies: Iterable[Mapping[str, Any]]) -> bool:
        context = dict(self.keys)
        context |= {key.replace("aws:", "ec2:", 1): v for key, v in self.keys if key.startswith("aws:ResourceTag/")}
        context |= {"aws:RequestedRegion": (REGION,), "aws:PrincipalAccount": (ACCOUNT,)}
        context |= {"aws:ResourceAccount": (ACCOUNT,), "aws:SecureTransport": ("true",)}
        return evaluate(policies, self.action, self.resource, context) == ALLOWED


def without_hash(logical_id: str) -> str:
    return re.sub(r"[0-9A-F]{8}$", "", logical_id)


def of_log(entries: Iterable[Mapping[str, Any]], events: Iterable[Mapping[str, Any]]) -> set[Recorded]:
    """`entries` of the API log, `events` of the stack, which name every resource that it ever had."""
    known = {
        str(event["PhysicalResourceId"]): str(event["LogicalResourceId"])
        for event in events
        if len(event.get("PhysicalResourceId") or "") >= _SHORTEST_ID
        and event["ResourceType"] not in (*_NAMED, "AWS::CloudFormation::Stack")
    }
    longest_first = dict(sorted(known.items(), key=lambda pair: -len(pair[0])))
    return {
        _recorded(entry["role"], check, longest_first)
        for entry in entries
        for check in entry.get("checks") or ()
        if entry["role"] in known
        and check["action"] != "sts:AssumeRole"
        and without_hash(known[entry["role"]]) != JOBS_ROLE
    }


def _recorded(role: str, check: Mapping[str, Any], known: Mapping[str, str]) -> Recorded:
    keys = {
        key: ("any",) if _VARYING.match(key) else tuple(_fixed(value, known) for value in values)
        for key, values in check["keys"].items()
        if "Tag/aws:" not in key and not key.startswith("ec2:ResourceTag/")
    }
    return Recorded(
        without_hash(known[role]), check["action"], _fixed(check["resource"], known), tuple(sorted(keys.items()))
    )


def _fixed(text: str, known: Mapping[str, str]) -> str:
    for physical_id, logical_id in known.items():
        text = text.replace(physical_id, f"<{logical_id}>")
    return _STREAM.sub(":log-stream:any", _HASH.sub("<hash>", _RUNTIME_ID.sub(r"\1-0", text)))


def read() -> list[Recorded]:
    return [
        Recorded(each["role"], each["action"], each["resource"], tuple((k, tuple(v)) for k, v in each["keys"].items()))
        for each in json.loads(PATH.read_text())
    ]


def write(calls: Iterable[Recorded]) -> None:
    ordered = sorted(calls, key=lambda call: (call.role, call.action, call.resource, call.keys))
    lines = [
        json.dumps({"role": c.role, "action": c.action, "resource": c.resource, "keys": dict(c.keys)}) for c in ordered
    ]
    PATH.parent.mkdir(parents=True, exist_ok=True)
    PATH.write_text("[\n" + ",\n".join(lines) + "\n]\n")
