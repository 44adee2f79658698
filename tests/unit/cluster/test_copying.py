"""The arguments of scp and rsync, and how their failures are reported."""

from __future__ import annotations

import os
import shutil
import threading
from collections.abc import Iterator, Sequence
from contextlib import nullcontext
from pathlib import Path

import pytest
from plain_ssh import lead
from ssh_head import Head, new_key, running_head

from gpucluster.cli import main
from gpucluster.cli.reach import claimed, fetch
from gpucluster.cli.seeing import tensorboard
from gpucluster.errors import GpuClusterError, RemoteError, UsageError
from gpucluster.following.event_files import Run
from gpucluster.head import copying
from gpucluster.head.copying import Copy, Place
from gpucluster.head.openssh import Alias
from localcloud.testing.patience import wait_for

ALIAS = Alias(Path("/t/a b/gpu"))


@pytest.mark.parametrize(
    ("text", "host", "path", "word"),
    [
        ("data", None, "data", "data"),
        ("-r", None, "-r", "./-r"),
        ("./a:b", None, "./a:b", "./a:b"),
        ("/a:b", None, "/a:b", "/a:b"),
        (":", "head", "", "gpu:"),
        (":data/a b", "head", "data/a b", "gpu:data/a b"),
        ("head:/fsx", "head", "/fsx", "gpu:/fsx"),
        (":~/data", "head", "~/data", "gpu:data"),
        ("train-1:/scratch/x", "train-1", "/scratch/x", "train-1.gpu:/scratch/x"),
        (":a:b", "head", "a:b", "gpu:a:b"),
    ],
)
def test_which_side_a_path_is_on(text: str, host: str | None, path: str, word: str) -> None:
    place = Place.parse(text)
    assert (place, place.word(ALIAS)) == (Place(host, path), word)


def test_scp_gets_the_given_paths() -> None:
    copy = Copy.parse(["a", "-b", ":c"])
    assert copying.scp_argv(ALIAS, copy, recursive=True) == [
        "scp", "-F", "/t/a b/gpu/config", "-r", "--", "a", "./-b", "gpu:c",
    ]  # fmt: skip


def test_rsync_keeps_what_a_broken_connection_left() -> None:
    argv = copying.rsync_argv(ALIAS, Copy.parse([":c/", "here"]), ["--delete"])
    assert argv[0] == "rsync" and "--partial-dir=.rsync-partial" in argv
    assert argv[-5:] == ["--rsh=ssh -F '/t/a b/gpu/config'", "--delete", "--", "gpu:c/", "here"]


class Played:
    """A program with planned exit codes; its clock advances by the seconds of each run."""

    def __init__(self, *ends: tuple[int, float]) -> None:
        self.ends, self.now, self.calls = list(ends), 0.0, 0

    def call(self, argv: Sequence[str]) -> tuple[int, list[str]]:
        exit_code, lasted_s = self.ends[self.calls]
        self.calls += 1
        self.now += lasted_s
        return exit_code, ["rsync: connection unexpectedly closed"] if exit_code else []

    def clock(self) -> float:
        return self.now


def test_a_tunnel_that_ended_after_its_hour_is_reopened() -> None:
    program, messages = Played((12, 3600), (255, 3600), (0, 5)), list[str]()
    copying.run_on(["rsync"], "head", messages.append, program.call, program.clock)
    assert program.calls == 3
    assert messages == ["the connection broke after 60 min: connecting again and continuing"] * 2


@pytest.mark.parametrize("end", [(12, 5), (23, 3600)])
def test_other_failures_are_not_retried(end: tuple[int, float]) -> None:
    program = Played(end, (0, 1))
    with pytest.raises(GpuClusterError):
        copying.run_on(["rsync"], "head", print, program.call, program.clock)
    assert program.calls == 1


with_rsync = pytest.mark.skipif(not (shutil.which("rsync") and shutil.which("ssh")), reason="no rsync, or no ssh, here")


@pytest.fixture
def head() -> Iterator[Head]:
    with running_head() as head:
        yield head


@pytest.fixture
def alias(head: Head, tmp_path: Path) -> Alias:
    """The head node is this machine."""
    alias = Alias(tmp_path / "alias" / "gpu")
    alias.make()
    lead(alias, head)
    return alias


def sync(alias: Alias, source: str, target: str, *options: str) -> None:
    copy = Copy.parse([source, target])
    copying.run_on(copying.rsync_argv(alias, copy, options), copy.remote, print)


@with_rsync
def test_rsync_copies_there_and_back(alias: Alias, tmp_path: Path) -> None:
    (tmp_path / "here" / "deep").mkdir(parents=True)
    (tmp_path / "here" / "deep" / "it's $HOME").write_text("1")
    sync(alias, f"{tmp_path}/here/", f":{tmp_path}/there")
    sync(alias, f":{tmp_path}/there/deep/it's $HOME", f"{tmp_path}/back")
    assert (tmp_path / "back").read_text() == "1"


