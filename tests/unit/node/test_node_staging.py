"""Data on its way between Lustre and S3, with an `lfs` that plays Lustre's: it takes requests and does them later."""

from __future__ import annotations

import errno
import json
import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from gpucluster_node import slurm
from gpucluster_node.lustre import directives, hsm, results, staging, transfer
from gpucluster_node.lustre.directives import Directives
from gpucluster_node.lustre.transfer import Outcome, Transfer

RELEASED, EXPORTED, DIRTY, NEW = 0xD, 0x9, 0xB, 0x0


@dataclass
class PlayedLfs:
    flags: dict[str, int]
    broken: dict[str, str] = field(default_factory=dict)
    """Path -> `refuse`: lfs does not take the request; `drop`: Lustre gives it up each time; `hang`: it never ends."""
    polls: int = 1
    """How many queries a request takes until it is done."""
    pending: dict[str, int] = field(default_factory=dict)
    calls: list[tuple[str, int]] = field(default_factory=list)
    most_in_flight: int = 0

    def __call__(self, argv: Sequence[str]) -> str:
        _, verb, *paths = argv
        self.calls.append((verb, len(paths)))
        return "".join(self._one(verb, path) for path in paths)

    def _one(self, verb: str, path: str) -> str:
        if path not in self.flags:
            raise hsm.LfsError(f"can't get hsm state for {path}: No such file or directory")
        if verb == "hsm_state":
            self._work(path)
            return f"{path}: (0x{self.flags[path]:08x}) released exists archived, archive_id:1\n"
        if verb == "hsm_action":
            moved = 0 if self.broken.get(path) == "hang" else self.polls - self.pending.get(path, 0)
            return f"{path}: {f'RESTORE running ({moved} bytes moved)' if path in self.pending else 'NOOP'}\n"
        if self.broken.get(path) == "refuse":
            raise hsm.LfsError(f"cannot send HSM request (use of {path}): Operation not permitted")
        if self.broken.get(path) != "drop":
            self.pending[path] = self.polls
            self.most_in_flight = max(self.most_in_flight, len(self.pending))
        return ""

    def _work(self, path: str) -> None:
        if path in self.pending and self.broken.get(path) != "hang":
            self.pending[path] -= 1
            if self.pending[path] < 0:
                del self.pending[path]
                self.flags[path] = EXPORTED


@dataclass
class Clock:
    seconds: float = 0.0

    def now(self) -> float:
        return self.seconds

    def sleep(self, seconds: float) -> None:
        self.seconds += seconds


def move(lfs: PlayedLfs, verb: str = "hsm_restore") -> tuple[Outcome, list[tuple[int, int]]]:
    progress: list[tuple[int, int]] = []
    done: Callable[[hsm.State], bool] = (
        (lambda state: state.loaded) if verb == "hsm_restore" else (lambda state: state.exported)
    )
    clock = Clock()
    moving = Transfer(verb, done, lambda *each: progress.append(each), lfs, clock.sleep, clock.now)
    return moving.of(list(lfs.flags)), progress


STATES = [
    ("/fsx/a: (0x0000000d) released exists archived, archive_id:1", False, True),
    ("/fsx/a: (0x00000009) exists archived, archive_id:1", True, True),
    ("/fsx/a: (0x0000000b) exists dirty archived, archive_id:1", True, False),
    ("/fsx/a: (0x00000000)", True, False),
    ("/fsx/a: (0x00000001) exists, archive_id:1", True, False),
    ("/fsx/a: (0x00000049) exists archived lost, archive_id:1", True, False),
]


@pytest.mark.parametrize(("line", "loaded", "exported"), STATES)
def test_states(line: str, loaded: bool, exported: bool) -> None:
    state = hsm.parse_states(line + "\n", ["/fsx/a"])["/fsx/a"]
    assert (state.loaded, state.exported) == (loaded, exported)


SEPARATORS = [*"\n\r\v\f\x1c\x1d\x1e\x1f\x85\u2028\u2029|\t ", "\r\n", "\udcff", "y" * 200]


def test_odd_names_are_read() -> None:
    text = "/fsx/a: (0x1): (0x0000000d) released\n/fsx/b c: (0x00000009) exists\n"
    assert set(hsm.parse_states(text, ["/fsx/a: (0x1)", "/fsx/b c"])) == {"/fsx/a: (0x1)", "/fsx/b c"}
    text = "/fsx/a: NOOP\n/fsx/b: RESTORE running (12 bytes moved)\n/fsx/c: NOOP: NOOP\n"
    moving = {"/fsx/a": "NOOP", "/fsx/b": "RESTORE running (12 bytes moved)", "/fsx/c: NOOP": "NOOP"}
    assert hsm.parse_actions(text, list(moving)) == moving


