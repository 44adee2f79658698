"""`down` also deletes file systems that the head node created for jobs, which are not in the stack."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import nullcontext

import pytest

from gpucluster.cli import down
from gpucluster.cli.frame.context import CliContext
from gpucluster.cluster.deletion import unexported
from gpucluster.cluster.deletion.summary import what_goes, what_stays
from gpucluster.cluster.deletion.unexported import Folder
from gpucluster.config import ClusterConfig, loads
from gpucluster.errors import CloudError, UsageError
from gpucluster.head import job_lustre
from gpucluster.head.remote import Completed

CLUSTER = "name: Test\nregion: us-east-1\npartitions: [{name: train, instance_types: [g5.12xlarge], max_nodes: 4}]\n"
BURST = CLUSTER + (
    "storage: [{mount: /burst, type: fsx-lustre, lifetime: jobs,"
    ' data_repositories: [{path: /out, s3: "s3://bucket-of-mine/out"}]}]\n'
)
PLAIN = BURST.replace("lifetime: jobs,", "")


class Deployment:
    """The parts of AWS that `down` uses; `did` has its actions, in order."""

    def __init__(self, config: ClusterConfig, *file_systems: str, protected: bool = False) -> None:
        self.config, self._file_systems, self._protected = config, set(file_systems), protected
        self.did: list[str] = []

    def status(self) -> str:
        return "CREATE_COMPLETE"

    def file_systems(self) -> set[str]:
        return self._file_systems

    def protected(self) -> bool:
        return self._protected

    def in_the_way(self, *, network_stays: bool) -> list[str]:
        return []

    def lift_protection(self) -> None:
        self.did.append("unprotected")

    def down(self, environment: object) -> None:
        self.did.append("deleted")


class Head:
    def __init__(self, deployment: Deployment, exit_code: int = 0) -> None:
        self._deployment, self._exit_code = deployment, exit_code
        self.timeout_s = 0.0

    def run(self, argv: Sequence[str], *, timeout_s: float) -> Completed:
        self.timeout_s = timeout_s
        self._deployment.did.append(" ".join(argv[3:]))
        return Completed(self._exit_code, "/burst: fs-1 is deleted\n", "1 of 2 files of /burst are not in S3")


def take_down(
    monkeypatch: pytest.MonkeyPatch, deployment: Deployment, head: Head | None, *, discard: bool = False
) -> list[str]:
    """The actions, in order. Without a head node its commands fail."""

    def connect(context: object, config: object) -> nullcontext[Head]:
        if head is None:
            raise CloudError("the head node does not answer")
        return nullcontext(head)

    monkeypatch.setattr(down, "head", connect)
    monkeypatch.setattr(down, "_as_deployed", lambda *_: deployment.config)
    monkeypatch.setattr(down, "_confirm", lambda *_, **flags: deployment.did.append("confirmed"))
    monkeypatch.setattr(down, "_confirm_unprotected", lambda *_, **flags: None)
    end = down._ender(CliContext(), deployment, discard)  # type: ignore[arg-type]
    down._take_down(
        deployment,  # type: ignore[arg-type]
        deployment.config,
        yes=True,
        keep_data=lambda config: deployment.did.append("kept"),
        end_lustre=end,
    )
    return deployment.did


@pytest.mark.parametrize(
    ("discard", "asked"), [(False, "lustre.for_jobs end"), (True, "lustre.for_jobs end --discard")]
)
def test_they_are_deleted_before_the_stack(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], discard: bool, asked: str
) -> None:
    deployment = Deployment(loads(BURST), "Test-burst", protected=True)
    head = Head(deployment)
    did = take_down(monkeypatch, deployment, head, discard=discard)
    assert did == ["kept", "confirmed", asked, "unprotected", "deleted"]
    assert "/burst: fs-1 is deleted" in capsys.readouterr().err
    assert head.timeout_s == job_lustre.TIMEOUT_S >= 3600


def test_a_cluster_without_job_file_systems_makes_no_call(monkeypatch: pytest.MonkeyPatch) -> None:
    assert take_down(monkeypatch, Deployment(loads(PLAIN)), None) == ["kept", "confirmed", "deleted"]


@pytest.mark.parametrize("discard", [False, True])
@pytest.mark.parametrize("answers", [False, True])
def test_no_job_file_system_is_left_behind(monkeypatch: pytest.MonkeyPatch, answers: bool, discard: bool) -> None:
    deployment = Deployment(loads(BURST), "Test-burst", "Test-other", protected=True)
    head = Head(deployment, exit_code=1) if answers else None
    with pytest.raises(UsageError, match="FSx still has Test-burst, which only this cluster deletes") as caught:
        take_down(monkeypatch, deployment, head, discard=discard)
    assert ("1 of 2 files of /burst" if answers else "does not answer") in caught.value.message
    assert not {"unprotected", "deleted"} & set(deployment.did)


def test_a_missing_head_does_not_stop_down_if_fsx_has_no_file_system(monkeypatch: pytest.MonkeyPatch) -> None:
    assert take_down(monkeypatch, Deployment(loads(BURST), "Test-other"), None)[-1] == "deleted"


def test_files_outside_linked_folders_cannot_be_exported() -> None:
    inside, outside = Folder("/burst/out", 2, 1, ("/burst/out/a",)), Folder("/burst", 1, 1, ("/burst/b",))
    assert "first move" not in unexported.refusal([inside], loads(BURST)).hint
    hint = unexported.refusal([inside, outside], loads(BURST)).hint
    assert hint.endswith("first move the files of /burst that are in no linked folder into one")
    assert unexported.may_lose(loads(BURST)) and list(unexported.deleted([outside], loads(BURST))) == [outside]


def test_the_deletion_is_announced_before_the_confirmation() -> None:
    (line,) = [line for line in what_goes(loads(BURST), compute_nodes=0) if "/burst" in line]
    assert line == "/burst, on fsx-lustre, with all files in it, if it exists now (lifetime: jobs)"
    assert not [line for line in what_stays(loads(BURST), volumes="vol-1") if "/burst" in line]
