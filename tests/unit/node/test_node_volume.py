"""Moving the data volume from one head node to the next."""

from __future__ import annotations

from pathlib import Path

import pytest
from gpucluster_node import fleet
from gpucluster_node.head import heads, volume

ME = heads.Head("i-new", "running", "GpuCluster", "head", "1234")


def other(state: str = "running", cluster: str = "GpuCluster", role: str = "head") -> heads.Head:
    return heads.Head("i-old", state, cluster, role, "0000")


def attachment(instance_id: str, state: str = "attached") -> dict[str, str]:
    return {"InstanceId": instance_id, "State": state}


@pytest.mark.parametrize(
    ("what", "attached", "holder", "move"),
    [
        ("nobody has it", None, None, "attach"),
        ("I have it", attachment("i-new"), None, "done"),
        ("it is on its way", attachment("i-new", "attaching"), None, "wait"),
        ("the old head runs", attachment("i-old"), other(), "stop"),
        ("it boots", attachment("i-old"), other("pending"), "stop"),
        ("it stops", attachment("i-old"), other("stopping"), "wait"),
        ("it has stopped", attachment("i-old"), other("stopped"), "detach"),
        ("it lets go", attachment("i-old", "detaching"), other("stopped"), "wait"),
        ("it is being terminated", attachment("i-old"), other("shutting-down"), "wait"),
        ("it is gone", attachment("i-old"), other("terminated"), "wait"),
    ],
)
def test_each_step_of_the_takeover(
    what: str, attached: dict[str, str] | None, holder: heads.Head | None, move: str
) -> None:
    assert volume.next_move(attached, holder, ME, wanted=True) == move, what


@pytest.mark.parametrize(
    ("holder", "wanted"),
    [(other(cluster="Another"), True), (other(role="compute"), True), (other(), False)],
    ids=["another cluster's", "a compute node", "this head is not the one that the stack wants"],
)
def test_only_the_old_head_node_is_stopped(holder: heads.Head, wanted: bool) -> None:
    with pytest.raises(volume.NotOurs, match="i-old has the data volume"):
        volume.next_move(attachment("i-old"), holder, ME, wanted=wanted)


@pytest.mark.parametrize(("before", "again"), [(None, False), ("i-new", False), ("i-old", True)])
def test_only_a_new_head_applies_the_bundle_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, before: str | None, again: bool
) -> None:
    """The compute nodes stay: their jobs go on."""
    monkeypatch.setattr(volume.imds, "instance_id", lambda: "i-new")
    owner = tmp_path / "head-instance"
    if before:
        owner.write_text(f"{before}\n")
    cluster = fleet.Fleet("GpuCluster", "gpucluster.internal", "/gpucluster/GpuCluster/", (), str(tmp_path))
    volume.inherit(cluster, tmp_path / "again")
    assert (tmp_path / "again").exists() is again
    assert owner.read_text() == "i-new\n"


@pytest.mark.parametrize(("scope", "ends"), [("cluster", 1), ("job", 0)])
def test_nodes_whose_beegfs_was_lost_with_the_head_are_terminated(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, scope: str, ends: int
) -> None:
    released: list[fleet.Fleet] = []
    monkeypatch.setattr(volume, "release", released.append)
    monkeypatch.setattr(volume.imds, "instance_id", lambda: "i-new")
    (tmp_path / "head-instance").write_text("i-old\n")
    (tmp_path / "beegfs.json").write_text(f'{{"scope": "{scope}"}}')
    cluster = fleet.Fleet("GpuCluster", "gpucluster.internal", "/gpucluster/GpuCluster/", (), str(tmp_path))
    volume.inherit(cluster, tmp_path / "again", tmp_path)
    assert len(released) == ends
