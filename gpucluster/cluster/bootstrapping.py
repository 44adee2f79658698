"""Whether an account is prepared for CDK. `cdk bootstrap` prepares it, with a parameter and roles that have the
project's qualifier in their names (https://docs.aws.amazon.com/cdk/v2/guide/bootstrapping-customizing.html).

A company may have done so in its own way: with another qualifier, another name of the stack and permissions of its own.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from gpucluster.cluster import cdk, stack
from gpucluster.errors import DeployError, UsageError

QUALIFIER_KEY = "@aws-cdk/core:bootstrapQualifier"
DEFAULT = "hnb659fds"
"""CDK's own."""


def qualifier(config_file: Path) -> str:
    """As the CDK command line finds it: in the project's cdk.json, or else in the user's. Raises UsageError."""
    for file in (cdk.project(config_file) / "cdk.json", Path.home() / ".cdk.json"):
        found = _context(file).get(QUALIFIER_KEY)
        if found:
            return str(found)
    return DEFAULT


def _context(file: Path) -> dict[str, Any]:
    try:
        found = json.loads(file.read_text(encoding="utf-8"))
        return dict(found.get("context", {}))
    except FileNotFoundError:
        return {}
    except (AttributeError, TypeError, ValueError) as error:
        raise UsageError(
            f"{file}: cannot be read: {error}", "it must be a JSON object, see CDK's documentation"
        ) from None


def is_needed(cloudformation: Any, ssm: Any, wanted: str, where: str) -> bool:
    """Whether `cdk bootstrap` must run first. Raises DeployError if that is for an administrator to decide. `where`:
    the account and region."""
    if stack.in_progress(stack.status(cloudformation, stack.BOOTSTRAP_STACK)):
        for _ in stack.follow(cloudformation, stack.BOOTSTRAP_STACK):  # of another `up`
            pass
    if _prepared(ssm, wanted):
        return False
    there = _qualifiers(ssm)
    if there:
        raise DeployError(
            f"{where} is prepared for CDK with the qualifier {' and '.join(there)}, and this project uses {wanted}; "
            "nothing was deployed",
            f'write the qualifier into the project\'s cdk.json: "context": {{"{QUALIFIER_KEY}": "{there[0]}"}}; or, if '
            f"it is another program's, such as a landing zone's, have an administrator run {_command(wanted)}",
        )
    if wanted != DEFAULT:
        raise DeployError(
            f"{where} is not prepared for CDK with the qualifier {wanted} of cdk.json: there is no parameter "
            f"{_parameter(wanted)}; nothing was deployed",
            f"ask the account's administrator to run {_command(wanted)}, or correct cdk.json",
        )
    return True


def _command(wanted: str) -> str:
    return "`cdk bootstrap`" if wanted == DEFAULT else f"`cdk bootstrap --qualifier {wanted}`"


def _parameter(wanted: str) -> str:
    return f"/cdk-bootstrap/{wanted}/version"


def _prepared(ssm: Any, wanted: str) -> bool:
    """Also if the caller may not know: CDK's roles may read it, and the deployment then tells."""
    try:
        ssm.get_parameter(Name=_parameter(wanted))
    except ssm.exceptions.ParameterNotFound:
        return False
    except ssm.exceptions.ClientError as error:
        if error.response["Error"]["Code"] != "AccessDeniedException":
            raise
    return True


def _qualifiers(ssm: Any) -> list[str]:
    pages = ssm.get_paginator("get_parameters_by_path").paginate(Path="/cdk-bootstrap", Recursive=True)
    return sorted({each["Name"].split("/")[2] for page in pages for each in page["Parameters"]})
