"""Jobs of users other than the administrator: what they cannot have yet is refused before they are queued."""

from __future__ import annotations

import pytest

from gpucluster import account
from gpucluster.config import loads
from gpucluster.errors import JobSpecError
from gpucluster.job import SbatchRequest, load
from gpucluster.layout import expand

LAYOUT = expand(
    loads(
        """
name: Test
region: us-east-1
partitions:
  - {name: train, instance_types: [g5.12xlarge], max_nodes: 4}
  - {name: other, instance_types: [g5.12xlarge], max_nodes: 4}
storage: [{mount: /ram, type: beegfs-ram, partition: train, gib_per_node: 64, scope: job}]
s3_access: [{uri: "s3://data/sets"}]
users: [{name: ada}]
"""
    )
)
S3, HOME = "s3://data/sets", "/home/ada/x"


def materialized(**flags: object) -> str:
    return SbatchRequest.from_spec(load(LAYOUT, flags={"command": ("a",)} | flags), LAYOUT, "/home/ada/j").materialize()


@pytest.mark.parametrize(
    ("flags", "says"),
    [
        (
            {"channels": {"train": {"source": S3}}},
            ("--channel.train.mode: only jobs of the administrator can copy", "use mode: stream"),
        ),
        (
            {"channels": {"train": {"source": HOME, "mode": "copy"}}},
            ("--channel.train.mode: only jobs of the administrator", "use mode: mount"),
        ),
        (
            {"command": ("a", "--data=/ram/x")},
            ("uses /ram, which only jobs of the administrator have, not those of ada",),
        ),
        ({"command": ("sh", "-c", "ls $GPUCLUSTER_RAM")}, ("uses /ram", "use another file system")),
    ],
)
def test_what_only_the_administrator_can_use_is_refused(
    flags: dict[str, object], says: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    materialized(**flags)
    monkeypatch.setenv(account.VARIABLE, "ada")
    with pytest.raises(JobSpecError) as refused:
        materialized(**flags)
    (problem,) = refused.value.problems
    message = f"{problem.key}: {problem.message} ({problem.hint})"
    assert all(each in message for each in says), message


@pytest.mark.parametrize(
    "flags",
    [
        {"channels": {"train": {"source": S3, "mode": "stream"}}},
        {"channels": {"train": {"source": HOME}}},
        {"command": ("a", "--data=/ram/x"), "partition": "other"},
    ],
)
def test_other_jobs_are_accepted(flags: dict[str, object], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(account.VARIABLE, "ada")
    assert materialized(**flags)


def test_a_job_that_does_not_name_the_memory_runs_without_it(monkeypatch: pytest.MonkeyPatch) -> None:
    assert "export GPUCLUSTER_RAM=/ram" in materialized()
    monkeypatch.setenv(account.VARIABLE, "ada")
    script = materialized()
    assert "GPUCLUSTER_RAM=" not in script
    assert "echo '[ram] there is no /ram: only jobs of the administrator can have one'" in script
