"""The account and region whose training jobs are read."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from gpucluster.cluster.api_errors import aws_errors
from gpucluster.sagemaker.connection import connect
from gpucluster.sagemaker.target import Target

Make = Callable[[str], Any]
"""The name of a service -> its client."""


class Account:
    def __init__(self, target: Target, make: Make | None = None) -> None:
        """`make`: by default, clients with the caller's credentials."""
        self.target = target
        self._make, self._clients = make or connect(target.region).client, dict[str, Any]()

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
