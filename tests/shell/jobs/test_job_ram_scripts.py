"""A job with a file system in its nodes' memory: its script in bash, with a stand-in for root's program."""

from __future__ import annotations

import signal
import subprocess
from pathlib import Path
from typing import Any

import pytest
import stubbed_jobs
from stubbed_jobs import change, finished, prepare, wait_for

from gpucluster.config import loads
from gpucluster.layout import expand

STORAGE = "{mount: /ram, type: beegfs-ram, partition: train, gib_per_node: 10, scope: job, export: /fsx/out}"
TEXT = f"""
name: Test
region: us-east-1
partitions: [{{name: train, instance_types: [g5.12xlarge], max_nodes: 4}}]
storage: [{STORAGE}, {{mount: /fsx, type: fsx-lustre}}]
"""

# Like the real one: `serve` is only called through sudo, and `watch` runs until it is killed.
JOB_RAM = r"""#!/usr/bin/env bash
echo "job-ram ${SLURM_PROCID:--} $*${VIA_SUDO:+ as root}" >>"$STUBS/calls"
if [ -e "$STUBS/$1.sh" ]; then source "$STUBS/$1.sh"; fi
case $1 in
  serve | mount) [ -n "${VIA_SUDO:-}" ] ;;
  fill) echo "train-$((SLURM_PROCID + 1)): filled with 3 files" ;;
  watch) exec sleep 60 ;;
esac
"""
SUDO = '#!/usr/bin/env bash\n[ "$1" = -n ] && shift\nVIA_SUDO=1 exec "$@"\n'


class Job:
    def __init__(self, root: Path, **keys: object) -> None:
        self.root, self.stubs, self.folder = root, root / "stubs", root / "job"
        self.prepared = prepare(root, {}, {"launcher": "srun", "command": ("echo", "trained"), **keys})
        for name, text in {"job-ram": JOB_RAM, "sudo": SUDO}.items():
            (self.stubs / name).write_text(text)
            (self.stubs / name).chmod(0o755)
        change(root, "ram.py", "/opt/gpucluster/bin/job-ram", str(self.stubs / "job-ram"))

    def when(self, verb: str, body: str) -> None:
        """Commands that the stand-in runs first for this action."""
        (self.stubs / f"{verb}.sh").write_text(body)

    def run(self, **environment: str) -> Any:
        self.prepared["env"] |= environment
        process = subprocess.run(**self.prepared, timeout=60, check=False)
        return finished(process.returncode, self.folder)

    def calls(self) -> list[str]:
        """The actions of both nodes, in order."""
        lines = (self.stubs / "calls").read_text().splitlines()
        return [line.removeprefix("job-ram ") for line in lines if line.startswith("job-ram ")]


@pytest.fixture(autouse=True)
def _with_ram(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stubbed_jobs, "LAYOUT", expand(loads(TEXT)))


def test_the_file_system_is_created_filled_watched_and_written_back(tmp_path: Path) -> None:
    watched = 'until grep -q "^job-ram - watch " "$STUBS/calls"; do sleep 0.1; done; echo trained'
    job = Job(tmp_path, command=("bash", "-c", watched))
    code, result, log, folder = job.run()
    assert (code, result["reason"]) == (0, None), log
    calls = job.calls()
    serve = f"serve 77 {folder} train-1 train-2 as root"
    assert sorted(calls[:2]) == [f"0 {serve}", f"1 {serve}"]
    assert sorted(calls[2:6]) == ["0 fill", "0 mount as root", "1 fill", "1 mount as root"]
    for rank in (0, 1):
        assert calls.index(f"{rank} mount as root") < calls.index(f"{rank} fill")
    assert calls[6].startswith(f"- watch 77 {folder} ") and calls[6].endswith(" train-1 train-2")
    assert sorted(calls[7:]) == ["0 export", "1 export"]
    said = [line for line in log.splitlines() if line.startswith("[ram] ")]
    assert sorted(said[:2]) == ["[ram] train-1: filled with 3 files", "[ram] train-2: filled with 3 files"]
    assert said[2].startswith("[ram] /ram is in the memory of 2 nodes (")
    assert log.index(said[2]) < log.index("trained")
    assert (folder / "ram/exported").exists()


