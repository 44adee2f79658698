"""boto3 clients for this cloud's own endpoint, with the administrator's credentials."""

from __future__ import annotations

import functools
import threading
from typing import Any

import boto3
from botocore.config import Config

from localcloud.state import ACCESS_KEY_ID

ACCOUNT_ID = "123456789012"

_endpoint_url: str | None = None
_secret = ""
_lock = threading.Lock()  # boto3 must not create clients in two threads at once


def configure(endpoint_url: str, secret: str) -> None:
    """Sets the address of the API and the secret; the server does this once at its start."""
    global _endpoint_url, _secret
    _endpoint_url, _secret = endpoint_url, secret
    _client.cache_clear()


def client(service: str, region: str = "us-east-1") -> Any:
    """A cached client; RuntimeError before `configure`."""
    if _endpoint_url is None:
        raise RuntimeError("no endpoint yet: localcloud.clients.configure() comes first")
    with _lock:
        return _client(service, region, _endpoint_url)


def client_of(service: str, region: str, access_key_id: str, secret_access_key: str, session_token: str) -> Any:
    """Not cached, and with the credentials of somebody else. RuntimeError before `configure`."""
    if _endpoint_url is None:
        raise RuntimeError("no endpoint yet: localcloud.clients.configure() comes first")
    with _lock:
        return boto3.client(
            service,
            region_name=region,
            endpoint_url=_endpoint_url,
            aws_access_key_id=access_key_id,
            aws_secret_access_key=secret_access_key,
            aws_session_token=session_token,
            config=Config(retries={"max_attempts": 4}, s3={"addressing_style": "path"}),
        )


@functools.lru_cache(maxsize=64)
def _client(service: str, region: str, endpoint_url: str) -> Any:
    return boto3.client(
        service,
        region_name=region,
        endpoint_url=endpoint_url,
        aws_access_key_id=ACCESS_KEY_ID,
        aws_secret_access_key=_secret,
        config=Config(retries={"max_attempts": 1}, s3={"addressing_style": "path"}, max_pool_connections=32),
    )
