"""Clients of botocore, and of boto3 for S3. Region, credentials and endpoint come from the machine's environment."""

from __future__ import annotations

import re
import threading
from datetime import datetime
from functools import cache
from typing import Any

import botocore.session
from botocore.config import Config
from botocore.exceptions import BotoCoreError, ClientError
from botocore.utils import parse_timestamp

AWS_ERRORS = (ClientError, BotoCoreError)
ATTEMPTS = {"route53": 10}
"""Attempts of a call, if five are too few. Route 53 answers an account five calls a second, and a zone one batch at a
time: PriorRequestNotComplete, Throttling."""
CONNECTIONS = 64
"""More than resume has threads, and as many as parts of files are copied at once."""
READ = frozenset(
    [
        "AmiLaunchIndex",
        "CapacityReservationId",
        "ClientToken",
        "InstanceId",
        "InstanceLifecycle",
        "InstanceType",
        "LaunchTime",
        "PrivateIpAddress",
        "State",
        "StateReason",
        "Tags",
    ]
)
"""The members of EC2's instances that programs read. botocore would read all 60, which takes three times as long: 0.8 s
for an answer about 1,000 instances, every 5 s."""
JOB_CREDENTIALS_VARIABLE = "AWS_CONTAINER_CREDENTIALS_FULL_URI"
JOB_CREDENTIALS_URL = "http://127.0.0.1:9911/credentials"
"""The jobs' own role, served on every compute node: the node's role has no access to their data."""
LONGEST_MESSAGE = 300
_EXPIRED = ("RequestExpired", "ExpiredToken", "ExpiredTokenException")
"""The codes of EC2, of S3 and services with XML, of services with JSON."""
_THROTTLED = re.compile("RequestLimitExceeded|Throttl|TooManyRequests|SlowDown|PriorRequestNotComplete")
_making = threading.Lock()


def client(service: str, attempts: int = 0) -> Any:
    """attempts: of a call; 0 for the service's default. Threads may share a client, but not botocore's session."""
    with _making:
        return _client(service, attempts or ATTEMPTS.get(service, 5))


@cache
def _client(service: str, attempts: int) -> Any:
    if service == "ec2":
        _read_less()
    retries = {"mode": "standard", "total_max_attempts": attempts}
    config = Config(connect_timeout=5, read_timeout=60, retries=retries, max_pool_connections=CONNECTIONS)
    if service == "s3":
        import boto3  # copies files. Other services have nothing of it that programs use, and it takes 0.06 s to load

        return boto3.Session(botocore_session=_session()).client(service, config=config)
    return _session().create_client(service, config=config)


def _read_less() -> None:
    """botocore keeps the models that it has loaded (botocore.loaders: instance_cache); else it would read all."""
    model = _session().get_component("data_loader").load_service_model("ec2", "service-2")
    members = model["shapes"]["Instance"]["members"]
    for name in members.keys() - READ:
        del members[name]


@cache
def _session() -> Any:
    session = botocore.session.get_session()
    session.get_component("response_parser_factory").set_parser_defaults(timestamp_parser=time_of)
    return session


def time_of(value: Any) -> datetime:
    """An answer's time, as botocore reads it. botocore finds out the format of each text with dateutil, which takes
    half of the CPU time for an answer about a thousand instances."""
    try:
        return datetime.fromisoformat(str(value).replace("Z", "+00:00"))
    except ValueError:
        found: datetime = parse_timestamp(value)
        return found


def error_code(error: BaseException) -> str:
    """EC2's error code, such as InsufficientInstanceCapacity."""
    return str(error.response["Error"]["Code"]) if isinstance(error, ClientError) else type(error).__name__


def error_message(error: BaseException) -> str:
    return str(error.response["Error"].get("Message", "")) if isinstance(error, ClientError) else str(error)


def brief(error: BaseException) -> str:
    """Code and message for a node's reason, which users read in a table. A refused permission has up to 2,000
    characters of code, which the log keeps for decoding."""
    message = error_message(error).partition(" Encoded authorization failure message:")[0]
    if has_expired(error):
        message = f"the credentials of this machine's role have expired, or its clock is wrong: {message}"
    if len(message) > LONGEST_MESSAGE:
        message = message[: LONGEST_MESSAGE - 1] + "…"
    return f"{error_code(error)}: {message}"


def is_throttled(error: Exception) -> bool:
    """AWS would have answered at a quieter time: the error says nothing about the request."""
    return _THROTTLED.search(error_code(error)) is not None


def has_expired(error: BaseException) -> bool:
    """The machine's credentials; boto3 reads new ones from the metadata service."""
    return error_code(error) in _EXPIRED


def is_unserved(error: Exception) -> bool:
    """AWS throttles the call, has an error of its own or does not answer, or the credentials have expired. That says
    nothing about the request."""
    return is_throttled(error) or has_expired(error) or (http_status(error) or 500) >= 500


def http_status(error: Exception) -> int | None:
    """None if nobody answered."""
    if not isinstance(error, ClientError):
        return None
    return int(error.response.get("ResponseMetadata", {}).get("HTTPStatusCode", 400))