@with_rsync
def test_a_fetched_job_leaves_its_secrets_on_the_cluster(alias: Alias, tmp_path: Path) -> None:
    """Those of the job and of its elements. A file of that name in the code is the user's own."""
    job = tmp_path / "job"
    for name in ("log.txt", "secrets.sh", "3/secrets.sh", "12/secrets.sh", "12/log.txt", "code/secrets.sh", "lib/x"):
        (job / name).parent.mkdir(parents=True, exist_ok=True)
        (job / name).write_text("export KEY=hidden")
    for source, names in ((job, {"log.txt", "12/log.txt", "code/secrets.sh"}), (job / "12", {"log.txt"})):
        back = tmp_path / "back" / source.name
        back.mkdir(parents=True)
        sync(alias, f":{source}/", str(back), *fetch.PARTS["all"])
        assert {path.relative_to(back).as_posix() for path in back.rglob("*") if path.is_file()} == names


@with_rsync
def test_event_files_of_several_jobs_come_over_one_connection(alias: Alias, head: Head, tmp_path: Path) -> None:
    """Not the links and other files that a job puts beside them. A file that a program has open grows on."""
    there, here = tmp_path / "it's there", tmp_path / "here"
    events = there / "a/state/tensorboard/train/events.out.tfevents.1.train-1.7.0"
    for file in (events, there / "b/tensorboard/events.out.tfevents.2.train-1.7.0", there / "a/state/tensorboard/big"):
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text("1")
    (there / "a/state/tensorboard/x.tfevents.y").symlink_to("/etc/passwd")
    (there / "a/state/weights").write_text("1")
    here.mkdir()
    names = ("a/state/tensorboard", "b/tensorboard", "c/none")
    runs = [Run(str(number), str(number), f"{there}/{name}") for number, name in enumerate(names)]
    logs = tensorboard.laid_out(here, runs)
    tensorboard.copy(alias, here, runs)
    assert head.opened == 1
    assert {path.name for path in (here / "copy").rglob("*") if not path.is_dir()} == {
        "events.out.tfevents.1.train-1.7.0", "events.out.tfevents.2.train-1.7.0",
    }  # fmt: skip
    with (logs / "0/train" / events.name).open() as reader:
        assert reader.read() == "1"
        events.write_text("12")
        head.push_key(alias.public_key())
        tensorboard.copy(alias, here, runs)
        assert reader.read() == "2"


@with_rsync
def test_a_file_there_that_prints_is_named(alias: Alias, head: Head, tmp_path: Path) -> None:
    head.greeting = "echo Welcome to the cluster;"
    with pytest.raises(RemoteError) as raised:
        sync(alias, f":{tmp_path}/a", f"{tmp_path}/b")
    assert raised.value.message == "a file such as ~/.bashrc on the head node prints text, which rsync cannot read"
    assert raised.value.hint == "let it print only in a terminal: put `[[ $- == *i* ]] || return` above that line"
    # sftp-client.c of OpenSSH: get_msg_extended
    said = [
        "Received message too long 1466264675",
        "Ensure the remote shell produces no output for …",
        "Connection closed",
    ]
    error = copying.failure("scp", 255, said, "head")
    assert error.message == "a file such as ~/.bashrc on the head node prints text, which scp cannot read"


@with_rsync
def test_fetching_again_keeps_what_was_changed_here(alias: Alias, tmp_path: Path) -> None:
    job, here = tmp_path / "job", tmp_path / "here"
    (job / "code").mkdir(parents=True)
    for name in ("log.txt", "code/train.py"):
        (job / name).write_text("of the cluster")
        os.utime(job / name, (1_700_000_000, 1_700_000_000))
    for _ in range(2):
        claimed.claim(here, str(job))
        sync(alias, f":{job}/", str(here), fetch.UPDATE, *fetch.PARTS["all"])
        (here / "code" / "train.py").write_text("edited")
        (job / "log.txt").write_text("more of the cluster")
    assert (here / "code" / "train.py").read_text() == "edited"
    assert (here / "log.txt").read_text() == "more of the cluster"


@pytest.mark.parametrize("name", ["job.yaml", ".gitignore", "code/train.py", "empty/"])
def test_fetch_refuses_a_folder_with_other_files(tmp_path: Path, name: str) -> None:
    own = tmp_path / "own" / name
    own.parent.mkdir(parents=True, exist_ok=True)
    own.mkdir() if name.endswith("/") else own.write_text("mine\n")
    before = sorted(tmp_path.rglob("*"))
    with pytest.raises(UsageError, match="own: has files that fetch did not bring, and would be") as raised:
        claimed.claim(tmp_path / "own", "/home/ubuntu/jobs/a")
    assert raised.value.hint == "name a new folder with --to: fetch makes it"
    assert sorted(tmp_path.rglob("*")) == before


