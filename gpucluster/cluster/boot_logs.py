"""Boot logs that CloudWatch keeps. A node's agent starts in the last step of its boot, and then sends the whole log."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
from typing import Any

from gpucluster.cluster.aws import Aws, aws_errors
from gpucluster.render import watching

MOST_PAGES = 40
"""There are 50 streams on each. Each instance has a stream, the newest come first."""


def kept(cloud: Aws, node: str, at_s: float | None) -> Iterator[str] | None:
    """The log of the newest instance with that name, or of the newest that had begun to boot at that Unix time. None:
    there is none. Raises CloudError."""
    group = watching.log_group(cloud.config.name, "boot")
    with aws_errors():
        pages = cloud.client("logs").get_paginator("describe_log_streams")
        found = pages.paginate(logGroupName=group, orderBy="LastEventTime", descending=True)
        streams = (stream for page in islice(found, MOST_PAGES) for stream in page["logStreams"])
        stream = next((each["logStreamName"] for each in streams if _is(each, node, at_s)), None)
    return _lines(cloud, group, stream) if stream else None


def _is(stream: dict[str, Any], node: str, at_s: float | None) -> bool:
    begun_s = stream.get("firstEventTimestamp", stream.get("creationTime", 0)) / 1000
    name: str = stream["logStreamName"]
    return name.endswith(f"/{node}") and (at_s is None or begun_s <= at_s)


def _lines(cloud: Aws, group: str, stream: str) -> Iterator[str]:
    """The end of a stream is where the next token is that of the call (GetLogEvents in CloudWatch Logs' API)."""
    client, token = cloud.client("logs"), ""
    while True:
        more = {"nextToken": token} if token else {}
        with aws_errors():
            page = client.get_log_events(logGroupName=group, logStreamName=stream, startFromHead=True, **more)
        for event in page["events"]:
            yield from event["message"].splitlines()
        if page["nextForwardToken"] == token:
            return
        token = page["nextForwardToken"]
