"""Checks the cluster file against AWS before anything changes: quotas, zones, images, and all other named resources."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

from gpucluster.cluster.aws import CREDENTIALS, Aws, aws_errors
from gpucluster.config import ClusterConfig
from gpucluster.config.checks import UNCHECKED, check_online
from gpucluster.config.checks.online.account import Refused
from gpucluster.config.checks.online.quotas import QUOTAS
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
        outcome = check_online(config, LiveAccount(cloud.client))
    notices = _without_repeats([config.notice(finding) for finding in outcome.findings])
    return sorted(notices, key=lambda notice: (notice.line, notice.column))


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
