"""What the daemon takes from Slurm's MailProg, and what it publishes."""

from __future__ import annotations

import json
import os
import pwd
import subprocess
import time
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace

import pytest
from gpucluster_node import spooled
from gpucluster_node.mail import daemon, spool
from gpucluster_node.mail.spool import InvalidError, Notice

PROGRAM = Path(__file__).parents[4] / "bootstrap/programs/bin/mail-request"
ENDED = {
    "SLURM_JOB_UID": "1000",
    "SLURM_JOB_ID": "12",
    "SLURM_JOB_STATE": "FAILED",
    "SLURM_JOB_EXIT_CODE_MAX": "1",
    "SLURM_JOB_MAIL_TYPE": "Failed",
    "SLURM_JOB_NAME": "x\n0 1\nCOMPLETED 0\nEnded",
}
"""As Slurm's slurmctld sets them (src/slurmctld/agent.c, job_scheduler.c: job_common_env_vars)."""


def requested(folder: Path, **more: str) -> Path:
    """Runs Slurm's program."""
    folder.mkdir(exist_ok=True)
    text = PROGRAM.read_text().replace("/run/gpucluster/mail", str(folder))
    before = set(folder.iterdir())
    environment = {"PATH": os.environ["PATH"], **ENDED, **more}
    subprocess.run(["sh", "-c", text, "sh", "-s", "Slurm Job_id=12 Name=x Failed", "root"], env=environment, check=True)
    (path,) = set(folder.iterdir()) - before
    return path


def read(path: Path) -> Notice:
    return spool.read(path, {os.getuid()})


def test_slurms_program_leaves_what_slurm_knows(tmp_path: Path) -> None:
    path = requested(tmp_path)
    assert read(path) == Notice(1000, "12", "FAILED", "failure") and path.stat().st_mode & 0o777 == 0o600
    assert spooled.waiting(tmp_path) == [path]


@pytest.mark.parametrize(
    ("kind", "state", "code", "event"),
    [
        ("Began", "RUNNING", "0", "start"),
        ("Ended", "COMPLETED", "0", "end"),
        ("Ended", "CANCELLED", "0", "failure"),
        ("Ended", "COMPLETED", "3", "failure"),
        ("Failed", "NODE_FAIL", "0", "failure"),
        ("Invalid dependency", "PENDING", "0", "failure"),
        ("Requeued", "COMPLETED", "0", ""),
        ("Reached 90% of time limit", "RUNNING", "0", ""),
        ("StageOut/Teardown", "COMPLETED", "0", ""),
    ],
)
def test_kinds_of_slurms_mails(tmp_path: Path, kind: str, state: str, code: str, event: str) -> None:
    more = {"SLURM_JOB_MAIL_TYPE": kind, "SLURM_JOB_STATE": state, "SLURM_JOB_EXIT_CODE_MAX": code}
    assert read(requested(tmp_path, **more)).event == event


def test_an_array_of_which_an_element_was_killed_has_failed(tmp_path: Path) -> None:
    """Slurm then names the greatest signal and no exit code, and the state of the element that ended last."""
    ended = {"SLURM_JOB_MAIL_TYPE": "Ended", "SLURM_JOB_STATE": "COMPLETED", "SLURM_JOB_TERM_SIGNAL_MAX": "9"}
    without_code = requested(tmp_path, SLURM_ARRAY_JOB_ID="10", SLURM_JOB_EXIT_CODE_MAX="", **ended)
    assert read(without_code).event == "failure"


def test_an_array_is_told_of_as_a_whole(tmp_path: Path) -> None:
    assert read(requested(tmp_path, SLURM_ARRAY_JOB_ID="10")).job_id == "10"


def test_what_is_no_notice_is_refused(tmp_path: Path) -> None:
    good = requested(tmp_path)
    for name, content in (("notice.a", "1000 12\n"), ("notice.b", "x" * 10**6), ("odd", good.read_text())):
        (tmp_path / name).write_text(content)
        with pytest.raises(InvalidError):
            read(tmp_path / name)
    with pytest.raises(InvalidError, match="owned by uid"):
        spool.read(good, {12345})
    (tmp_path / "notice.link").symlink_to(good)
    os.mkfifo(tmp_path / "notice.pipe")
    for name in ("notice.link", "notice.pipe"):
        with pytest.raises(InvalidError):
            read(tmp_path / name)


