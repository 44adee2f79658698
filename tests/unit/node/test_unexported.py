"""`down` does not delete files that are only on Lustre, except on request."""

from __future__ import annotations

import json
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import pytest
from gpucluster_node.lustre import staging
from gpucluster_node.lustre import unexported as on_node
from test_node_staging import EXPORTED, NEW, RELEASED, PlayedLfs

from gpucluster.cli import down
from gpucluster.cli.frame.context import CliContext
from gpucluster.cluster.deletion import unexported
from gpucluster.config import ClusterConfig, loads
from gpucluster.errors import RemoteError, UsageError
from gpucluster.head.remote import Completed

CLUSTER = "name: Test\nregion: us-east-1\npartitions: [{name: train, instance_types: [g5.12xlarge], max_nodes: 4}]\n"
LINKS = (
    'data_repositories: [{path: /data, s3: "s3://bucket-of-mine/a"}, {path: /results/, s3: "s3://bucket-of-mine/b"}]'
)
FSX = "{mount: %s, type: fsx-lustre, deployment: scratch-2, capacity_gib: 1200, on_delete: %s, %s}"


def config(*storage: str) -> ClusterConfig:
    return loads(CLUSTER + (f"storage: [{', '.join(storage)}]\n" if storage else ""))


DELETED = config(FSX % ("/fsx", "delete", LINKS))


class PlayedHead:
    def __init__(self, found: object, exit_code: int = 0) -> None:
        self.answer, self.asked = Completed(exit_code, json.dumps(found), "the program said this"), list[list[str]]()

    def run(self, argv: list[str], **_: object) -> Completed:
        self.asked.append(argv)
        return self.answer


def folder(path: str, not_exported: int) -> dict[str, object]:
    return {"path": path, "files": 5, "not_exported": not_exported, "first": [f"{path}/a"] if not_exported else []}


LOST = [folder("/fsx/data", 0), folder("/fsx/results", 2)]


def keep(monkeypatch: pytest.MonkeyPatch, head: PlayedHead, deployed: ClusterConfig, **flags: bool) -> None:
    monkeypatch.setattr(down, "head", lambda context, config: nullcontext(head))
    down._keeper(CliContext(), **{"export": False, "discard": False, **flags})(deployed)


def test_files_that_are_only_on_lustre_are_not_deleted(monkeypatch: pytest.MonkeyPatch) -> None:
    said = "2 of 5 files of /fsx/results are not in S3, such as /fsx/results/a"
    with pytest.raises(UsageError, match=said) as caught:
        keep(monkeypatch, PlayedHead(LOST), DELETED)
    assert "--export" in caught.value.hint and "--discard" in caught.value.hint
    keep(monkeypatch, PlayedHead(LOST[:1]), DELETED)


def test_files_can_be_exported_first_or_discarded(monkeypatch: pytest.MonkeyPatch) -> None:
    head = PlayedHead(LOST[:1])
    keep(monkeypatch, head, DELETED, export=True)
    assert head.asked[0][-2:] == ["lustre.unexported", "--export"]
    head = PlayedHead(LOST)
    keep(monkeypatch, head, DELETED, discard=True)
    assert head.asked == []


def test_nothing_is_deleted_if_the_state_is_unknown(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(UsageError, match="cannot find out which files exist only on Lustre: .*the program said this"):
        keep(monkeypatch, PlayedHead([], 1), DELETED)
    with pytest.raises(RemoteError, match="cannot list the files"):
        unexported.find(PlayedHead({"no": "list"}), export=False)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "storage", [(), (FSX % ("/fsx", "retain", LINKS),), (FSX % ("/fsx", "delete", "data_repositories: []"),)]
)
def test_without_a_loss_there_is_no_question(monkeypatch: pytest.MonkeyPatch, storage: tuple[str, ...]) -> None:
    head = PlayedHead(LOST)
    keep(monkeypatch, head, config(*storage))
    assert head.asked == []


def test_kept_file_systems_do_not_count(monkeypatch: pytest.MonkeyPatch) -> None:
    other = LINKS.replace("bucket-of-mine", "another-bucket")
    both = config(FSX % ("/fsx", "delete", LINKS), FSX % ("/old", "retain", other))
    keep(monkeypatch, PlayedHead([folder("/old/data", 3)]), both)


@pytest.fixture
def mount(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Plays a file system with five files, three of them in its linked folder. Lustre does at once what it is asked."""
    monkeypatch.setattr(on_node, "Transfer", lambda *given, run: real_transfer(*given, run=run, sleep=lambda _: None))
    folder = tmp_path / "fsx"
    (folder / "results").mkdir(parents=True)
    for name in ("results/a", "results/b", "results/c", "results-of-old", "x"):
        (folder / name).touch()
    return folder


def report(
    mount: Path, lfs: PlayedLfs, *, export: bool = False, mounted: bool = True, there: bool = False, **keys: object
) -> list[Entry]:
    entry = {"mount": str(mount), "type": "fsx-lustre", "data_repositories": ["/results", "/deleted"], **keys}
    return list(on_node.report([entry], export=export, run=lfs, is_mount=lambda _: mounted, is_there=lambda _: there))


def lfs_of(mount: Path) -> PlayedLfs:
    names = (f"{mount}/results/{name}" for name in "abc")
    return PlayedLfs(dict(zip(names, (NEW, RELEASED, EXPORTED), strict=True)))


def test_the_head_looks_at_every_linked_folder(mount: Path) -> None:
    lfs, first = lfs_of(mount), f"{mount}/results/a"
    results, deleted = report(mount, lfs)
    assert results == {"path": f"{mount}/results", "files": 3, "not_exported": 1, "first": [first]}
    assert deleted["files"] == 0, "somebody deleted it: nothing is lost with it"
    results, _ = report(mount, lfs, export=True)
    assert (results["not_exported"], lfs.flags[first]) == (0, EXPORTED)


def test_file_systems_for_jobs_have_no_files_outside_linked_folders(mount: Path) -> None:
    *_, outside = report(mount, lfs_of(mount), lifetime="jobs")
    files = [f"{mount}/results-of-old", f"{mount}/x"]
    assert outside == {"path": str(mount), "files": 2, "not_exported": 2, "first": files}
    (mount / "results/latest").symlink_to("a")
    *_, outside = report(mount, lfs_of(mount), lifetime="jobs")
    assert outside["first"] == [files[0], f"{mount}/results/latest", files[1]], "a link cannot be archived"


def test_a_missing_file_system_loses_nothing(mount: Path) -> None:
    assert report(mount, lfs_of(mount), lifetime="jobs", mounted=False) == []
    with pytest.raises(staging.StagingError, match="is not mounted on the head node"):
        report(mount, lfs_of(mount), lifetime="jobs", mounted=False, there=True)
    with pytest.raises(staging.StagingError, match="is not mounted on the head node"):
        report(mount, lfs_of(mount), mounted=False)


real_transfer = on_node.Transfer
Entry = dict[str, Any]
