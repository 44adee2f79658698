"""An update that fails after the head node's volume has grown, and cannot be rolled back. Nothing boots."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from gpucluster.cluster import local_cloud, stack
from tests.cloud.played_head import Head
from tests.cloud.test_update_plan import CLUSTER, effects, gpucluster, said

SUBJECTS = [
    "gpucluster/cli/up.py",
    "gpucluster/cluster/deployment.py",
    "gpucluster/cluster/stack.py",
    "gpucluster/updates/*",
    "localcloud/cloudformation/*",
    "localcloud/ec2/disks/volumes.py",
    "stacks/storage/home.py",
]
COVERED_BY = "test_deployment.py: what cannot be rolled back is kept, on a small stack; test_update_plan.py"
NAME = "Stuck"


def test_a_volume_that_has_grown_is_kept_and_the_rest_rolled_back(control_plane: Any, tmp_path: Path) -> None:
    file, cloudformation = tmp_path / "cluster.yaml", control_plane.client("cloudformation")
    text = CLUSTER.replace("name: Planned", f"name: {NAME}")
    file.write_text(text)
    local_cloud.write(
        file, NAME, local_cloud.Record(control_plane.endpoint_url, "default", False, control_plane.secret)
    )
    with Head(control_plane, NAME):
        assert effects(said(gpucluster(file, "up"))) == {}
    file.write_text(text.replace("volume_gib: 20", "volume_gib: 30"))
    with Head(control_plane, NAME, "FAILURE", "step=volume line=1: no"):
        failed = gpucluster(file, "up")
        assert failed.returncode == 3 and "step=volume line=1: no" in failed.stderr, failed.stderr
    assert stack.status(cloudformation, NAME) == "UPDATE_ROLLBACK_FAILED", "a volume that has grown stays so"
    with Head(control_plane, NAME):
        mended = gpucluster(file, "up")
        assert effects(said(mended))["head_node.volume_gib"] == "in place"
        assert "kept as the last update left it: Home" in mended.stderr
    assert stack.status(cloudformation, NAME) == "UPDATE_COMPLETE"
    assert gpucluster(file, "down", "--yes").returncode == 0
