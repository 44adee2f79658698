"""Checks the cluster file against AWS before anything changes: quotas, zones, images, and all other named resources."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from gpucluster import updates
from gpucluster.cluster import stack
from gpucluster.cluster.api_errors import CREDENTIALS
from gpucluster.cluster.aws import Aws, aws_errors
from gpucluster.config import ClusterConfig
from gpucluster.config.checks import UNCHECKED, check_online
from gpucluster.config.checks.online.account import Refused
from gpucluster.config.checks.online.quotas import QUOTAS
from gpucluster.config.document import Finding
from gpucluster.config.validators import VALIDATORS
from gpucluster.errors import ConfigError, Notice, QuotaError


class LiveAccount:
    """A `gpucluster.config.checks.online.account.Account`. Each request is sent once."""

    def __init__(self, client: Callable[[str], Any]) -> None:
        self._client = client
        self._answers: dict[str, Any] = {}

    def ask(self, service: str, operation: str, /, **parameters: Any) -> dict[str, Any]:
        question = json.dumps([service, operation, parameters], sort_keys=True)
        if question not in self._answers:
            self._answers[question] = self._asked(service, operation, parameters)
        answer = self._answers[question]
        if isinstance(answer, Refused):
            raise answer
        found: dict[str, Any] = answer
        return found

    def _asked(self, service: str, operation: str, parameters: dict[str, Any]) -> Any:
        """Also remembers refusals, which would not change."""
        from botocore.exceptions import BotoCoreError, ClientError

        client = self._client(service)
        called = f"{service} {client.meta.method_to_api_mapping[operation]}"
        try:
            if client.can_paginate(operation):
                return client.get_paginator(operation).paginate(**parameters).build_full_result()
            return getattr(client, operation)(**parameters)
        except ClientError as error:
            details = error.response.get("Error", {})
            if details.get("Code") in CREDENTIALS:
                raise
            return Refused(called, details.get("Code", "unknown"), details.get("Message", ""))
        except BotoCoreError as error:
            return Refused(called, type(error).__name__, str(error))


def ask(config: ClusterConfig, cloud: Aws) -> list[Notice]:
    """Warnings and errors. Raises AwsError if AWS does not answer, or rejects the credentials."""
    with aws_errors():
        cloud.client("sts").get_caller_identity()
        account = LiveAccount(cloud.client)
        found: Sequence[Finding] = check_online(config, account).findings
        if any(finding.level == "error" for finding in found) and (before := _deployed(config, cloud)):
            earlier = check_online(before, account)
            found = list(_only_new_errors(found, [*earlier.findings, *earlier.silenced]))
    notices = _without_repeats([config.notice(finding) for finding in found])
    return sorted(notices, key=lambda notice: (notice.line, notice.column))


def _deployed(config: ClusterConfig, cloud: Aws) -> ClusterConfig | None:
    """The file as last deployed. None if there is no cluster, or another version of GpuCluster deployed it."""
    cloudformation = cloud.client("cloudformation")
    if not stack.has_cluster(stack.status(cloudformation, config.name)):
        return None
    try:
        return updates.read(stack.template_metadata(cloudformation, config.name)).config
    except updates.UnknownRecord:
        return None


def _only_new_errors(found: Sequence[Finding], earlier: Sequence[Finding]) -> Iterator[Finding]:
    """Errors that the deployed file has too become warnings: no change of the file caused them, and none has to wait
    for their repair. A reservation that ended must not prevent a new user."""
    had = Counter((finding.validator, finding.message) for finding in earlier)
    for finding in found:
        known = (finding.validator, finding.message)
        if finding.level == "error" and had[known]:
            had[known] -= 1
            yield finding._replace(level="warning", message=f"{finding.message}; the deployed cluster has this already")
        else:
            yield finding


def _without_repeats(notices: list[Notice]) -> list[Notice]:
    """One refusal can stop many validators: it is reported with the first one, and names the others."""
    by_refusal: dict[str, list[Notice]] = {}
    for notice in notices:
        if notice.message.startswith(UNCHECKED):
            by_refusal.setdefault(notice.message, []).append(notice)
    first = {id(group[0]): group[1:] for group in by_refusal.values()}
    shown = [notice for notice in notices if not notice.message.startswith(UNCHECKED) or id(notice) in first]
    return [_naming(notice, first.get(id(notice), [])) for notice in shown]


def _naming(notice: Notice, others: list[Notice]) -> Notice:
    names = dict.fromkeys(other.validator for other in others if other.validator != notice.validator)
    return notice._replace(hint=f"also not checked: {', '.join(names)}") if names else notice


def refuse(notices: list[Notice]) -> None:
    """Raises ConfigError if AWS would refuse what the file requests, QuotaError if the account's quotas are too low."""
    errors = [notice for notice in notices if notice.level == "error"]
    if any(VALIDATORS[notice.validator].section != QUOTAS for notice in errors):
        raise ConfigError(errors)
    if errors:
        raise QuotaError(errors)
