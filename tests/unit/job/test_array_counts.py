"""The counts of an array's elements: each element counts once, whatever Slurm and its folder say of it."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpucluster.cli.jobs import merged
from gpucluster.following import arrays as following
from gpucluster.following import cancelling, jobs
from gpucluster.head import arrays
from tests.in_process import InProcessRemote
from tests.unit.job.test_arrays import cluster as cluster
from tests.unit.job.test_arrays import ends, submitted

# as squeue printed them on Slurm 24.11.5, in the format of slurm.squeue_argv()
LINE = "29_{}|{}|train|1|{}|0:04|UNLIMITED|2026-11-23T06:00:00|2026-11-23T06:01:00|digits|None\n"


def queue(cluster: Path, **states: str) -> None:
    """State by index: e0="RUNNING"."""
    (cluster / "queue").write_text("".join(LINE.format(name[1:], state, "") for name, state in states.items()))


def scancel(cluster: Path, text: str = "true") -> None:
    (cluster / "bin" / "scancel").write_text(f"#!/bin/sh\n{text}\n")
    (cluster / "bin" / "scancel").chmod(0o755)


def row(remote: InProcessRemote) -> dict[str, object]:
    (found,) = merged(jobs.current(remote, 5), jobs.past(remote, 5))
    return found


def states(remote: InProcessRemote) -> list[str]:
    return [each.state for each in following.elements(remote, "29")]


def test_the_result_of_an_earlier_run_of_a_running_element_does_not_count(cluster: Path) -> None:
    """An element of `resubmit: until-done` keeps it until its next run ends."""
    folder, remote = submitted(cluster, array="0-1"), InProcessRemote()
    ends(folder, "29", e0=1, e1=1)
    queue(cluster, e0="RUNNING", e1="RUNNING")
    assert row(remote)["reason"] == "2 running"
    assert states(remote) == ["running", "running"]


def test_elements_that_slurm_has_just_finished_count_once(cluster: Path) -> None:
    folder, remote = submitted(cluster, array="0-5"), InProcessRemote()
    ends(folder, "29", e0=0, e1=0, e2=0, e3=0)
    queue(cluster, e2="COMPLETED", e3="COMPLETING", e4="RUNNING", e5="PENDING")
    assert row(remote)["reason"] == "2 running, 1 pending, 3 completed"


KINDS = st.sampled_from([*arrays.KINDS])


@given(st.dictionaries(st.integers(0, 9), st.tuples(KINDS | st.none(), KINDS)))
def test_counts_add_up(elements: dict[int, tuple[str | None, str]]) -> None:
    live = {index: kind for index, (kind, _) in elements.items() if kind}
    found = arrays.together(live, {index: kind for index, (_, kind) in elements.items()})
    assert found.keys() == elements.keys()
    assert sum(arrays.present(Counter(found.values())).values()) == len(elements)


def test_a_pending_element_that_is_cancelled_stays_cancelled(cluster: Path) -> None:
    """Slurm immediately forgets it."""
    folder, remote = submitted(cluster, array="0-3"), InProcessRemote()
    scancel(cluster)
    queue(cluster, e0="RUNNING", e1="PENDING", e2="PENDING", e3="PENDING")
    cancelling.cancel(remote, "29_2")
    queue(cluster, e0="RUNNING", e1="PENDING", e3="PENDING")
    assert states(remote) == ["running", "pending", "cancelled", "pending"]
    assert row(remote)["reason"] == "1 running, 2 pending, 1 cancelled"
    ends(folder, "29", e0=0)
    cancelling.cancel(remote, "29")  # the rest
    queue(cluster)
    assert states(remote) == ["completed", "cancelled", "cancelled", "cancelled"]
    assert row(remote)["reason"] == "1 completed, 3 cancelled"
    ending = jobs.ending(remote, "29")
    assert ending and ending.reason == "1 completed, 3 cancelled"


def test_an_element_that_runs_again_is_no_longer_cancelled(cluster: Path) -> None:
    folder, remote = submitted(cluster, array="0-1"), InProcessRemote()
    scancel(cluster)
    cancelling.cancel(remote, "29_1")
    (folder / "runs" / "30").write_text("1\n")
    (folder / "1" / "result-29.json").touch()
    ends(folder, "30", e1=0)
    found = following.elements(remote, "29")
    assert [(each.job_id, each.state) for each in found] == [("29_0", "without result"), ("30_1", "completed")]


def test_cancelling_a_job_that_is_no_array_marks_nothing(cluster: Path) -> None:
    folder, remote = submitted(cluster), InProcessRemote()
    scancel(cluster)
    before = sorted(folder.iterdir())
    cancelling.cancel(remote, "29")
    assert sorted(folder.iterdir()) == before


def test_what_slurm_refuses_to_cancel_is_not_cancelled(cluster: Path) -> None:
    submitted(cluster, array="0-1")
    scancel(cluster, "echo 'scancel: error: Access/permission denied' >&2; exit 1")
    with pytest.raises(Exception, match="cannot cancel job 29_1: .*denied"):
        cancelling.cancel(InProcessRemote(), "29_1")
    assert states(InProcessRemote()) == ["without result", "without result"]
