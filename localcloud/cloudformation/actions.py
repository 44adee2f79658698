"""Shared by the API actions: the template of a request, revisions, capabilities, pages."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any
from urllib.parse import unquote, urlparse

from botocore.exceptions import ClientError

from localcloud.cloudformation import parameter_existence, parameters, requests, template_rules, template_types
from localcloud.cloudformation.errors import InsufficientCapabilitiesError, TransformError, ValidationError
from localcloud.cloudformation.intrinsics import resolve
from localcloud.cloudformation.model import Revision, Stack
from localcloud.cloudformation.scopes import fetch_ssm, scope
from localcloud.cloudformation.service import Service
from localcloud.cloudformation.template import Template, parse

Given = Mapping[str, Any]
Action = Callable[[Service, str, Given], dict[str, Any]]
PAGE = 100
_IS_S3 = re.compile(r"(^|\.)s3[.-].*amazonaws\.com(\.cn)?$|^127\.0\.0\.1$|(^|\.)localhost$|^169\.254\.169\.251$")
_IAM = ("AWS::IAM::Role", "AWS::IAM::Policy", "AWS::IAM::ManagedPolicy", "AWS::IAM::InstanceProfile", "AWS::IAM::User")
_NAMES = ("RoleName", "ManagedPolicyName", "InstanceProfileName", "UserName")


def template_text(service: Service, region: str, given: Given, stack: Stack | None) -> str:
    if given.get("TemplateBody"):
        template_rules.check_length(str(given["TemplateBody"]))
        return str(given["TemplateBody"])
    if given.get("TemplateURL"):
        return _download(service, region, str(given["TemplateURL"]))
    if given.get("UsePreviousTemplate") and stack is not None:
        return stack.revision.template.text
    raise ValidationError("Either Template URL or Template Body must be specified.")


def _download(service: Service, region: str, url: str) -> str:
    """The object of a path-style or virtual-hosted S3 URL."""
    parts = urlparse(url)
    if parts.scheme not in ("http", "https") or not _IS_S3.search(parts.hostname or ""):
        raise ValidationError("TemplateURL must be a supported URL.")
    host, path = parts.netloc.split(":")[0], unquote(parts.path).lstrip("/")
    if ".s3" in host and host.endswith("amazonaws.com") and not host.startswith("s3"):
        bucket, key = host.split(".s3")[0], path
    else:
        bucket, _, key = path.partition("/")
    try:
        body: bytes = service.clients("s3", region).get_object(Bucket=bucket, Key=key)["Body"].read()
    except ClientError as error:
        raise ValidationError(f"S3 error: {error.response['Error'].get('Message', error)} ({url})") from None
    if len(body) > template_rules.LONGEST_STORED:
        raise ValidationError(f"Template may not exceed {template_rules.LONGEST_STORED} bytes in size.")
    return body.decode()


def revision(service: Service, stack: Stack, given: Given) -> Revision:
    """The revision that a request asks for. Raises for a bad template, parameters or capabilities."""
    template = _parsed(template_text(service, stack.region, given, stack), given)
    requests.check(given, template)
    requests.check_role(service.clients, stack.region, given.get("RoleARN"))
    template_types.check_known(template, stack.region)
    template_types.check_supported(template)
    check_capabilities(template, given.get("Capabilities") or [])
    values = parameters.resolve_all(
        template,
        given.get("Parameters") or [],
        stack.revision.parameters,
        fetch_ssm(service.clients, stack.region),
    )
    parameter_existence.check(template, values, service.clients, stack.region)
    tags = {str(tag["Key"]): str(tag["Value"]) for tag in given["Tags"]} if "Tags" in given else stack.revision.tags
    result = Revision(template, values, tags)
    _check_rules(service, stack, result)
    return result


def _parsed(text: str, given: Given) -> Template:
    try:
        return parse(text)
    except TransformError:
        # Macros may create anything, so CloudFormation requires this capability.
        if "CAPABILITY_AUTO_EXPAND" not in (given.get("Capabilities") or ()):
            raise InsufficientCapabilitiesError("Requires capabilities : [CAPABILITY_AUTO_EXPAND]") from None
        raise


def _check_rules(service: Service, stack: Stack, wanted: Revision) -> None:
    names = scope(stack, wanted, service.clients, service.imported(stack.region))
    for condition in wanted.template.conditions:
        names.condition(condition)
    for rule_name, rule in wanted.template.rules.items():
        if "RuleCondition" in rule and not resolve(rule["RuleCondition"], names):
            continue
        for item in rule.get("Assertions") or []:
            if not resolve(item["Assert"], names):
                why = item.get("AssertDescription", "assertion failed")
                raise ValidationError(f"Template validation error: Rule {rule_name} does not hold: {why}")


def required_capabilities(template: Template) -> list[str]:
    iam = [item for item in template.resources.values() if item["Type"] in _IAM]
    if any(name in (item.get("Properties") or {}) for item in iam for name in _NAMES):
        return ["CAPABILITY_NAMED_IAM"]
    return ["CAPABILITY_IAM"] if iam else []


def check_capabilities(template: Template, offered: Sequence[str]) -> None:
    needed = required_capabilities(template)
    if not needed or "CAPABILITY_NAMED_IAM" in offered or needed[0] in offered:
        return
    raise InsufficientCapabilitiesError(f"Requires capabilities : [{', '.join(needed)}]")


def page(items: Sequence[Any], token: str | None, size: int = PAGE) -> tuple[list[Any], str | None]:
    """The items from `token` on, and the token of the next page."""
    start = position(token) or 0
    following = start + size
    return list(items[start:following]), (str(following) if following < len(items) else None)


def position(token: str | None) -> int | None:
    """The offset in a page's token, which is a number here."""
    if token and not token.isdigit():
        raise ValidationError("Invalid pagination token. Please ensure the token is provided for the correct API")
    return int(token) if token else None


def require_idle(stack: Stack, verb: str) -> None:
    if stack.busy or not stack.exists:
        raise ValidationError(f"Stack:{stack.stack_id} is in {stack.status} state and can not be {verb}.")
