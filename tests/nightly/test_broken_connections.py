"""A client that is killed or asleep, and a connection that breaks, during `submit`, `ssh`, `sync` and `logs -f`: real
sshd, Slurm and rsync on a booted head node. No job starts, so no compute node boots."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from bed import Bed, wait_for
from beds import up_without_environments

SUBJECTS = [
    "gpucluster/head/copying.py",
    "gpucluster/head/openssh.py",
    "gpucluster/head/remote.py",
    "gpucluster/head/streams.py",
    "gpucluster/head/terminal.py",
    "gpucluster/head/tunnel.py",
    "gpucluster/cli/frame/following.py",
    "gpucluster/cli/reach/sync.py",
    "gpucluster/cli/reach/tunnel.py",
    "gpucluster/following/jobs.py",
    "gpucluster/following/patience.py",
    "gpucluster/submission/*",
]
COVERED_BY = (
    "test_interrupted.py, test_submission.py, test_follow_outage.py, test_lost_network.py; a log that is followed "
    "while the head node is replaced, booted, in test_changes.py"
)
TAIL = "^tail --bytes"
"""The follower's process on the head node."""

# The head node's sbatch, slower: it waits before and after the real one, for the seconds in these files.
SLOW = """\
#!/bin/sh
touch /tmp/began
sleep "$(cat /tmp/before)"
/usr/bin/sbatch "$@" || exit
touch /tmp/ended
sleep "$(cat /tmp/after)"
"""
# Kills the sshd above the newest process with this command line: the tunnel has ended.
CUT = """
pid=$(pgrep --newest --full "$1") || exit 7
until [ "$(cat /proc/$pid/comm)" = sshd ] || [ "$(cat /proc/$pid/comm)" = sshd-session ]; do
  pid=$(awk '$1 == "PPid:" { print $2 }' /proc/$pid/status)
done
sudo kill -9 "$pid"
"""


@pytest.fixture(scope="module")
def bed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Bed]:
    with up_without_environments(tmp_path_factory.mktemp("broken")) as bed:
        yield bed


@pytest.fixture
def slow_sbatch(bed: Bed) -> Iterator[None]:
    sh(bed, f"printf %s '{SLOW}' | sudo tee /usr/local/bin/sbatch >/dev/null && sudo chmod +x /usr/local/bin/sbatch")
    yield
    sh(bed, "sudo rm -f /usr/local/bin/sbatch; scancel --user ubuntu; rm -rf /tmp/began /tmp/ended ~/jobs/echo-*")


def sh(bed: Bed, script: str, *words: str) -> str:
    return bed.ssh("sh", "-c", script, "sh", *words)


def pauses(bed: Bed, before: int, after: int) -> None:
    sh(bed, f"echo {before} >/tmp/before; echo {after} >/tmp/after; rm -f /tmp/began /tmp/ended")


def runs(bed: Bed, pattern: str) -> bool:
    return bool(sh(bed, 'pgrep --full "$1" || :', pattern).strip())


def is_there(bed: Bed, path: str) -> bool:
    return bool(sh(bed, f"ls -d {path} 2>/dev/null || :").strip())


def queue(bed: Bed) -> list[str]:
    return sh(bed, "squeue --noheader --format=%i").split()


def words(bed: Bed, workdir: Path) -> list[str]:
    """A job that stays pending."""
    own = ["--python", bed.python, "--launcher", "srun", "--ntasks-per-node", "1", "--workdir", str(workdir)]
    return [*own, "--begin", "now+1day", "--", "echo", workdir.name]


@pytest.fixture
def workdir(tmp_path: Path) -> Path:
    folder = tmp_path / "work"
    folder.mkdir()
    (folder / "train.py").write_text("print()\n")
    return folder


def killed(process: subprocess.Popen[str]) -> None:
    os.killpg(process.pid, signal.SIGKILL)
    process.communicate(timeout=60)


def again(bed: Bed, workdir: Path) -> str:
    """The same command; the number of its job, which is the only one."""
    done = bed.gpucluster("submit", *words(bed, workdir), timeout_s=240)
    assert done.returncode == 0, done.stderr
    last = json.loads(done.stdout.splitlines()[-1])
    assert queue(bed) == [last["job_id"]], done.stderr
    assert sh(bed, f"readlink -e ~/jobs/by-id/{last['job_id']}").strip() == last["folder"]
    return done.stderr


@pytest.mark.parametrize(("before", "after", "file"), [(8, 0, "began"), (0, 8, "ended")])
def test_a_killed_submit_and_the_same_command_again_are_one_job(
    bed: Bed, slow_sbatch: None, workdir: Path, before: int, after: int, file: str
) -> None:
    """Killed while sbatch has not queued the job yet, and after it has, before the answer arrives."""
    pauses(bed, before, after)
    client = bed.start("submit", *words(bed, workdir))
    wait_for("sbatch", lambda: is_there(bed, f"/tmp/{file}"), 120, 0.1)
    killed(client)
    sh(bed, "echo 0 >/tmp/after")
    assert "it is not submitted again" in again(bed, workdir)
    assert "it is not submitted again" not in bed.gpucluster("submit", *words(bed, workdir)).stderr
    assert len(queue(bed)) == 2, "a later submission is another job"