@pytest.mark.parametrize("separator", SEPARATORS, ids=ascii)
@pytest.mark.parametrize("first", ["/fsx/a", "/fsx/x"])
def test_a_name_says_nothing_about_another_users_file(separator: str, first: str) -> None:
    """A file that seems to be in S3 is deleted with the file system of the jobs."""
    forged = f"{first}{separator}/fsx/bob: (0x00000009) exists archived, archive_id:1{separator}/fsx/bob: NOOP"
    for paths in (["/fsx/bob", forged], [forged, "/fsx/bob"]):
        lfs = PlayedLfs({"/fsx/bob": NEW, forged: EXPORTED}, pending={"/fsx/bob": 3})
        found, failed = hsm.states(paths, lfs)
        assert failed == {}
        assert {path: state.exported for path, state in found.items()} == {"/fsx/bob": False, forged: True}
        now = hsm.actions(paths, lfs)
        assert now["/fsx/bob"] != hsm.IDLE and now[forged] == hsm.IDLE


def test_a_name_is_read_as_its_bytes() -> None:
    said = hsm.run(["printf", "/fsx/a\\r\\n\\377: (0x00000009)\\n"])
    assert said == "/fsx/a\r\n\udcff: (0x00000009)\n"


def test_what_lfs_leaves_out_is_not_known() -> None:
    found, failed = hsm.states(["/fsx/a", "/fsx/b"], lambda argv: "/fsx/b: (0x00000009)\n")
    assert not found and set(failed) == {"/fsx/a", "/fsx/b"}


def test_only_what_is_released_is_loaded() -> None:
    lfs = PlayedLfs({"/fsx/a": RELEASED, "/fsx/b": EXPORTED, "/fsx/c": NEW, "/fsx/d": RELEASED})
    outcome, progress = move(lfs)
    assert (outcome.files, outcome.moved, outcome.failed) == (4, 2, {})
    assert progress == [(0, 2), (2, 2)]
    assert ("hsm_restore", 2) in lfs.calls
    assert move(lfs)[0].moved == 0


def test_new_and_changed_files_are_exported() -> None:
    lfs = PlayedLfs({"/fsx/a": NEW, "/fsx/b": DIRTY, "/fsx/c": EXPORTED, "/fsx/d": RELEASED})
    outcome, _ = move(lfs, "hsm_archive")
    assert (outcome.moved, outcome.failed) == (2, {})


def test_many_files_go_a_thousand_at_a_time() -> None:
    lfs = PlayedLfs({f"/fsx/{n}": RELEASED for n in range(2500)}, polls=2)
    outcome, progress = move(lfs)
    assert outcome.moved == 2500 and lfs.most_in_flight == transfer.IN_FLIGHT
    assert max(count for _, count in lfs.calls) == hsm.FILES_PER_CALL
    assert [done for done, _ in progress] == sorted(done for done, _ in progress) and len(progress) > 2


def test_an_export_that_lustre_abandons_is_retried_and_then_named() -> None:
    lfs = PlayedLfs({"/fsx/a": NEW, "/fsx/b": NEW, "/fsx/c": NEW}, {"/fsx/b": "drop", "/fsx/c": "refuse"})
    outcome, _ = move(lfs, "hsm_archive")
    assert outcome.moved == 1
    assert outcome.failed == {
        "/fsx/b": "Lustre gave up on it",
        "/fsx/c": "cannot send HSM request (use of /fsx/c): Operation not permitted",
    }


def test_a_transfer_without_progress_ends_the_wait() -> None:
    lfs = PlayedLfs({"/fsx/a": NEW, "/fsx/b": NEW}, {"/fsx/b": "hang"})
    outcome, _ = move(lfs, "hsm_archive")
    assert outcome.failed == {"/fsx/b": "nothing moved within 30 minutes"}


def test_a_large_file_may_take_longer() -> None:
    polls = int(3 * transfer.STALL_S / transfer.POLL_S)
    outcome, _ = move(PlayedLfs({"/fsx/a": NEW}, polls=polls), "hsm_archive")
    assert (outcome.moved, outcome.failed) == (1, {})


def test_a_missing_lfs_is_reported() -> None:
    with pytest.raises(FileNotFoundError, match="no-such-lfs"):
        hsm.states(["/fsx/a"], lambda argv: hsm.run(["no-such-lfs", *argv[1:]]))


