"""Training jobs without AWS: botocore checks each request against its model, and so the answer, which a test gives."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable
from copy import deepcopy
from datetime import datetime
from functools import cache
from pathlib import Path
from typing import Any

import boto3
from botocore.awsrequest import AWSResponse
from botocore.config import Config
from botocore.validate import validate_parameters

from gpucluster.config.parse import parse
from gpucluster.sagemaker import target
from gpucluster.sagemaker.following.account import Account

DATA = Path(__file__).parents[3] / "data/sagemaker"
TARGET = """\
region: us-east-1
role_arn: arn:aws:iam::123456789012:role/training
bucket: bucket-of-mine
instance_type: ml.p3.2xlarge
"""


@cache
def _session() -> boto3.Session:
    """botocore reads its model of SageMaker, which is large, once for each session."""
    return boto3.Session("x", "x", region_name="us-east-1")


class Refusal(Exception):
    """AWS's answer, if it is an error: code and message."""


class Played(Account):
    """`answers`: operation, as AWS names it -> what it answers to these parameters; may raise Refusal."""

    is_local = False
    """Played as AWS: submit shows prices."""

    def __init__(self) -> None:
        super().__init__(target.loads(parse(TARGET, "sagemaker.yaml")), self._client)
        self.answers = dict[str, Callable[[dict[str, Any]], dict[str, Any]]]()
        self.calls = list[tuple[str, dict[str, Any]]]()
        self._asked = threading.local()

    def _client(self, service: str) -> Any:
        made = _session().client(service, config=Config(retries={"total_max_attempts": 1}))
        made.meta.events.register_first("provide-client-params", self._keep)
        made.meta.events.register_first("before-call", self._answer)
        return made

    def _keep(self, params: dict[str, Any], **_: Any) -> None:
        self._asked.params = dict(params)

    def _answer(self, model: Any, **_: Any) -> tuple[AWSResponse, dict[str, Any]]:
        self.calls.append((model.name, self._asked.params))
        try:
            found = self.answers[model.name](self._asked.params)
        except Refusal as error:
            code, message = error.args
            return AWSResponse("", 400, {}, None), {"Error": {"Code": code, "Message": message}}
        if model.output_shape:
            validate_parameters(found, model.output_shape)
        return AWSResponse("", 200, {}, None), found


def described(kind: str, **changes: Any) -> dict[str, Any]:
    """A recorded answer of DescribeTrainingJob, with times as boto3 gives them."""
    found = json.loads((DATA / "described.json").read_text())[kind]
    for each in (found, *found["SecondaryStatusTransitions"]):
        each.update({key: datetime.fromisoformat(each[key]) for key in each if key.endswith("Time")})
    return deepcopy(found) | changes
