"""The account and region whose training jobs are read."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from gpucluster.cluster import aws, credentials
from gpucluster.cluster.api_errors import aws_errors, refuse_web_page
from gpucluster.sagemaker.target import Target

Make = Callable[[str], Any]
"""The name of a service -> its client."""


class Account:
    def __init__(self, target: Target, make: Make | None = None) -> None:
        """`make`: by default, clients of boto3 with the caller's credentials."""
        self.target = target
        self._make, self._clients = make or self._of_boto3, dict[str, Any]()

    def call(self, service: str, operation: str, /, **asked: Any) -> dict[str, Any]:
        """`operation`: as boto3 names it. A throttled call is made again (`aws.patient`). Raises AwsError."""
        with aws_errors():
            answer: dict[str, Any] = getattr(self.client(service), operation)(**asked)
            return answer

    def pages(self, service: str, operation: str, /, **asked: Any) -> Iterator[dict[str, Any]]:
        """Raises AwsError."""
        with aws_errors():
            yield from self.client(service).get_paginator(operation).paginate(**asked)

    def client(self, service: str) -> Any:
        if service not in self._clients:
            self._clients[service] = self._make(service)
        return self._clients[service]

    def _of_boto3(self, service: str) -> Any:
        with aws_errors(), credentials.reading():
            made = credentials.session(self.target.region).client(service, config=aws.patient())
        made.meta.events.register("before-parse", refuse_web_page)
        return made