def test_paths_stay_on_lustre(tmp_path: Path) -> None:
    mount = str(tmp_path / "fsx")
    os.makedirs(f"{mount}/data")
    os.symlink("/etc", f"{mount}/out")

    def check(path: str, mounted: bool = True) -> str:
        return staging.checked(path, [mount], lambda _: mounted)

    assert check(f"{mount}/data/../data") == f"{mount}/data"
    for path, said in (
        (f"{mount}/out/passwd", "is not on a Lustre file system"),
        (f"{mount}/data/../../etc", "is not on a Lustre file system"),
        (f"{mount}-other", "is not on a Lustre file system"),
        (f"{mount}/none", "does not exist"),
    ):
        with pytest.raises(staging.StagingError, match=said):
            check(path)
    with pytest.raises(staging.StagingError, match="is not mounted on the head node"):
        check(f"{mount}/data", mounted=False)


def test_links_are_not_followed(tmp_path: Path) -> None:
    (tmp_path / "sub").mkdir()
    (tmp_path / "sub/b").touch()
    (tmp_path / "a").touch()
    (tmp_path / "link").symlink_to("/etc/passwd")
    (tmp_path / "linked").symlink_to("/etc")
    assert sorted(staging.files(str(tmp_path))) == [f"{tmp_path}/a", f"{tmp_path}/sub/b"]
    assert list(staging.files(f"{tmp_path}/a")) == [f"{tmp_path}/a"]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "log.txt").write_text("[0 train-1] hello\n")
    (tmp_path / "result.json").write_text(json.dumps({"job_id": "7", "exit_code": 0, "reason": None}))
    (tmp_path / "staging.json").write_text("{}")
    return tmp_path


def result(folder: Path) -> tuple[int, str | None]:
    found = json.loads((folder / "result.json").read_text())
    return found["exit_code"], found["reason"]


def test_complete_exports_leave_the_result(folder: Path) -> None:
    results.write(folder, "7", [results.Export("/fsx/out", Outcome(3, 2), "")])
    assert json.loads((folder / "exports.json").read_text())["state"] == "complete"
    assert (folder / "log.txt").read_text() == "[0 train-1] hello\n[exports] 3 files of /fsx/out are in S3\n"
    assert result(folder) == (0, None)
    assert not (folder / "staging.json").exists()


def test_a_job_whose_exports_failed_has_failed(folder: Path) -> None:
    outcome = Outcome(3, 1, {"/fsx/out/b": "Lustre gave up on it", "/fsx/out/c": "no"})
    said = results.sentence("/fsx/out", outcome, "did not reach S3")
    assert said == "2 of 3 files of /fsx/out did not reach S3, such as /fsx/out/b: Lustre gave up on it"
    results.write(folder, "7", [results.Export("/fsx/out", outcome, said)])
    report = json.loads((folder / "exports.json").read_text())
    assert report["state"] == "incomplete" and report["exports"][0]["first_failed"][1]["file"] == "/fsx/out/c"
    assert result(folder) == (results.EXIT_CODE, said)
    assert f"[exports] error: {said}" in (folder / "log.txt").read_text()


def test_the_first_failure_stays_the_reason(folder: Path) -> None:
    (folder / "result.json").write_text(json.dumps({"exit_code": 3, "reason": "KeyError: 1"}))
    results.write(folder, "7", [results.Export("/fsx/out", Outcome(), "/fsx/out does not exist")])
    assert result(folder) == (3, "KeyError: 1; /fsx/out does not exist")


def test_a_job_that_left_no_result_gets_none(folder: Path) -> None:
    (folder / "result.json").unlink()
    results.write(folder, "7", [results.Export("/fsx/out", Outcome(), "/fsx/out does not exist")])
    assert not (folder / "result.json").exists() and (folder / "exports.json").exists()


@pytest.mark.skipif(os.geteuid() != 0, reason="becomes another user")
def test_the_folder_is_written_to_as_the_jobs_user(folder: Path, tmp_path_factory: pytest.TempPathFactory) -> None:
    theirs = tmp_path_factory.mktemp("theirs")
    os.chown(theirs, 12345, 12345)
    for each in (folder, *folder.parents, *theirs.parents):
        if not each.stat().st_mode & 0o001:  # pytest makes them for nobody else to enter
            each.chmod(0o755)
    for each in (theirs, folder):
        job = staging.Job("7", Directives(folder=str(each)), 12345, 12345)
        job.keep(lambda place: results.progress(place, "in", "/fsx/data", 1, 2))
    assert (theirs / "staging.json").stat().st_uid == 12345
    assert (folder / "staging.json").read_text() == "{}", "root's folder is not theirs to write to"


