"""Values of the instance metadata service."""

from __future__ import annotations

import os

URL = os.environ.get("AWS_EC2_METADATA_SERVICE_ENDPOINT", "http://169.254.169.254").rstrip("/") + "/latest"
"""AWS's SDKs read the same variable."""
TIMEOUT_S = 5


def instance_id() -> str:
    return ask("meta-data/instance-id")


def ask(path: str) -> str:
    """A path such as meta-data/instance-id."""
    from urllib.request import Request, urlopen  # 40 ms, also for a job that waits for the checks, which need only URL

    lifetime = {"X-aws-ec2-metadata-token-ttl-seconds": "60"}
    with urlopen(Request(f"{URL}/api/token", method="PUT", headers=lifetime), timeout=TIMEOUT_S) as answer:
        token = answer.read().decode()
    with urlopen(Request(f"{URL}/{path}", headers={"X-aws-ec2-metadata-token": token}), timeout=TIMEOUT_S) as answer:
        text: str = answer.read().decode()
        return text