def test_a_node_that_cannot_serve_is_named_and_nothing_starts(tmp_path: Path) -> None:
    job = Job(tmp_path)
    job.when("serve", '[ "$SLURM_PROCID" = 0 ] || { echo "error: train-2: server: no memory" >&2; exit 1; }')
    code, result, log, folder = job.run()
    assert (code, result["failed_node"]) == (1, "train-2")
    assert result["reason"] == "/ram could not be made: server: no memory"
    assert "[ram] error: train-2: server: no memory" in log
    assert "trained" not in log
    assert not (folder / "ram/exported").exists()


def test_a_source_that_cannot_be_read_ends_the_job_before_it_begins(tmp_path: Path) -> None:
    job = Job(tmp_path)
    job.when("fill", 'echo "error: train-1: there is nothing at s3://data/in" >&2; exit 1')
    code, result, log, _ = job.run()
    assert (code, result["reason"]) == (1, "/ram could not be filled: there is nothing at s3://data/in")
    assert not any(call.endswith(" export") for call in job.calls())


def test_a_failed_export_of_results_fails_the_job(tmp_path: Path) -> None:
    job = Job(tmp_path)
    job.when("export", 'echo "error: train-1: 1 of 2 files did not reach /fsx/out" >&2; exit 1')
    code, result, log, folder = job.run()
    assert (code, result["exit_code"], result["failed_node"]) == (1, 1, "train-1")
    assert result["reason"] == "/ram was not written back: 1 of 2 files did not reach /fsx/out"
    assert not (folder / "ram/exported").exists()


def test_a_failed_jobs_files_are_written_back_and_its_reason_stays(tmp_path: Path) -> None:
    job = Job(tmp_path, command=("bash", "-c", "echo lost my way; exit 3"))
    job.when("export", 'echo "error: train-1: no room" >&2; exit 1')
    code, result, log, _ = job.run()
    assert (code, result["reason"]) == (3, "lost my way")
    assert "error: /ram was not written back: no room" in log


def test_without_an_export_target_the_job_says_that_its_files_are_lost(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(stubbed_jobs, "LAYOUT", expand(loads(TEXT.replace(", export: /fsx/out", ""))))
    job = Job(tmp_path)
    code, _, log, _ = job.run()
    assert code == 0
    assert "[ram] /ram and its contents are deleted with the job: cluster.yaml sets no export" in log
    assert not any(call.endswith(" export") for call in job.calls())


def test_a_job_that_runs_again_says_that_the_first_ones_memory_is_gone(tmp_path: Path) -> None:
    job = Job(tmp_path)
    code, _, log, _ = job.run(SLURM_RESTART_COUNT="1")
    assert code == 0
    assert "[ram] run 2 of this job: data that the last run had only in /ram is lost; creating it again" in log


def test_a_lost_part_is_the_reason_of_a_job_that_is_stopped_for_it(tmp_path: Path) -> None:
    job = Job(tmp_path, command=("sleep", "60"))
    job.when("watch", 'sleep 0.5; echo train-2 >"$3/ram/lost"; kill -TERM "$4"')
    code, result, _, _ = job.run()
    assert (code, result["reason"]) == (143, "lost train-2 and its part of /ram; data only there is lost")
    assert not any(call.endswith(" export") for call in job.calls())


def test_a_job_cancelled_while_its_memory_is_filled_ends_at_once(tmp_path: Path) -> None:
    job = Job(tmp_path)
    job.when("fill", "exec sleep 60")
    process = subprocess.Popen(**job.prepared)
    wait_for(lambda: (job.stubs / "calls").exists() and any("fill" in call for call in job.calls()))
    process.send_signal(signal.SIGTERM)
    assert process.wait(20) != 0
    _, result, log, _ = finished(process.returncode, job.folder)
    assert result["reason"] == "cancelled"
    assert "trained" not in log


@pytest.mark.parametrize(
    ("keys", "why"),
    [
        ({"exclusive": False, "gpus_per_node": 2}, "the job shares its nodes and their memory"),
        ({"launcher": "horovodrun", "min_nodes": 1}, "an elastic job continues after it loses a node"),
    ],
)
def test_jobs_without_the_file_system_get_a_message(tmp_path: Path, keys: dict[str, object], why: str) -> None:
    prepare(tmp_path, {}, {"command": ("true",), **keys})
    script = (tmp_path / "job/job.sbatch").read_text()
    assert f"[ram] there is no /ram: {why}" in script
    assert "GPUCLUSTER_RAM=" not in script