def test_every_export_is_tried(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    mount = folder / "fsx"
    (mount / "good").mkdir(parents=True)
    (mount / "good/a").touch()
    lfs = PlayedLfs({f"{mount}/good/a": NEW})
    monkeypatch.setattr(hsm, "run", lfs)
    monkeypatch.setattr(staging, "Transfer", lambda *given: Transfer(*given, lfs, lambda _: None))
    monkeypatch.setattr(staging.checked, "__defaults__", (lambda _: True,))
    wanted = Directives(stage_out=(f"{mount}/none", f"{mount}/good"), folder=str(folder))
    said = staging.data_out(staging.Job("7", wanted, os.getuid(), os.getgid()), [str(mount)])
    assert said == f"{mount}/none does not exist"
    report = json.loads((folder / "exports.json").read_text())["exports"]
    assert [(each["files"], each["failed"], each["reason"]) for each in report] == [(0, 0, said), (1, 0, None)]


def test_data_is_loaded_or_the_job_waits_with_the_reason(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    mount = folder / "fsx"
    (mount / "data").mkdir(parents=True)
    for name in "ab":
        (mount / "data" / name).touch()
    lfs = PlayedLfs({f"{mount}/data/{name}": RELEASED for name in "ab"})
    progress: list[tuple[object, ...]] = []
    monkeypatch.setattr(staging, "Transfer", lambda *given, sleep: Transfer(*given, lfs, lambda _: None))
    monkeypatch.setattr(staging.checked, "__defaults__", (lambda _: True,))
    monkeypatch.setattr(results, "progress", lambda place, *what: progress.append(what))
    monkeypatch.setattr(staging, "as_user", lambda uid, gid, work: work() is None)

    def load(path: str) -> str:
        wanted = Directives(stage_in=(path,), folder=str(folder))
        return staging.data_in(staging.Job("7", wanted, os.getuid(), os.getgid()), [str(mount)])

    assert load(f"{mount}/data") == ""
    assert progress[0] == ("in", f"{mount}/data", 0, 2) and progress[-1][2:] == (2, 2)
    assert not (folder / "staging.json").exists()
    assert load(f"{mount}/none") == f"{mount}/none does not exist"
    lfs.flags[f"{mount}/data/b"], lfs.broken[f"{mount}/data/b"] = RELEASED, "drop"
    said = load(f"{mount}/data")
    assert (
        said
        == f"1 of 2 files of {mount}/data could not be loaded from S3, such as {mount}/data/b: Lustre gave up on it"
    )


def test_a_folder_that_cannot_be_read_is_not_an_empty_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Otherwise its files would count as exported and be deleted."""
    (tmp_path / "out").mkdir()
    (tmp_path / "out/a").touch()

    def fails(path: str) -> object:
        raise OSError(errno.EIO, "Input/output error", path)

    with monkeypatch.context() as broken:
        broken.setattr(os, "scandir", fails)
        with pytest.raises(OSError, match="Input/output error"):
            list(staging.files(str(tmp_path)))
    with monkeypatch.context() as broken:
        broken.setattr(os, "lstat", fails)
        with pytest.raises(OSError, match="Input/output error"):
            staging.exists(str(tmp_path / "out"))
    assert (staging.exists(str(tmp_path / "out/a")), staging.exists(str(tmp_path / "out/a/b"))) == (True, False)


def test_a_jobs_processes_are_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    states = iter(["COMPLETING", "COMPLETING", "STAGE_OUT"])
    monkeypatch.setattr(slurm, "state", lambda job_id: next(states))
    slept: list[float] = []
    staging.wait_for_end("7", slept.append)
    assert len(slept) == 2


def test_directives_may_follow_blank_lines() -> None:
    script = "#!/bin/bash\n#SBATCH --nodes=2\n\n#BB_LUA use path=/fsx \r\n\necho\n#BB_LUA use path=/late\n"
    assert directives.parse(script).use == ("/fsx",)


def test_a_folder_that_is_no_file_system_is_reported(tmp_path: Path) -> None:
    job = staging.Job("7", directives.parse("#BB_LUA use path=/fxs\n"), 1, 1)
    assert staging.unknown(job, ["/fsx"]) == "/fxs is not on a Lustre file system of this cluster, which has /fsx"
    assert staging.unknown(job, ["/fxs"]) == ""
