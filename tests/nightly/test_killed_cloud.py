"""A local cloud is killed while a cluster runs on it: `up` removes its leftovers and creates the cluster again."""

from __future__ import annotations

import json
import os
import signal

from bed import Bed
from test_bad_days import refused

SUBJECTS = [
    "localcloud/process/daemon.py",
    "localcloud/state.py",
    "localcloud/process/verbs.py",
    "localcloud/machines/leftovers.py",
    "gpucluster/cluster/local_cloud.py",
]
COVERED_BY = "test_booted_cloud.py kills a cloud whose instance runs, and cleans up after it"


def test_a_local_cloud_that_was_killed_leaves_nothing_behind_and_starts_again(empty_cloud: Bed) -> None:
    empty_cloud.up()
    status = json.loads(empty_cloud.localcloud("status", "--json").stdout)
    os.kill(status["pid"], signal.SIGKILL)
    lost = empty_cloud.gpucluster("status")
    refused(lost, 3, "does not answer")

    empty_cloud.open_cloud()
    assert not empty_cloud.ask("status")["instances"]
    assert empty_cloud.up()["changed"] is True
    assert empty_cloud.gpucluster("ssh", "--", "true").returncode == 0
