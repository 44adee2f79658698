"""AWS's names of its APIs, in the VPCs of a cloud that was started with `--public-endpoints`.

Their address is on the internet, as AWS's are: the network drops the packets of a subnet without a route to it.
"""

from __future__ import annotations

import re
import threading

from localcloud.machines.networks.addressing import PUBLIC_ADDRESS

WAITS_HOST = "cloudformation-waitcondition-us-east-1.s3.amazonaws.com"
"""CloudFormation's own bucket, to which signals are sent: the User Guide's page "Create wait conditions"."""
_REGION = r"[a-z]{2}(?:-[a-z]+)+-\d"
_BUCKET = re.compile(rf"(?P<bucket>[a-z0-9.-]+)\.s3(?:[.-]{_REGION})?\.amazonaws\.com")
_SERVICE = re.compile(rf"(?:api\.)?[a-z0-9-]+(?:\.{_REGION})?\.amazonaws\.com")
served = threading.Event()
"""Whether this process serves them."""


def is_name(host: str) -> bool:
    return bool(_SERVICE.fullmatch(host) or _BUCKET.fullmatch(host))


def bucket_of(host: str) -> str:
    """The bucket that SDKs put before S3's name; empty if there is none."""
    found = _BUCKET.fullmatch(host)
    return found["bucket"] if found and host != WAITS_HOST else ""


def resolve(name: str, record_type: str) -> list[str] | None:
    """See `Metadata.resolve`."""
    if not served.is_set() or not is_name(name):
        return None
    return [PUBLIC_ADDRESS] if record_type == "A" else []