def test_a_fetched_folder_is_of_one_job(tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    for folder in (tmp_path / "deep" / "new", tmp_path / "empty"):
        for _ in range(2):
            claimed.claim(folder, "/home/ubuntu/jobs/a")
            (folder / "log.txt").write_text("of a")
        with pytest.raises(UsageError, match="has the files of /home/ubuntu/jobs/a, and not of /home/ubuntu/jobs/b"):
            claimed.claim(folder, "/home/ubuntu/jobs/b")
    with pytest.raises(UsageError, match=r"log.txt: cannot be written: File exists"):
        claimed.claim(tmp_path / "empty" / "log.txt", "/home/ubuntu/jobs/a")


def test_a_folder_that_an_earlier_version_fetched_is_accepted(tmp_path: Path) -> None:
    (tmp_path / ".gitignore").write_text("# `gpucluster fetch` made this folder: `gpucluster submit` …\n*\n")
    claimed.claim(tmp_path, "/home/ubuntu/jobs/a")


@with_rsync
def test_a_missing_file_is_one_message(alias: Alias, tmp_path: Path) -> None:
    with pytest.raises(UsageError) as raised:
        sync(alias, f":{tmp_path}/none", f"{tmp_path}/back")
    assert raised.value.message.startswith("no such file on the head node: rsync: ")
    assert f"{tmp_path}/none" in raised.value.message


@with_rsync
def test_a_rate_that_rsync_does_not_know(alias: Alias, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="--bwlimit=fast is invalid"):
        sync(alias, f":{tmp_path}/x", f"{tmp_path}/back", "--bwlimit=fast")


@with_rsync
def test_a_connection_that_dies_half_way(alias: Alias, head: Head, tmp_path: Path) -> None:
    """The same command continues the copy; until then the old file is not changed."""
    data = os.urandom(4_000_000)
    here, there = tmp_path / "big", tmp_path / "there" / "big"
    here.write_bytes(data)
    there.parent.mkdir()
    there.write_text("old")

    def cut() -> None:
        wait_for(
            "half of it", lambda: any(part.stat().st_size > 10**6 for part in there.parent.glob(".big.*")), 60, 0.05
        )
        head.cut()

    cutter = threading.Thread(target=cut)
    cutter.start()
    with pytest.raises(RemoteError) as raised:
        sync(alias, str(here), f":{there.parent}/", "--bwlimit=1000")
    cutter.join()
    assert raised.value.hint == "run the same command again: it continues where it stopped"
    part = there.parent / ".rsync-partial" / "big"
    wait_for("the part is kept", part.exists, 60, 0.05)
    assert there.read_text() == "old" and 0 < part.stat().st_size < len(data)
    lead(alias, head)
    sync(alias, str(here), f":{there.parent}/")
    assert there.read_bytes() == data and not part.exists()


@with_rsync
def test_a_head_that_cannot_be_reached(alias: Alias, head: Head, tmp_path: Path) -> None:
    head.refuse_tunnel = "cannot connect: 10.0.0.4 is not there"
    with pytest.raises(RemoteError, match="the tunnel has ended: cannot connect: 10.0.0.4 is not there"):
        sync(alias, f":{tmp_path}/none", f"{tmp_path}/back")


@with_rsync
def test_a_head_that_shows_another_key(alias: Alias, head: Head, tmp_path: Path) -> None:
    head.key = new_key()
    with pytest.raises(
        RemoteError, match="the host key of the head node is not the one that it published: not connecting"
    ):
        sync(alias, f":{tmp_path}/none", f"{tmp_path}/back")


@pytest.mark.parametrize(
    ("words", "left"),
    [
        (["big.bin", ":data/big.bin"], ":data/big.bin"),
        (["a/big.bin", ":"], ":big.bin"),
        (["a/big.bin", "train-1:/scratch/"], "train-1:/scratch/big.bin"),
        (["big.bin", ":mine"], ":mine, or :mine/big.bin if it is a folder,"),
        (["a", "b", ":data"], "the last file in :data"),
        ([":data/big.bin", "."], "./big.bin"),
        ([":data/big.bin", "here/mine.bin"], "here/mine.bin"),
        (["train-1:/scratch/big.bin", "here"], "here/big.bin"),
    ],
)
def test_the_file_that_an_interrupted_copy_leaves_is_named(
    words: list[str], left: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "here").mkdir()
    assert copying.left_by(Copy.parse(words)).startswith(f"{left} may be incomplete: ")


def test_an_interrupted_cp_names_the_incomplete_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    from gpucluster.cli.reach import cp

    def interrupted(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(copying, "run", interrupted)
    monkeypatch.setattr(copying, "require", lambda program: None)
    monkeypatch.setattr(cp.connection, "alias", lambda context: nullcontext(Alias(tmp_path / "gpu")))
    (tmp_path / "big.bin").touch()
    assert main(["cp", str(tmp_path / "big.bin"), ":data/"]) == 130
    assert list(filter(None, capsys.readouterr().err.splitlines())) == [
        ":data/big.bin may be incomplete: run the same command again, or `gpucluster sync`, which continues",
        "interrupted",
    ]
