"""A Lustre file system from the first job to the last, with a stand-in for FSx: the calls, and when they are made."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest
from botocore.exceptions import ClientError
from gpucluster_node import aws_api, slurm
from gpucluster_node.lustre import for_jobs, staging
from gpucluster_node.lustre import users as lustre_users
from gpucluster_node.lustre.directives import parse
from gpucluster_node.lustre.users import FileSystem, State

# boto3 1.34.46, which is Ubuntu 24.04's, refuses a request with LustreConfiguration's MetadataConfiguration.
REQUEST = {
    "FileSystemType": "LUSTRE",
    "LustreConfiguration": {"MetadataConfiguration": {"Mode": "AUTOMATIC"}},
    "Tags": [{"Key": "Name", "Value": "Mine-fsx"}],
}
PRIVATE = f"{for_jobs.PRIVATE}/data-fsx"
LINKS = [{"FileSystemPath": "/data", "Tags": REQUEST["Tags"]}, {"FileSystemPath": "/results", "Tags": REQUEST["Tags"]}]


@dataclass
class PlayedFsx:
    systems: dict[str, str] = field(default_factory=dict)
    """Id -> lifecycle."""
    links: dict[str, str] = field(default_factory=dict)
    """Path -> lifecycle."""
    calls: list[str] = field(default_factory=list)
    tokens: dict[str, str] = field(default_factory=dict)
    refuse: str = ""
    tags: Sequence[Mapping[str, str]] = ()
    """The user's."""

    linked_with: list[Any] = field(default_factory=list)
    """The tags of each link."""

    def call(self, service: str, body: bytes, headers: Mapping[str, str], tries: int) -> str:
        """In file_system of `aws_api.call`."""
        if self.refuse:
            raise aws_api.Refused(400, f"{self.refuse}: You have reached your limit.")
        assert (service, headers["x-amz-target"]) == ("fsx", "AWSSimbaAPIService_v20180301.CreateFileSystem")
        return json.dumps(self.create_file_system(**json.loads(body)))

    def create_file_system(self, ClientRequestToken: str, **request: Any) -> Any:
        assert request == {**REQUEST, "Tags": [*REQUEST["Tags"], *self.tags]}
        made = self.tokens.setdefault(ClientRequestToken, f"fs-{len(self.tokens) + 1}")
        self.systems.setdefault(made, "CREATING")
        self.calls.append("create")
        return {"FileSystem": {"FileSystemId": made}}

    def describe_file_systems(self, FileSystemIds: list[str]) -> Any:
        (wanted,) = FileSystemIds
        if wanted not in self.systems:
            raise ClientError({"Error": {"Code": "FileSystemNotFound", "Message": "none"}}, "DescribeFileSystems")
        shown = {"Lifecycle": self.systems[wanted], "DNSName": f"{wanted}.aws", "FileSystemTypeVersion": "2.15"}
        return {"FileSystems": [{**shown, "LustreConfiguration": {"MountName": "abc"}}]}

    def get_paginator(self, _: str) -> Any:
        listed = [
            {"FileSystemId": each, "Lifecycle": state, "Tags": REQUEST["Tags"]} for each, state in self.systems.items()
        ]
        return type("Pages", (), {"paginate": lambda _: [{"FileSystems": []}, {"FileSystems": listed}]})()

    def describe_data_repository_associations(self, **_: Any) -> Any:
        return {
            "Associations": [
                {"FileSystemPath": path, "Lifecycle": state, "FailureDetails": {"Message": "no such bucket"}}
                for path, state in self.links.items()
            ]
        }

    def create_data_repository_association(self, FileSystemPath: str, Tags: Any, **_: Any) -> None:
        self.linked_with.append(Tags)
        assert "CREATING" not in self.links.values(), "one after another"
        self.links[FileSystemPath] = "CREATING"
        self.calls.append(f"link {FileSystemPath}")

    def delete_file_system(self, FileSystemId: str) -> None:
        self.systems[FileSystemId] = "DELETING"
        self.calls.append("delete")

    def ready(self) -> None:
        self.systems = {each: "AVAILABLE" for each, state in self.systems.items() if state != "DELETING"}
        self.links = dict.fromkeys(self.links, "AVAILABLE")


@dataclass
class Stage:
    keeper: for_jobs.Keeper
    fsx: PlayedFsx
    left: str = ""
    """Files that are only on Lustre."""
    at_look: Callable[[], None] = lambda: None
    in_use: bool = False
    """By somebody on the head."""
    now: float = 1000.0

    @property
    def file_system(self) -> FileSystem:
        return self.keeper.file_system

    @property
    def state(self) -> State:
        return self.file_system.state()

    def step(self, times: int = 1, *, seconds: float = 5.0) -> State:
        for _ in range(times):
            self.now += seconds
            self.keeper.step(self.now)
        return self.state

    def until_ready(self) -> None:
        self.file_system.register("7", ["7"])
        for _ in range(12):
            self.step()
            self.fsx.ready()
        assert self.state.phase == "ready"
        self.fsx.calls.append("ready")


