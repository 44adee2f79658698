"""boto3 clients. Region, credentials and endpoint come from the machine's environment."""

from __future__ import annotations

from functools import cache
from typing import Any

import boto3
from botocore.config import Config
from botocore.exceptions import BotoCoreError, ClientError

AWS_ERRORS = (ClientError, BotoCoreError)


@cache
def client(service: str) -> Any:
    config = Config(connect_timeout=5, read_timeout=60, retries={"mode": "standard", "total_max_attempts": 5})
    return boto3.client(service, config=config)


def error_code(error: Exception) -> str:
    """EC2's word for what went wrong, such as InsufficientInstanceCapacity."""
    return str(error.response["Error"]["Code"]) if isinstance(error, ClientError) else type(error).__name__


def error_message(error: Exception) -> str:
    return str(error.response["Error"].get("Message", "")) if isinstance(error, ClientError) else str(error)