def test_a_submit_that_is_killed_while_it_copies_leaves_nothing(bed: Bed, slow_sbatch: None, workdir: Path) -> None:
    pauses(bed, 0, 0)
    (workdir / "big").write_bytes(os.urandom(150_000_000))
    client = bed.start("submit", *words(bed, workdir))
    wait_for("the copy", lambda: is_there(bed, "~/jobs/echo-*/code/big"), 120, 0.05)
    os.killpg(client.pid, signal.SIGSTOP)
    assert not is_there(bed, "/tmp/began"), "it was too late"
    killed(client)
    wait_for("nothing is left", lambda: not is_there(bed, "~/jobs/echo-*"), 60)
    assert queue(bed) == []
    assert "it is not submitted again" not in again(bed, workdir)


def test_a_submit_whose_connection_breaks_finds_its_job(bed: Bed, slow_sbatch: None, workdir: Path) -> None:
    pauses(bed, 0, 8)
    client = bed.start("submit", *words(bed, workdir))
    wait_for("sbatch", lambda: is_there(bed, "/tmp/ended"), 120, 0.1)
    sh(bed, CUT, "^/bin/sh /usr/local/bin/sbatch")
    told, _ = client.communicate(timeout=120)
    assert client.returncode == 0, told
    assert [json.loads(told.splitlines()[-1])["job_id"]] == queue(bed)


def test_ssh_says_why_a_command_has_no_exit_code(bed: Bed) -> None:
    client = bed.start("ssh", "--", "sleep 777")
    wait_for("the command", lambda: runs(bed, "^sleep 777"), 120, 0.1)
    sh(bed, CUT, "^sleep 777")
    told, _ = client.communicate(timeout=120)
    assert (client.returncode, told) == (255, "error: the connection to the head node broke\n")
    killed = bed.gpucluster("ssh", "--", "kill -9 $$")
    assert (killed.returncode, killed.stderr) == (255, "error: a signal ended the command on the head node\n")


def test_a_sync_whose_connection_breaks_continues(bed: Bed, tmp_path: Path) -> None:
    data = os.urandom(30_000_000)
    (tmp_path / "big").write_bytes(data)
    client = bed.start("sync", "--bwlimit", "5000", str(tmp_path / "big"), ":sync-cut/")
    wait_for("a part", lambda: sh(bed, "find ~/sync-cut -size +5M 2>/dev/null || :").strip(), 120, 0.2)
    sh(bed, CUT, "^rsync --server")
    told, _ = client.communicate(timeout=120)
    assert client.returncode == 3 and "hint: run the same command again: it continues where it stopped" in told
    wait_for("the part is kept", lambda: is_there(bed, "~/sync-cut/.rsync-partial/big"), 60)
    done = bed.gpucluster("sync", str(tmp_path / "big"), ":sync-cut/")
    assert done.returncode == 0, done.stderr
    assert not is_there(bed, "~/sync-cut/.rsync-partial")
    assert bed.gpucluster("sync", ":sync-cut/big", str(tmp_path / "back")).returncode == 0
    assert (tmp_path / "back").read_bytes() == data


class Log:
    """Appends lines to a pending job's log, from the head node."""

    def __init__(self, bed: Bed, job_id: str) -> None:
        self.bed, self.job_id, self.count = bed, job_id, 0

    def write(self, count: int, pause_s: float = 0.05) -> threading.Thread:
        first, self.count = self.count + 1, self.count + count
        script = f'for n in $(seq {first} {self.count}); do echo "line $n"; sleep {pause_s}; done >>"$1"'
        writer = threading.Thread(target=sh, args=(self.bed, script, f"/home/ubuntu/jobs/by-id/{self.job_id}/log.txt"))
        writer.start()
        return writer


def shown(client: subprocess.Popen[str], log: Log) -> list[str]:
    """All lines of the log that the client showed, after the job's end."""
    sh(log.bed, "sleep 1; scancel --user ubuntu")
    told, _ = client.communicate(timeout=120)
    return [line for line in told.splitlines() if line.startswith("line ")]


def test_a_follower_whose_connection_breaks_twice_shows_each_line_once(bed: Bed, workdir: Path) -> None:
    client = bed.start("submit", "--follow", *words(bed, workdir))
    job_id = wait_for("the job", lambda: queue(bed), 120)[0]
    log = Log(bed, job_id)
    for _ in range(2):
        wait_for("the follower", lambda: runs(bed, TAIL), 60)
        writer = log.write(100)
        time.sleep(2)
        sh(bed, CUT, TAIL)
        writer.join()
    assert shown(client, log) == [f"line {number}" for number in range(1, log.count + 1)]


def test_a_follower_that_slept_until_the_tunnel_had_ended_shows_each_line_once(bed: Bed, workdir: Path) -> None:
    again(bed, workdir)
    log = Log(bed, queue(bed)[0])
    client = bed.start("logs", "-f", log.job_id)
    wait_for("the follower", lambda: runs(bed, TAIL), 60)
    log.write(50).join()
    os.killpg(client.pid, signal.SIGSTOP)
    log.write(50).join()
    # the local cloud ends a tunnel that does not answer (ping_interval, ping_timeout and close_timeout of websockets)
    wait_for("the tunnel has ended", lambda: not runs(bed, TAIL), 200)
    os.killpg(client.pid, signal.SIGCONT)
    log.write(50).join()
    assert shown(client, log) == [f"line {number}" for number in range(1, log.count + 1)]
