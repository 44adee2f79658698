"""What Slurm asks for: files that its programs write as Slurm's user, who may also write anything else."""

from __future__ import annotations

import json
import os
import subprocess
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from gpucluster_node import fleet, spooled
from gpucluster_node.power import daemon, journal, resume, spool, suspend
from gpucluster_node.power.spool import Request

PROGRAMS = Path(spool.__file__).parents[2] / "programs/bin"
JOBS = {"all_nodes_resume": "train-1", "jobs": [{"extra": "x", "job_id": 7, "nodes_resume": "train-1"}]}
"""As in https://slurm.schedmd.com/elastic_computing.html."""
ME = {os.getuid()}


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(spooled, "_owners", lambda: ME)
    (tmp_path / "requests").mkdir(mode=0o700)
    return tmp_path / "requests"


def ask(verb: str, hosts: str, folder: Path, jobs: bytes | None = None) -> subprocess.CompletedProcess[str]:
    """The real programs, with other folders."""
    environment = dict(os.environ)
    if jobs is not None:
        (folder.parent / "resume-file").write_bytes(jobs)
        environment["SLURM_RESUME_FILE"] = str(folder.parent / "resume-file")
    for name in (verb, "power-request"):
        text = (PROGRAMS / name).read_text().replace("/run/gpucluster/requests", str(folder))
        text = text.replace("/var/log/gpucluster/power.log", str(folder.parent / "log"))
        (folder.parent / name).write_text(text.replace("/opt/gpucluster/bin", str(folder.parent)))
        (folder.parent / name).chmod(0o755)
    return subprocess.run([folder.parent / verb, hosts], env=environment, check=False, capture_output=True, text=True)


def taken(folder: Path) -> list[Request]:
    return [spool.read(path) for path in spooled.waiting(folder)]


def test_slurms_programs_write_what_the_daemon_reads(folder: Path) -> None:
    before = time.time()
    assert ask("resume", "train-[1-2],ps-1", folder, json.dumps(JOBS).encode()).returncode == 0
    assert ask("suspend", "train-4", folder).returncode == 0
    first, second = taken(folder)
    assert first == Request(["train-1", "train-2", "ps-1"], [{"job_id": 7, "nodes_resume": "train-1"}])
    assert (second.verb, second.nodes, second.jobs) == ("suspend", ["train-4"], [])
    assert before - 1 <= first.since <= second.since <= time.time()
    assert {path.stat().st_mode & 0o777 for path in spooled.waiting(folder)} == {0o600}


