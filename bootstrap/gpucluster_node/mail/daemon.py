"""Tells of jobs' starts and ends: takes what Slurm says from a folder (`spool`), has each notice written and sent to
webhooks by the job's user (`deliver`), and publishes e-mails to the alarms' topic, which only root may.

No job waits for it. A slow webhook holds up its own user's notices alone.
"""

from __future__ import annotations

import json
import logging
import os
import pwd
import select
import subprocess
import sys
import threading
import time
from collections import Counter, deque
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

from gpucluster_node import fleet, slurm, spooled
from gpucluster_node.aws import AWS_ERRORS, brief, client, error_code
from gpucluster_node.log import start_logging
from gpucluster_node.mail import spool
from gpucluster_node.mail.spool import Notice

log = logging.getLogger("mail")
LOOK_S = 1.0
MOST_USERS = 16
"""Whose notices are delivered at once."""
LIMIT_S = 150
"""How long one notice may take: three attempts at several webhooks."""
MOST_OUTPUT = 2**16
MOST_WAITING = 100
"""Notices of a user, of which each may take LIMIT_S. Further ones are dropped: they would hide other users'."""
E_MAILS_AN_HOUR = 30
"""For each user. All users' e-mails go to the administrator's address."""
FIRST_UID = 1000
OLD_S = 86_400
LONGEST_TEXT = 4000
Publish = Callable[[str, str], None]
"""Called with subject and text."""


class Daemon:
    def __init__(self, cluster: str, publish: Publish, folder: Path = spool.FOLDER) -> None:
        self._cluster, self._publish, self._folder = cluster, publish, folder
        self._busy: dict[int, Path] = {}
        self._sent: dict[int, deque[float]] = {}

    def look(self) -> None:
        """Begins to deliver, one notice of each user at a time."""
        seen = Counter[int]()
        for path in spooled.waiting(self._folder):
            if path in list(self._busy.values()):
                continue
            try:
                notice = spool.read(path)
                user = pwd.getpwuid(notice.uid)
                old = time.time() - path.lstat().st_mtime > OLD_S
            except (spooled.InvalidError, OSError, KeyError) as error:
                log.warning("no notice: %s", error)
                spooled.discard(path)
                continue
            seen[notice.uid] += 1
            if old or not notice.event or notice.uid < FIRST_UID:
                spooled.discard(path)
            elif seen[notice.uid] > MOST_WAITING:
                log.warning("job %s: no notice: more than %s of uid %s wait", notice.job_id, MOST_WAITING, notice.uid)
                spooled.discard(path)
            elif notice.uid not in self._busy and len(self._busy) < MOST_USERS:
                self._busy[notice.uid] = path
                threading.Thread(target=self._deliver, args=(path, notice, user), daemon=True).start()

    def _deliver(self, path: Path, notice: Notice, user: pwd.struct_passwd) -> None:
        try:
            for line in self._said(notice, user).splitlines():
                self._mail(notice, line)
        except Exception:
            log.exception("the notice of job %s was not delivered", notice.job_id)
        spooled.discard(path)
        del self._busy[notice.uid]

    def _said(self, notice: Notice, user: pwd.struct_passwd) -> str:
        asked = {
            "cluster": self._cluster,
            "job_id": notice.job_id,
            "event": notice.event,
            "state": notice.state,
            "final": notice.event != "start" and not self._runs_again(notice),
        }
        argv = [sys.executable, "-IS", str(Path(__file__).with_name("deliver.py"))]
        try:
            return said(argv, json.dumps(asked).encode(), **as_user(user)).decode(errors="replace")
        except subprocess.TimeoutExpired:
            log.warning("the notice of job %s took more than %s s", notice.job_id, LIMIT_S)
            return ""

    def _runs_again(self, notice: Notice) -> bool:
        return slurm.state(notice.job_id) in ("PENDING", "RUNNING", "CONFIGURING", "REQUEUED")

    def _mail(self, notice: Notice, line: str) -> None:
        """`line`: what a program of the user printed."""
        try:
            found = json.loads(line)
            subject, text = str(found["subject"]), str(found["text"])
        except (ValueError, LookupError, TypeError, RecursionError):
            log.warning("job %s: no e-mail: %.100a", notice.job_id, line)
            return
        if not self._may(notice.uid):
            log.warning("job %s: uid %s has sent %s e-mails in an hour", notice.job_id, notice.uid, E_MAILS_AN_HOUR)
            return
        self._publish(self._subject(notice, subject), text[:LONGEST_TEXT])

    def _subject(self, notice: Notice, said: str) -> str:
        """Names the job, whatever its user's program says: alarms come from the same address."""
        begin = f"{self._cluster}: job {notice.job_id} "
        plain = "".join(each for each in said if " " <= each <= "~")
        return f"{begin}{plain.removeprefix(begin)}"[:99]

    def _may(self, uid: int) -> bool:
        sent, now = self._sent.setdefault(uid, deque()), time.monotonic()
        while sent and sent[0] < now - 3600:
            sent.popleft()
        if len(sent) >= E_MAILS_AN_HOUR:
            return False
        sent.append(now)
        return True


def said(argv: list[str], asked: bytes, **how: Any) -> bytes:
    """What a program of a user prints, at most MOST_OUTPUT. Every program of the user can write into its output through
    /proc, for as long as it likes. Its errors would fill the head node's log. Raises TimeoutExpired."""
    until = time.monotonic() + LIMIT_S
    pipe = subprocess.PIPE
    with subprocess.Popen(argv, stdin=pipe, stdout=pipe, stderr=subprocess.DEVNULL, **how) as process:
        assert process.stdin and process.stdout
        try:
            with suppress(BrokenPipeError), process.stdin:
                process.stdin.write(asked)  # less than a pipe has room for
            found = b""
            while len(found) < MOST_OUTPUT:
                if not select.select([process.stdout], [], [], max(0.0, until - time.monotonic()))[0]:
                    raise subprocess.TimeoutExpired(argv, LIMIT_S)
                if not (data := os.read(process.stdout.fileno(), MOST_OUTPUT - len(found))):
                    process.wait(max(0.0, until - time.monotonic()))
                    break
                found += data
            return found
        finally:
            process.kill()


def as_user(user: pwd.struct_passwd) -> dict[str, Any]:
    """How the user's program runs, without root's rights, groups and environment."""
    environment = {"HOME": user.pw_dir, "PATH": "/usr/bin:/bin", "LC_ALL": "C.UTF-8"}
    return {"user": user.pw_uid, "group": user.pw_gid, "extra_groups": [], "env": environment, "cwd": "/"}


def publish(subject: str, text: str) -> None:
    """Without `monitoring.alarm_email` there is no topic; `submit` refuses a job then."""
    try:
        topic: dict[str, Any] = fleet.parameter(client("ssm"), fleet.newest(), "topic")
        client("sns").publish(TopicArn=topic["arn"], Subject=subject or "GpuCluster", Message=text)
    except AWS_ERRORS as error:
        missing = error_code(error) == "ParameterNotFound"
        log.warning("no e-mail: %s", "the cluster has no monitoring.alarm_email" if missing else brief(error))


def main() -> None:
    start_logging()
    daemon = Daemon(fleet.load().cluster, publish)
    while True:
        daemon.look()
        time.sleep(LOOK_S)


if __name__ == "__main__":
    main()
