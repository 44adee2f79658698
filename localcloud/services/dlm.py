"""Data Lifecycle Manager, which moto lacks. It keeps policies, but takes no snapshots."""

from __future__ import annotations

import json
import secrets
from datetime import UTC, datetime
from typing import Any

from werkzeug import Request, Response

from localcloud.validation import schedules

_policies: dict[tuple[str, str], dict[str, Any]] = {}
"""Keys: region and id."""
_SUMMARY = ("PolicyId", "Description", "State", "Tags")


def handle(request: Request, region: str, account_id: str) -> Response:
    """Answers POST and GET of /policies, and GET, PATCH and DELETE of /policies/<id>."""
    policy_id = request.path.removeprefix("/policies").strip("/")
    given = json.loads(request.get_data() or b"{}")
    if request.method == "POST":
        return _create(given, region, account_id)
    if request.method == "GET" and not policy_id:
        return _json({"Policies": [_summary(policy) for (where, _), policy in _policies.items() if where == region]})
    if (region, policy_id) not in _policies:
        return _error("ResourceNotFoundException", f"The policy '{policy_id}' does not exist.", 404)
    policy = _policies[region, policy_id]
    if request.method == "GET":
        return _json({"Policy": policy})
    if request.method == "PATCH":
        policy |= given | {"DateModified": _now()}
    elif request.method == "DELETE":
        del _policies[region, policy_id]
    return _json({})


def _create(given: dict[str, Any], region: str, account_id: str) -> Response:
    details = given.get("PolicyDetails") or {}
    if not (details.get("TargetTags") and details.get("Schedules")):
        return _error("InvalidRequestException", "A snapshot policy needs TargetTags and Schedules.", 400)
    schedules.check_policy(given)
    policy_id = f"policy-{secrets.token_hex(9)[:17]}"
    arn = f"arn:aws:dlm:{region}:{account_id}:policy/{policy_id}"
    times = {"DateCreated": _now(), "DateModified": _now()}
    _policies[region, policy_id] = {**given, **times, "PolicyId": policy_id, "PolicyArn": arn}
    return _json({"PolicyId": policy_id})


def _summary(policy: dict[str, Any]) -> dict[str, Any]:
    shown: dict[str, Any] = {name: policy[name] for name in _SUMMARY if name in policy}
    return {**shown, "PolicyType": policy["PolicyDetails"].get("PolicyType", "EBS_SNAPSHOT_MANAGEMENT")}


def _now() -> str:
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def _json(value: object) -> Response:
    return Response(json.dumps(value), content_type="application/json")


def _error(code: str, message: str, status: int) -> Response:
    body = json.dumps({"Code": code, "Message": message})
    return Response(body, status, {"x-amzn-ErrorType": code}, content_type="application/json")
