"""Whose processes the kernel has killed because memory ran out. The files are those of Linux's cgroup v2
(Documentation/admin-guide/cgroup-v2.rst); Slurm's folders are those of its plugin cgroup/v2."""

from __future__ import annotations

from pathlib import Path

import pytest

from gpucluster_job.ranks import kernel

SCOPE = "/system.slice/slurmstepd.scope"


@pytest.fixture
def node(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "vmstat").write_text("pgfault 1\noom_kill 5\n")
    monkeypatch.setattr(kernel, "_VMSTAT", str(tmp_path / "vmstat"))
    monkeypatch.setattr(kernel, "_OWN_GROUPS", str(tmp_path / "own"))
    monkeypatch.setattr(kernel, "_GROUPS", str(tmp_path / "groups"))
    return tmp_path


def killed(node: Path, group: str, count: int) -> None:
    folder = node / f"groups{group}"
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "memory.events").write_text(f"low 0\nhigh 0\nmax 9\noom 9\noom_kill {count}\noom_group_kill 7\n")


def test_on_a_shared_node_only_the_jobs_own_step_counts(node: Path) -> None:
    (node / "own").write_text(f"0::{SCOPE}/job_12/step_0/user/task_0\n")
    killed(node, f"{SCOPE}/job_13", 5)
    killed(node, f"{SCOPE}/job_12/step_0", 0)
    assert kernel.out_of_memory_kills() == 0
    killed(node, f"{SCOPE}/job_12/step_0", 1)
    assert kernel.out_of_memory_kills() == 1


def test_a_rank_that_ssh_started_counts_in_its_session(node: Path) -> None:
    group = "/user.slice/user-1000.slice/session-3.scope"
    (node / "own").write_text(f"0::{group}\n")
    killed(node, group, 2)
    assert kernel.out_of_memory_kills() == 2


@pytest.mark.parametrize("own", ["4:memory:/\n0::/\n", None], ids=["cgroup v1", "unknown"])
def test_without_cgroup_v2_the_machine_counts(node: Path, own: str | None) -> None:
    if own:
        (node / "own").write_text(own)
    assert kernel.out_of_memory_kills() == 5


def test_this_machines_files_can_be_read() -> None:
    assert kernel.out_of_memory_kills() >= 0


def limited(node: Path, group: str, limit: str, hits: int) -> None:
    folder = node / f"groups{group}"
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "memory.max").write_text(f"{limit}\n")
    (folder / "memory.events").write_text(f"low 0\nhigh 0\nmax 9\noom {hits}\noom_kill 0\noom_group_kill 0\n")


def test_a_jobs_own_limit_is_told_from_a_node_without_memory(node: Path) -> None:
    """With ConstrainRAMSpace, Slurm limits the job and each of its steps (cgroup_v2.c)."""
    (node / "own").write_text(f"0::{SCOPE}/job_12/step_0/user/task_0\n")
    limited(node, f"{SCOPE}/job_12/step_0", "max", 0)
    limited(node, f"{SCOPE}/job_13", "1", 7)
    assert (kernel.limit_hits(), kernel.limit()) == (0, "")
    limited(node, f"{SCOPE}/job_12", str(8 * 2**30), 1)
    assert (kernel.limit_hits(), kernel.limit()) == (1, "8.0 GiB")


def test_without_control_groups_there_is_no_limit(node: Path) -> None:
    assert (kernel.limit_hits(), kernel.limit()) == (0, "")