def test_a_request_without_slurms_file_is_not_lost(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Slurm may have removed it."""
    assert ask("resume", "train-1", folder, b"").returncode == 0
    monkeypatch.setenv("SLURM_RESUME_FILE", "/no/such/file")
    assert ask("resume", "train-2", folder).returncode == 0
    assert taken(folder) == [Request(["train-1"], []), Request(["train-2"], [])]


@pytest.mark.skipif(os.getuid() != 0, reason="becomes other users")
def test_slurms_user_may_write_requests_and_nothing_more_and_others_nothing(folder: Path) -> None:
    """As lib/controller.sh makes the folder, with `daemon` for Slurm's user."""
    subprocess.run(["chown", "root:daemon", folder], check=True)
    folder.chmod(0o730)
    for each in folder.parents:
        if each.stat().st_uid == 0 and str(each).startswith("/tmp/"):
            each.chmod(each.stat().st_mode | 0o711)

    def says(user: str, script: str) -> int:
        return subprocess.run(["setpriv", "--reuid", user, "--regid", user, "--clear-groups", "sh", "-c", script],
                              check=False, capture_output=True, cwd="/").returncode  # fmt: skip

    assert says("daemon", f"echo train-1 >{folder}/.new && mv {folder}/.new {folder}/resume.a1") == 0
    assert says("daemon", f"ls {folder}") != 0
    for script in (f"echo x >{folder}/resume.b", f"ls {folder}", f"cat {folder}/resume.a1", f"flock -n {folder} true"):
        assert says("nobody", script) != 0, script
    (path,) = spooled.waiting(folder)
    assert spool.read(path, {0, path.stat().st_uid}).nodes == ["train-1"]


@pytest.mark.parametrize("extra", [b"\xff\xfe", b"\x01\n", b"x" * 100_000], ids=["no UTF-8", "control", "long"])
def test_a_jobs_text_stops_no_launch(folder: Path, extra: bytes) -> None:
    """SLURM_RESUME_FILE has each job's --extra (slurm.schedmd.com/elastic_computing.html); json-c checks no UTF-8."""
    jobs = b'{"jobs": [{"extra": "' + extra + b'", "job_id": 7, "nodes_resume": "train-1"}]}'
    ask("resume", "train-[1-2]", folder, jobs)
    (request,) = taken(folder)
    assert request.nodes == ["train-1", "train-2"] and [job["job_id"] for job in request.jobs] == [7]


@pytest.mark.parametrize(
    "jobs",
    [
        '{"jobs": [{"extra": "a" b"}]}',
        "[1]",
        "null",
        '{"jobs": 3}',
        '{"jobs": [3]}',
        '{"jobs": [{"job_id": "x", "nodes_resume": "train-1"}]}',
        '{"jobs": [{"job_id": 1e999, "nodes_resume": "train-1"}]}',
        '{"jobs": [{"job_id": 7, "nodes_resume": ["train-1"]}]}',
        '{"jobs": [{"job_id": 7, "nodes_resume": "a[1-9999999]"}]}',
        "[" * 100_000,
    ],
)
def test_a_resume_file_that_is_none_stops_no_launch(folder: Path, jobs: str) -> None:
    ask("resume", "train-1", folder, jobs.encode())
    assert taken(folder) == [Request(["train-1"], [])]


def test_jobs_that_are_too_many_to_read_stop_no_launch(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ask("resume", "train-1", folder, b" " * spool.MOST_BYTES + b'{"jobs": []}')
    assert taken(folder) == [Request(["train-1"], [])]
    monkeypatch.setattr(spool, "MOST_NODES_OF_JOBS", 3)
    job = '{"job_id": 7, "nodes_resume": "train-[1-2]"}'
    ask("resume", "train-[1-2]", folder, f'{{"jobs": [{job}, {job}]}}'.encode())
    assert len(taken(folder)[-1].jobs) <= 1


def _link(path: Path) -> None:
    path.symlink_to("/etc/shadow")


FORGED: dict[str, tuple[str, Callable[[Path], Any]]] = {
    "another name": ("launch.a", lambda path: path.write_text("train-1\n")),
    "a path in the name": ("resume.a b", lambda path: path.write_text("train-1\n")),
    "no UTF-8 in the name": (os.fsdecode(b"resume.\xff"), lambda path: path.write_text("train-1\n")),
    "a link": ("resume.a", _link),
    "a pipe": ("resume.a", os.mkfifo),
    "a folder": ("resume.a", lambda path: (path / "x").mkdir(parents=True)),
    "empty": ("resume.a", lambda path: path.touch()),
    "no nodes": ("resume.a", lambda path: path.write_text("\n{}")),
    "no list of nodes": ("resume.a", lambda path: path.write_text("train-[1-\n")),
    "a comma too many": ("resume.a", lambda path: path.write_text("train-1,\n")),
    "an option": ("suspend.a", lambda path: path.write_text("train-1 state=down\n")),
    "too many nodes": ("resume.a", lambda path: path.write_text("a[1-9999999]\n")),
    "no text": ("resume.a", lambda path: path.write_bytes(bytes(range(256)))),
    "too many names": ("resume.a", lambda path: path.write_text("a," * spool.MOST_NODES + "a,a\n")),
    "no end of the nodes": (
        "resume.a",
        lambda path: path.write_text("train-1," * (spool.MOST_BYTES // 8) + "train-2\n"),
    ),
}


@pytest.mark.parametrize("what", FORGED)
def test_a_forged_request_is_ignored_and_stops_no_other(
    folder: Path, what: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    accepted: list[Request] = []
    monkeypatch.setattr(resume, "accept", lambda request, book: accepted.append(request) or (lambda: None))
    name, forge = FORGED[what]
    forge(folder / name)
    os.utime(folder / name, (1, 1), follow_symlinks=False)
    ask("resume", "train-2", folder)
    found = daemon.Daemon(journal.Journal(folder.parent / "launching"), folder, lambda work: work())
    for _ in range(2):
        found.look()
    assert [each.nodes for each in accepted] == [["train-2"]]
    assert [path.name for path in folder.iterdir()] == ([name] if what == "a folder" else [])


def test_a_file_of_another_user_is_no_request(folder: Path) -> None:
    (folder / "resume.a").write_text("train-1\n")
    with pytest.raises(spooled.InvalidError, match=f"owned by uid {os.getuid()}"):
        spool.read(folder / "resume.a", {os.getuid() + 1})


def test_a_request_that_is_being_written_waits(folder: Path) -> None:
    (folder / ".abc").write_text("train-1\n")
    assert spooled.waiting(folder) == []
    assert spooled.waiting(folder / "none") == []


def test_a_launch_that_cannot_be_recorded_waits_in_the_folder(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(request: Request, book: journal.Journal) -> Any:
        raise OSError("no space left on device")

    monkeypatch.setattr(resume, "accept", full)
    ask("resume", "train-1", folder)
    with pytest.raises(OSError, match="no space"):
        daemon.Daemon(journal.Journal(folder.parent / "launching"), folder).look()
    assert taken(folder) == [Request(["train-1"], [])]


def test_a_suspend_stays_until_it_has_ended_and_is_taken_once(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A daemon that is killed meanwhile takes it again. If AWS fails, reconcile terminates the instance."""
    begun: list[tuple[list[str], float]] = []
    waiting: list[Callable[[], None]] = []

    def fail(cluster: Any, nodes: list[str], asked_at: Any) -> None:
        begun.append((nodes, asked_at.timestamp()))
        raise RuntimeError("AWS")

    monkeypatch.setattr(fleet, "load", lambda: None)
    monkeypatch.setattr(suspend, "suspend", fail)
    ask("suspend", "train-[1-2]", folder)
    (path,) = spooled.waiting(folder)
    asked_at = path.stat().st_mtime
    found = daemon.Daemon(journal.Journal(folder.parent / "launching"), folder, waiting.append)
    found.look()
    found.look()
    assert len(waiting) == 1 and path.exists()
    waiting[0]()
    assert begun == [(["train-1", "train-2"], pytest.approx(asked_at, abs=1e-3))]
    assert not path.exists()
