"""`down` does not delete what is on Lustre alone, unless it is told to."""

from __future__ import annotations

import json
from contextlib import nullcontext
from pathlib import Path

import pytest
from gpucluster_node import linked, staging
from test_node_staging import EXPORTED, NEW, RELEASED, PlayedLfs

from gpucluster import render, unexported
from gpucluster.cli import down
from gpucluster.cli.context import CliContext
from gpucluster.config import ClusterConfig, loads
from gpucluster.errors import RemoteError, UsageError
from gpucluster.remote import Completed

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


def test_what_is_on_lustre_alone_is_not_deleted(monkeypatch: pytest.MonkeyPatch) -> None:
    said = "2 of 5 files of /fsx/results are not in S3, such as /fsx/results/a"
    with pytest.raises(UsageError, match=said) as caught:
        keep(monkeypatch, PlayedHead(LOST), DELETED)
    assert "--export" in caught.value.hint and "--discard" in caught.value.hint
    keep(monkeypatch, PlayedHead(LOST[:1]), DELETED)


def test_it_may_be_exported_first_or_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    head = PlayedHead(LOST[:1])
    keep(monkeypatch, head, DELETED, export=True)
    assert head.asked[0][-2:] == ["linked", "--export"]
    head = PlayedHead(LOST)
    keep(monkeypatch, head, DELETED, discard=True)
    assert head.asked == []


def test_nothing_is_deleted_where_nobody_can_tell(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(UsageError, match="nobody can tell what is on Lustre alone: .*the program said this"):
        keep(monkeypatch, PlayedHead([], 1), DELETED)
    with pytest.raises(RemoteError, match="cannot tell"):
        unexported.find(PlayedHead({"no": "list"}), export=False)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "storage", [(), (FSX % ("/fsx", "retain", LINKS),), (FSX % ("/fsx", "delete", "data_repositories: []"),)]
)
def test_who_loses_nothing_is_not_asked(monkeypatch: pytest.MonkeyPatch, storage: tuple[str, ...]) -> None:
    head = PlayedHead(LOST)
    keep(monkeypatch, head, config(*storage))
    assert head.asked == []


def test_what_stays_does_not_count(monkeypatch: pytest.MonkeyPatch) -> None:
    other = LINKS.replace("bucket-of-mine", "another-bucket")
    both = config(FSX % ("/fsx", "delete", LINKS), FSX % ("/old", "retain", other))
    keep(monkeypatch, PlayedHead([folder("/old/data", 3)]), both)


def test_the_head_looks_at_every_linked_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "storage.json").write_text(render.bundle(DELETED)["storage.json"])
    assert linked.folders(tmp_path) == ["/fsx/data", "/fsx/results"]
    mount = tmp_path / "fsx"
    (mount / "results").mkdir(parents=True)
    for name in "abc":
        (mount / "results" / name).touch()
    lfs = PlayedLfs(dict(zip((f"{mount}/results/{name}" for name in "abc"), (NEW, RELEASED, EXPORTED), strict=True)))
    monkeypatch.setattr(staging.checked, "__defaults__", (lambda _: True,))
    monkeypatch.setattr(linked, "Transfer", lambda *given, run: linked_transfer(*given, run=run, sleep=lambda _: None))
    (found,) = linked.report([f"{mount}/results"], [str(mount)], export=False, run=lfs)
    first = f"{mount}/results/a"
    assert found == {"path": f"{mount}/results", "files": 3, "not_exported": 1, "first": [first]}
    (found,) = linked.report([f"{mount}/results"], [str(mount)], export=True, run=lfs)
    assert (found["not_exported"], lfs.flags[first]) == (0, EXPORTED)
    (found,) = linked.report([f"{mount}/deleted"], [str(mount)], export=False, run=lfs)
    assert found["files"] == 0, "somebody deleted it: nothing is lost with it"


linked_transfer = linked.Transfer
