"""`gpucluster status` on a file system that lives with jobs."""

from __future__ import annotations

import json
from typing import Any

import pytest

from gpucluster import config
from gpucluster.cli import status
from gpucluster.head import job_lustre, mounted
from gpucluster.head.remote import Completed

CONFIG = config.loads(
    """
name: Mine
region: us-east-1
partitions: [{name: train, instance_types: [g5.xlarge], max_nodes: 2}]
storage:
  - {mount: /data/burst, type: fsx-lustre, lifetime: jobs, deployment: scratch-2, capacity_gib: 1200,
     data_repositories: [{path: /out, s3: "s3://my-bucket/out"}]}
"""
)
MOUNTED = "10.0.0.9@tcp:/abc /data/burst lustre rw 0 0\n\n/data/burst 1288490188800 1073741824000 314572800 300000000\n"
LEFT = "not deleted: 1 of 1 files of /data/burst are not in S3, such as /data/burst/x"


class PlayedHead:
    def __init__(self, state: dict[str, Any] | None, mounts: str) -> None:
        self.state, self.mounts = state, mounts

    def run(self, argv: list[str], **_: object) -> Completed:
        if argv == ["cat", f"{job_lustre.STATES}/data-burst/state.json"]:
            return Completed(0, json.dumps(self.state), "") if self.state else Completed(1, "", "no such file")
        assert argv == mounted.argv(["/home", "/data/burst"])
        return Completed(0, self.mounts, "")


@pytest.mark.parametrize(
    ("state", "mounts", "words"),
    [
        (None, "", "no job uses it"),
        ({"phase": "absent", "reason": ""}, "", "no job uses it"),
        ({"phase": "creating", "reason": "ServiceLimitExceeded: no"}, "", "is being created: ServiceLimitExceeded: no"),
        ({"phase": "linking", "reason": ""}, "", "is being created"),
        ({"phase": "ready", "reason": ""}, MOUNTED, "1000 of 1200 GiB free"),
        ({"phase": "ready", "reason": LEFT}, MOUNTED, f"1000 of 1200 GiB free, {LEFT}"),
        ({"phase": "ready", "reason": ""}, "", "not mounted"),
        ({"phase": "deleting", "reason": ""}, "", "is being deleted"),
    ],
)
def test_what_it_says(state: dict[str, Any] | None, mounts: str, words: str) -> None:
    found = status.storage(CONFIG, PlayedHead(state, mounts))  # type: ignore[arg-type]
    assert {each["path"]: each["words"] for each in found}["/data/burst"] == words
