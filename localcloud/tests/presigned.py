"""Presigned addresses of tunnels, as AWS's clients make them."""

from __future__ import annotations

from botocore.auth import SigV4QueryAuth
from botocore.awsrequest import AWSRequest
from botocore.credentials import Credentials


def tunnel(url: str, secret: str, key: str = "localcloud", token: str | None = None, expires: int = 60) -> str:
    request = AWSRequest("GET", url)
    keys = Credentials(key, secret, token)
    SigV4QueryAuth(keys, "ec2-instance-connect", "us-east-1", expires=expires).add_auth(request)
    return str(request.url)
