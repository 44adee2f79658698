"""Clients of AWS's APIs in the region of a target. A job on SageMaker needs no cluster."""

from __future__ import annotations

import os
from typing import Any, NamedTuple

from gpucluster.cluster import api_errors, credentials, local_cloud
from gpucluster.cluster.aws import aws_errors, patient


class Connection(NamedTuple):
    region: str
    session: Any
    """A boto3 session."""
    endpoint_url: str | None = None
    """None: AWS's own, or that of the variable AWS_ENDPOINT_URL."""

    def client(self, service: str) -> Any:
        with aws_errors(), credentials.reading():
            made = self.session.client(service, endpoint_url=self.endpoint_url, config=patient())
        made.meta.events.register("before-parse", api_errors.refuse_web_page)
        return made

    @property
    def is_local(self) -> bool:
        """Whether a stand-in answers, which bills nobody."""
        return bool(self.endpoint_url or os.environ.get("AWS_ENDPOINT_URL"))

    def has_credentials(self) -> bool:
        with aws_errors(), credentials.reading():
            return self.session.get_credentials() is not None


def connect(region: str, record: local_cloud.Record | None = None) -> Connection:
    """Makes no call. `record`: that of a cluster on a local cloud, on which the job then runs as well."""
    if record is None:
        with aws_errors():
            return Connection(region, credentials.session(region))
    import boto3

    local_cloud.leave_proxy()
    keys = {"aws_access_key_id": record.access_key_id, "aws_secret_access_key": record.secret_access_key}
    return Connection(region, boto3.Session(region_name=region, **keys), record.endpoint_url)