@pytest.fixture
def mail(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> SimpleNamespace:
    """A daemon whose users are this process's user, under the uids 1000 and 1001; the delivery prints `says`."""
    sent: list[tuple[str, str]] = []
    us = pwd.getpwuid(os.getuid())
    found = SimpleNamespace(folder=tmp_path / "spool", sent=sent, says="", sleep="0")
    found.daemon = daemon.Daemon("lab", lambda *words: sent.append(words), found.folder)
    monkeypatch.setattr(spool, "read", lambda path, read=spool.read: read(path, {os.getuid()}))
    monkeypatch.setattr(daemon.pwd, "getpwuid", lambda uid: us)
    monkeypatch.setattr(daemon.slurm, "state", lambda job_id: "FAILED")
    script = tmp_path / "delivery"
    monkeypatch.setattr(daemon.sys, "executable", str(script))

    def says(text: str, sleep_s: float = 0.0) -> None:
        new = tmp_path / "new"
        new.write_text(f"#!/bin/sh\ncat >>{tmp_path}/asked\nsleep {sleep_s}\ncat <<'EOF'\n{text}\nEOF\n")
        new.chmod(0o755)
        new.replace(script)

    found.set, found.asked = says, lambda: (tmp_path / "asked").read_text()
    return found


def until(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 30
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.01)


def test_an_e_mail_is_published_and_the_notice_removed(mail: SimpleNamespace) -> None:
    mail.set(json.dumps({"subject": "lab: job 12\x1b failed é", "text": "why"}))
    requested(mail.folder)
    mail.daemon.look()
    until(lambda: not list(mail.folder.iterdir()))
    assert mail.sent == [("lab: job 12 failed ", "why")]
    wanted = {"cluster": "lab", "job_id": "12", "event": "failure", "state": "FAILED", "final": True}
    assert json.loads(mail.asked()) == wanted


def test_an_e_mail_of_a_user_does_not_look_like_an_alarm(mail: SimpleNamespace) -> None:
    mail.set(json.dumps({"subject": "ALARM: budget", "text": "t"}))
    requested(mail.folder)
    mail.daemon.look()
    until(lambda: bool(mail.sent))
    assert mail.sent == [("lab: job 12 ALARM: budget", "t")]


def test_what_a_users_program_prints_is_not_believed(mail: SimpleNamespace) -> None:
    mail.set("no json\n[1]\n{}\n" + "[" * 5000)
    requested(mail.folder)
    mail.daemon.look()
    until(lambda: not list(mail.folder.iterdir()))
    assert mail.sent == []


def test_a_slow_webhook_holds_up_its_own_user_alone(mail: SimpleNamespace) -> None:
    mail.set(json.dumps({"subject": "s", "text": "t"}), sleep_s=2.0)
    requested(mail.folder), requested(mail.folder)
    mail.daemon.look()
    until(lambda: (mail.folder.parent / "asked").exists())
    mail.set(json.dumps({"subject": "fast", "text": "t"}))
    requested(mail.folder, SLURM_JOB_UID="1001")
    mail.daemon.look()
    until(lambda: bool(mail.sent))
    assert mail.sent == [("lab: job 12 fast", "t")] and len(list(mail.folder.iterdir())) == 2


def test_a_user_cannot_fill_the_administrators_mailbox(mail: SimpleNamespace) -> None:
    mail.set("\n".join([json.dumps({"subject": "s", "text": "t"})] * 100))
    requested(mail.folder)
    mail.daemon.look()
    until(lambda: not list(mail.folder.iterdir()))
    assert len(mail.sent) == daemon.E_MAILS_AN_HOUR


def test_root_and_system_accounts_have_no_notices(mail: SimpleNamespace) -> None:
    mail.set(json.dumps({"subject": "s", "text": "t"}))
    requested(mail.folder, SLURM_JOB_UID="0")
    mail.daemon.look()
    assert not list(mail.folder.iterdir()) and not mail.daemon._busy


def test_the_delivery_has_none_of_roots_rights() -> None:
    us = pwd.getpwuid(os.getuid())
    found = daemon.as_user(us)
    assert (
        found["user"] == us.pw_uid and found["extra_groups"] == [] and set(found["env"]) == {"HOME", "PATH", "LC_ALL"}
    )


def test_a_users_program_that_never_stops_printing_is_ended() -> None:
    began = time.monotonic()
    assert daemon.said(["yes"], b"{}") == b"y\n" * (daemon.MOST_OUTPUT // 2)
    assert time.monotonic() - began < 30


def test_a_users_process_that_keeps_the_output_open_is_not_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(daemon, "LIMIT_S", 1.0)
    with pytest.raises(subprocess.TimeoutExpired):
        daemon.said(["sh", "-c", "sleep 20 & echo said"], b"{}")


def test_errors_of_a_users_program_do_not_fill_the_daemons_log(capfd: pytest.CaptureFixture[str]) -> None:
    assert daemon.said(["sh", "-c", "cat; echo noise >&2"], b"asked") == b"asked"
    assert capfd.readouterr().err == ""


def test_many_notices_of_a_user_do_not_hide_those_of_others(
    mail: SimpleNamespace, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(daemon, "MOST_WAITING", 2)
    mail.set("", sleep_s=2.0)
    for _ in range(5):
        requested(mail.folder)
    mail.daemon.look()
    assert len(list(mail.folder.iterdir())) == 2