@pytest.fixture
def stage(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Stage:
    file_system = FileSystem.of("/data/fsx", tmp_path)
    file_system.make()
    wanted = {"request": REQUEST, "links": LINKS, "idle_s": 600, "for_everybody": ["/", "/results"]}
    made = Stage(for_jobs.Keeper(file_system, lambda: dict(wanted), fsx := PlayedFsx()), fsx)

    def look(_: Any, *, export: bool = True) -> str:
        fsx.calls.append("export" if export else "look")
        made.at_look()
        return made.left

    monkeypatch.setattr(aws_api, "call", fsx.call)
    monkeypatch.setattr(for_jobs, "not_exported", look)
    mounts = set[str]()

    def mount(file_system: FileSystem, where: str = "") -> None:
        if (where or file_system.mount) not in mounts:
            mounts.add(where or file_system.mount)
            fsx.calls.append(f"mount {where or file_system.mount}")

    def unmount(mounted: str, *, by_force: bool = False) -> None:
        if mounted in mounts and mounted == file_system.mount and made.in_use and not by_force:
            raise for_jobs.LustreError(f"{mounted} is in use")
        if mounted in mounts:
            mounts.remove(mounted)
            fsx.calls.append(f"unmount {mounted}")

    monkeypatch.setattr(for_jobs, "mount", mount)
    monkeypatch.setattr(for_jobs, "unmount", unmount)
    return made


def test_no_file_system_is_created_until_a_job_uses_it(stage: Stage) -> None:
    assert stage.step(5) == State()
    assert stage.fsx.calls == []


def test_no_file_system_is_created_if_the_head_node_cannot_mount_it(
    stage: Stage, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    note = tmp_path / "lustre.missing"
    note.write_text("step=lustre_client line=14: FSx has no Lustre client for kernel 7.0.0-1014-aws of noble\n")
    monkeypatch.setattr(for_jobs, "LUSTRE_MISSING", note)
    stage.file_system.register("7", ["7"])
    stage.step(3)
    assert "create" not in stage.fsx.calls
    assert "no Lustre client for kernel 7.0.0-1014-aws" in stage.state.reason
    note.unlink()
    stage.step(2, seconds=600)
    assert "create" in stage.fsx.calls


def test_it_is_created_linked_one_by_one_and_mounted(stage: Stage) -> None:
    stage.until_ready()
    assert stage.fsx.calls == ["create", "link /data", "link /results", "mount /data/fsx", "ready"]
    assert (stage.state.dns_name, stage.state.mount_name) == ("fs-1.aws", "abc")


def test_it_has_the_users_tags_too(stage: Stage) -> None:
    stage.keeper.tags = stage.fsx.tags = [{"Key": "team", "Value": "vision"}]
    stage.until_ready()
    assert stage.fsx.linked_with == [[*REQUEST["Tags"], *stage.fsx.tags]] * 2
    assert list(stage.fsx.systems) == ["fs-1"], "it is known by its own tags"


def test_it_is_deleted_only_after_the_last_job(stage: Stage) -> None:
    stage.until_ready()
    stage.file_system.register("8", ["8"])
    stage.file_system.leave({"7"})
    stage.step(10, seconds=600)
    assert stage.state.phase == "ready"
    stage.file_system.leave({"8"})
    stage.step(2, seconds=300)
    assert stage.state.phase == "ready", "idle for less than idle_s"
    stage.step(2, seconds=300)
    last = ["export", "unmount /data/fsx", f"mount {PRIVATE}", "look", f"unmount {PRIVATE}", "delete"]
    assert stage.fsx.calls[-6:] == last
    del stage.fsx.systems["fs-1"]
    assert stage.step() == State()
    stage.file_system.register("9", ["9"])
    stage.step(2)
    assert stage.state.file_system_id == "fs-2", "the next has a token of its own"


def test_every_new_file_system_has_the_current_settings(stage: Stage) -> None:
    stage.keeper.wanted = {}
    stage.until_ready()
    assert stage.keeper.wanted["request"] == REQUEST


def test_files_that_are_not_in_s3_prevent_its_deletion(stage: Stage) -> None:
    stage.until_ready()
    stage.file_system.leave({"7"})
    stage.left = "1 of 2 files of /data/fsx are not in S3, such as /data/fsx/x"
    stage.step(3, seconds=600)
    assert (stage.state.phase, stage.state.reason) == ("ready", f"not deleted: {stage.left}")
    assert "delete" not in stage.fsx.calls
    looked = stage.fsx.calls.count("export")
    stage.step(5)
    assert stage.fsx.calls.count("export") == looked, "not again at once"
    stage.left = ""
    stage.step(2, seconds=60)
    assert stage.fsx.calls[-1] == "delete"


def test_files_written_during_the_export_are_exported_too(stage: Stage) -> None:
    stage.until_ready()
    stage.file_system.leave({"7"})

    def put() -> None:
        if stage.fsx.calls[-1] == "look":
            stage.left = f"1 of 2 files of {PRIVATE}/results are not in S3, such as {PRIVATE}/results/x"

    stage.at_look = put
    stage.step(2, seconds=600)
    reason = "not deleted: 1 of 2 files of /data/fsx/results are not in S3, such as /data/fsx/results/x"
    assert (stage.state.phase, stage.state.reason) == ("ready", reason)
    assert stage.fsx.calls[-1] == "mount /data/fsx" and "delete" not in stage.fsx.calls


def test_a_shell_in_it_on_the_head_prevents_its_deletion(stage: Stage) -> None:
    stage.until_ready()
    stage.file_system.leave({"7"})
    stage.in_use = True
    stage.step(2, seconds=600)
    assert (stage.state.phase, stage.state.reason) == ("ready", "/data/fsx is in use")
    assert "delete" not in stage.fsx.calls


def test_a_head_that_restarted_during_deletion_checks_again(stage: Stage) -> None:
    stage.until_ready()
    stage.file_system.save(replace(stage.state, phase="leaving"))
    stage.step()
    assert (stage.state.phase, "delete" in stage.fsx.calls) == ("ready", False)


def test_a_job_that_starts_during_the_export_prevents_its_deletion(stage: Stage) -> None:
    stage.until_ready()
    stage.file_system.leave({"7"})
    stage.at_look = lambda: stage.file_system.register("8", ["8"])
    stage.step(2, seconds=600)
    assert (stage.state.phase, stage.fsx.calls[-1]) == ("ready", "export")


def test_a_refusal_by_fsx_is_reported_and_retried(stage: Stage) -> None:
    stage.file_system.register("7", ["7"])
    stage.fsx.refuse = "ServiceLimitExceeded"
    stage.step(3)
    assert stage.state.reason == "ServiceLimitExceeded: You have reached your limit."
    stage.fsx.refuse = ""
    stage.step(2, seconds=60)
    assert (stage.state.file_system_id, stage.state.reason) == ("fs-1", "")


def test_a_call_that_nobody_answers_is_soon_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    tries = []

    def nobody_answers(*_: object) -> str:
        tries.append(1)
        raise TimeoutError

    monkeypatch.setattr(aws_api, "_sent", nobody_answers)
    monkeypatch.setattr(time, "sleep", lambda _: None)
    with pytest.raises(TimeoutError):
        for_jobs.fsx.create(REQUEST, "token")
    assert len(tries) == 3


def test_a_retry_uses_the_current_settings(stage: Stage) -> None:
    stage.file_system.register("7", ["7"])
    stage.fsx.refuse = "BadRequest"
    stage.step(3)
    first, stage.fsx.refuse = stage.state.token, ""
    stage.keeper.wanted = {**stage.keeper.wanted, "request": REQUEST | {"StorageCapacity": 1}}  # what it was
    stage.step(2, seconds=60)
    assert (stage.state.file_system_id, stage.state.token == first) == ("fs-1", False)


def test_without_waiting_jobs_it_is_not_created(stage: Stage) -> None:
    stage.file_system.register("7", ["7"])
    stage.fsx.refuse = "ServiceLimitExceeded"
    stage.step(3)
    stage.file_system.leave({"7"})
    stage.fsx.refuse = ""
    assert stage.step(2, seconds=60) == State()


@pytest.mark.parametrize("nobody_waits", [True, False])
def test_a_failed_link_is_reported_and_the_file_system_deleted(stage: Stage, nobody_waits: bool) -> None:
    stage.file_system.register("7", ["7"])
    for _ in range(4):
        stage.step()
        stage.fsx.ready()
    stage.fsx.links = {"/data": "MISCONFIGURED"}
    stage.step()
    reason = "FSx cannot link /data with S3: no such bucket"
    assert stage.state.reason == reason
    if nobody_waits:
        stage.file_system.leave({"7"})
    stage.step(2, seconds=60)
    assert (stage.state.phase, stage.state.reason, stage.fsx.calls[-1]) == ("deleting", reason, "delete")


def test_a_file_system_that_fsx_does_not_list_yet_is_not_created_twice(stage: Stage) -> None:
    stage.file_system.register("7", ["7"])
    stage.step(2)
    assert stage.state.file_system_id == "fs-1"
    stage.fsx.systems.clear()
    stage.step(2)
    assert (stage.state.phase, stage.state.file_system_id) == ("creating", "fs-1")
    assert list(stage.fsx.tokens.values()) == ["fs-1"]


def test_a_file_system_that_was_deleted_is_created_again(stage: Stage) -> None:
    stage.until_ready()
    stage.fsx.systems.clear()
    stage.step(3)
    assert (stage.state.phase, stage.state.file_system_id) == ("creating", "fs-2")


def test_registrations_of_forgotten_jobs_are_removed(stage: Stage) -> None:
    stage.file_system.register("7", ["7", "8"])
    stage.file_system.register("9", ["9"])
    text = "7 CANCELLED\n9 RUNNING\n10 COMPLETED\n11 STAGE_OUT\n"
    assert slurm.unfinished(text) == {"9", "11"}

    def asked() -> set[str]:
        stage.file_system.register("12", ["12"])  # while Slurm is asked
        return slurm.unfinished(text)

    for_jobs.forget_ended(stage.file_system, asked)
    assert stage.file_system.users() == {"9", "12"}


def test_the_end_of_the_cluster_deletes_it(stage: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    def gone(_: float) -> None:
        stage.fsx.systems = {each: state for each, state in stage.fsx.systems.items() if state != "DELETING"}

    monkeypatch.setattr(time, "sleep", gone)
    stage.until_ready()
    stage.left = "1 of 2 files of /data/fsx are not in S3, such as /data/fsx/x"
    with pytest.raises(for_jobs.LustreError, match="1 of 2 files"):
        for_jobs.end(stage.keeper, discard=False)
    assert "delete" not in stage.fsx.calls
    assert for_jobs.end(stage.keeper, discard=True) == "fs-1"
    assert (stage.fsx.systems, stage.state.phase) == ({}, "absent")
    assert for_jobs.end(stage.keeper, discard=False) is None


def test_the_end_of_the_cluster_finds_a_file_system_without_a_recorded_id(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(time, "sleep", lambda _: stage.fsx.systems.clear())
    stage.file_system.save(State("creating", "a"))
    stage.fsx.systems["fs-lost"] = "AVAILABLE"
    assert for_jobs.end(stage.keeper, discard=False) == "fs-lost"


def test_a_job_waits_until_it_exists_and_its_nodes_know_it(stage: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = stage.file_system.folder / "job"
    folder.mkdir()
    monkeypatch.setattr(slurm, "parts", lambda _: ["7", "8"])
    monkeypatch.setattr(staging, "as_user", lambda uid, gid, work: work() or True)
    job = staging.Job("7", parse(f"#!/bin/bash\n#BB_LUA use path=/data/fsx\n#BB_LUA folder path={folder}\n"), 1, 1)
    progress = []

    def wait(_: float) -> None:
        progress.append(json.loads((folder / "staging.json").read_text()))
        assert stage.file_system.users() == {"7"}
        stage.step()
        stage.fsx.ready()

    staging.wait_for(job, stage.file_system, wait)
    assert progress[0] == {"stage": "in", "path": "/data/fsx", "waits": True, "reason": ""}
    for part in ("7", "8"):
        assert (stage.file_system.folder / "mounts" / part).read_text() == "/data/fsx\nfs-1.aws\nabc\n2.15\n"
    stage.file_system.leave({"7"})
    assert not [*(stage.file_system.folder / "mounts").iterdir(), *(stage.file_system.folder / "users").iterdir()]


def test_a_job_uses_what_it_names(tmp_path: Path) -> None:
    (tmp_path / "storage.json").write_text(
        json.dumps({"mounts": [{"mount": "/fsx", "lifetime": "jobs"}, {"mount": "/old"}]})
    )
    assert [each["mount"] for each in lustre_users.mounts(tmp_path)] == ["/fsx"]
    for line in ("use path=/fsx", "stage_in path=/fsx/data", "stage_out path=/fsx/data"):
        assert parse(f"#BB_LUA {line}\n").names("/fsx")
    assert not parse("#BB_LUA stage_in path=/fsx2/data\n#BB_LUA folder path=/fsx/jobs\n").names("/fsx")


def test_registrations_come_and_go_while_they_are_read(stage: Stage) -> None:
    stage.file_system.register("7", ["7"])
    users = stage.file_system.folder / "users"
    (users / ".8.123").write_text("half")  # of a job that registers
    (users / "9").symlink_to("gone")  # as one that leaves between listing and reading
    assert stage.file_system.users() == {"7"}
    stage.file_system.leave({"7"})
    assert stage.file_system.users() == set()
