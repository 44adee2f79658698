"""Verbs about another user's job say whose it is. squeue's and sacct's lines: man squeue.1 `%F|%u`, man sacct.1
--parsable2 --noheader --format=User."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import pytest

from gpucluster.errors import UsageError
from gpucluster.following import arrays, explain, jobs
from gpucluster.head.remote import Completed

ROW = "{id}|{state}|train|1|train-1|0:10|1:00:00|2026-11-28T12:00:00|N/A|work|None"


@dataclass
class Slurm:
    """The head node as an account sees it that has no folder of job 2."""

    caller: str = "ubuntu"
    owner: str = "bob"
    state: str = "RUNNING"
    """Empty: slurmctld has forgotten the job."""
    accounting: bool = True

    def real(self, path: str) -> str:
        return path

    def run(self, argv: Sequence[str], **_: object) -> Completed:
        match list(argv):
            case ["squeue", *options] if "--format=%F|%u" in options:
                return Completed(0, f"2|{self.owner}\n", "") if self.state else Completed(1, "", "Invalid job id")
            case ["squeue", *_]:
                row = ROW.format(id=2, state=self.state)
                return Completed(0, f"{row}\n", "") if self.state else Completed(1, "", "Invalid job id specified")
            case ["timeout", _, "sacct", *_]:
                return Completed(0, f"{self.owner}\n", "") if self.accounting else Completed(127, "", "no sacct")
            case ["id", "-un"]:
                return Completed(0, f"{self.caller}\n", "")
        return Completed(1, "", "")


SAID = "job 2 is bob's, and its folder is in bob's home directory"


@pytest.mark.parametrize("state", ["RUNNING", "PENDING", "COMPLETED", "FAILED", ""])
def test_what_is_in_the_folder_is_refused_with_the_owner(state: str) -> None:
    with pytest.raises(UsageError, match=SAID) as refused:
        jobs.require_folder(Slurm(state=state), "2")  # type: ignore[arg-type]
    assert "GPUCLUSTER_USER=bob" in str(refused.value.hint)


@pytest.mark.parametrize("state", ["RUNNING", "COMPLETED"])
def test_why_says_what_slurm_knows_and_whose_job_it_is(state: str) -> None:
    first, *_, last = explain.of(Slurm(state=state), None, "2").lines  # type: ignore[arg-type]
    assert first.startswith("job 2 ") and last == SAID


def test_why_of_a_job_that_slurm_has_forgotten_says_whose_it_was() -> None:
    with pytest.raises(UsageError, match=SAID):
        explain.of(Slurm(state=""), None, "2")  # type: ignore[arg-type]


def test_an_array_of_another_user_is_refused_with_the_owner() -> None:
    with pytest.raises(UsageError, match=SAID):
        arrays.require(Slurm(), "2")  # type: ignore[arg-type]


def test_the_callers_own_job_without_a_folder_is_not_anothers() -> None:
    assert jobs.require_folder(Slurm(caller="bob"), "2") is not None  # type: ignore[arg-type]


def test_a_job_that_nobody_knows_does_not_exist() -> None:
    with pytest.raises(UsageError, match="there is no job 2"):
        jobs.require_folder(Slurm(state="", accounting=False), "2")  # type: ignore[arg-type]
