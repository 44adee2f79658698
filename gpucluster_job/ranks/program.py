"""A rank's program: starts it in its own session, labels its lines, and ends it with everything that it started."""

from __future__ import annotations

import errno
import os
import re
import signal
import time
from collections import deque
from contextlib import suppress
from typing import Any, Mapping, NoReturn

from gpucluster_job.log import Splitter
from gpucluster_job.ranks.kernel import end_with_parent, name_this_process
from gpucluster_job.ranks.last_words import Ignored
from gpucluster_job.wakeup import Wakeup, handle

GRACE_S = 5
"""Between SIGTERM and SIGKILL; also how long output of processes outside the program's session is read after the
program has ended."""
KEPT = 60
KEPT_BYTES = 4096
"""How many of the last lines are kept to find the reason, and how much of each."""
_DUMP = re.compile(rb'  (Binary f|F)ile ".*(", line [0-9]+ in |", at )|(Current t|T)hread 0x|$')
"""Lines of faulthandler's dump of all threads, and blank lines: they may be hundreds, after the reason."""
LATEST_CUT_S = 30.0
"""With `hang_timeout`: how long a line may have no end. A third of a shorter limit."""
AT_ONCE = 4096
"""PIPE_BUF: how many bytes ranks may write to one pipe without mixing their lines."""
STDIN, STDOUT = 0, 1
END = signal.SIGRTMIN
"""Ends the program as SIGTERM does, but this process stays afterwards, until its launcher ends it: ranks/end.py. Not
SIGUSR1 or SIGUSR2, which Slurm can only send to every process of a job."""
STAYS = "rank-stays"
"""This process's name while it does, as /proc/PID/comm shows it."""
LONGEST_STAY_S = 20.0
"""If the launcher does not end it."""


class Lines:
    """Labels each line. Progress bars end lines with a carriage return; a last line without an end gets one.

    `cut_after_s`: a line that has not ended for so long is printed as far as it goes. `hang_timeout` counts lines, and
    a program that prints dots does not hang.
    """

    def __init__(self, label: str, *, cut_after_s: float | None = None) -> None:
        self._label, self._splitter = label.encode(), Splitter()
        self._returned, self._ignored = False, Ignored()
        self._cut_after_s, self._cut_at = cut_after_s, 0.0
        self.last: deque[bytes] = deque(maxlen=KEPT)

    def take(self, data: bytes) -> None:
        if self._returned and data.startswith(b"\n"):  # of \r\n, which came in two pieces
            data, self._returned = data[1:], False
        if data:
            self._returned = data.endswith(b"\r")
        lines = self._splitter.take(data.replace(b"\r\n", b"\n").replace(b"\r", b"\n"))
        if lines:
            self._print(lines)
            self._cut_at = 0.0
        if self._cut_after_s and self._splitter.has_rest and not self._cut_at:
            self._cut_at = time.monotonic() + self._cut_after_s

    def left_s(self) -> float | None:
        """When `cut_if_due` has something to do; None: not before there is more output."""
        return max(0.0, self._cut_at - time.monotonic()) if self._cut_at else None

    def cut_if_due(self) -> None:
        if self._cut_at and time.monotonic() >= self._cut_at:
            self.end()

    def end(self) -> None:
        self._cut_at = 0.0
        if lines := self._splitter.cut():
            self._print(lines)

    def _print(self, lines: list[bytes]) -> None:
        shown = (line[:KEPT_BYTES] for line in lines if not _DUMP.match(line))
        self.last.extend(line for line in shown if not self._ignored.has(line))
        together = b""
        for line in lines:
            labelled = self._label + line + b"\n"
            if together and len(together) + len(labelled) > AT_ONCE:
                _write(together)
                together = b""
            together += labelled
        if together:
            _write(together)


def _write(data: bytes) -> None:
    """A launcher that has died reads no more. Its output is lost, and the program gets a signal."""
    import select

    rest = memoryview(data)
    while rest:
        try:
            rest = rest[os.write(STDOUT, rest) :]
        except BlockingIOError:
            select.select([], [STDOUT], [])
        except BrokenPipeError:
            return


class _Abandoned(Exception):
    """Nobody reads the rest of the output."""


class Program:
    def __init__(
        self, command: list[str], environment: Mapping[str, str], label: str, *, grace_s: int = GRACE_S
    ) -> None:
        """`grace_s`: between SIGTERM and SIGKILL."""
        self._command, self._environment, self._grace_s = command, environment, grace_s
        self._lines = Lines(label, cut_after_s=_cut_after_s())
        self._pid: int | None = None
        self._code: int | None = None
        self.stopped = self.let_go = False
        self._stays = False
        self.ended_at = 0.0

    def last_lines(self) -> list[str]:
        return [line.decode(errors="replace") for line in self._lines.last]

    def run(self, *, leashed: bool) -> int:
        """The program's exit code, as a shell gives it."""
        wakeup = Wakeup()
        handle((signal.SIGTERM, signal.SIGINT), self._stop)
        handle((END,), self._end)
        handle((signal.SIGALRM,), self._time_is_up)
        # For the program only (signals.py). Slurm can only send them to every process of a job.
        handle((signal.SIGUSR1, signal.SIGUSR2), signal.SIG_IGN)  # type: ignore[arg-type]
        output, write = os.pipe2(os.O_CLOEXEC)
        self._pid = _fork(self._command, self._environment, write)
        os.close(write)
        if self.stopped:
            self._signal(signal.SIGTERM)
        with suppress(_Abandoned):
            self._attend(wakeup, output, leashed)
            self._lines.end()
        signal.alarm(0)
        self._stay(wakeup, leashed=leashed and not self.let_go)
        assert self._code is not None
        return self._code

    def _attend(self, wakeup: Wakeup, output: int, leashed: bool) -> None:
        watched = [output] + ([STDIN] if leashed else [])
        while self._code is None or output in watched:
            for ready in wakeup.wait(watched, self._lines.left_s()):
                data = os.read(ready, 2**16)
                if ready == output:
                    self._lines.take(data)
                elif not data:
                    self.let_go = True
                    self._stop()
                if not data:
                    watched.remove(ready)
            self._lines.cut_if_due()
            if self._code is None:
                self._look()

    def _look(self) -> None:
        """Whether the program has ended. Ends the processes that it left behind, while it still names their group."""
        assert self._pid
        if os.waitid(os.P_PID, self._pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is None:
            return
        self.ended_at = time.time()
        self._signal(signal.SIGKILL)
        _, status = os.waitpid(self._pid, 0)
        self._code = 128 + os.WTERMSIG(status) if os.WIFSIGNALED(status) else os.WEXITSTATUS(status)
        signal.alarm(GRACE_S)

    def _end(self, number: int, frame: Any) -> None:
        if not self._stays:
            self._stop()
        self._stays = True

    def _stay(self, wakeup: Wakeup, *, leashed: bool) -> None:
        longest_s = LONGEST_STAY_S + self._grace_s - GRACE_S  # other ranks may take longer to end
        until, leash = time.monotonic() + longest_s, [STDIN] if leashed else []
        while self._stays and (left_s := until - time.monotonic()) > 0:
            name_this_process(STAYS)
            self._stays = not any(not os.read(ready, 2**16) for ready in wakeup.wait(leash, left_s)) and self._stays

    def _stop(self, number: int = 0, frame: Any = None) -> None:
        if number:
            self._stays = False
        if not self.stopped and self._code is None:
            signal.alarm(self._grace_s)
        self.stopped = True
        if self._code is None:
            self._signal(signal.SIGTERM)

    def _time_is_up(self, number: int, frame: Any) -> None:
        if self._code is not None:
            raise _Abandoned
        self._signal(signal.SIGKILL)

    def _signal(self, number: int) -> None:
        """Signals everything that the program has started. Just after the fork it leads no group yet; then its own
        number is used."""
        if self._pid:
            with suppress(ProcessLookupError):
                try:
                    os.killpg(self._pid, number)
                except ProcessLookupError:
                    os.kill(self._pid, number)


def _cut_after_s() -> float | None:
    limit_s = float(os.environ.get("GPUCLUSTER_HANG_TIMEOUT") or 0)
    return min(LATEST_CUT_S, limit_s / 3) or None


def _fork(command: list[str], environment: Mapping[str, str], output: int) -> int:
    """Blocks signals until the program has installed its handlers or none, because ours must not run in its place."""
    ours = {signal.SIGTERM, signal.SIGINT, signal.SIGUSR1, signal.SIGUSR2, END}
    before = signal.pthread_sigmask(signal.SIG_BLOCK, ours)
    pid = os.fork()
    if pid == 0:
        try:
            os.setsid()
            signal.set_wakeup_fd(-1)
            for number in (*ours, signal.SIGPIPE, signal.SIGXFSZ, signal.SIGCHLD, signal.SIGALRM):
                signal.signal(number, signal.SIG_DFL)
            end_with_parent(signal.SIGKILL)
            _become(command, dict(environment), output, before)
        finally:
            os._exit(126)
    signal.pthread_sigmask(signal.SIG_SETMASK, before)
    return pid


def _become(command: list[str], environment: dict[str, str], output: int, mask: Any) -> NoReturn:
    nothing = os.open(os.devnull, os.O_RDONLY)
    for source, target in ((nothing, 0), (output, 1), (output, 2)):
        os.dup2(source, target)
    signal.pthread_sigmask(signal.SIG_SETMASK, mask)
    try:
        os.execvpe(command[0], command, environment)
    except OSError as error:
        if error.errno == errno.ENOEXEC:  # A script without an interpreter line: run it as shells do.
            import shutil

            script = shutil.which(command[0], path=environment.get("PATH")) or command[0]
            os.execvpe("bash", ["bash", script, *command[1:]], environment)
        from gpucluster_job.ranks.interpreter import why_not

        os.write(2, f"{command[0]}: {why_not(command[0], environment.get('PATH'), error)}\n".encode(errors="replace"))
        os._exit(127 if error.errno in (errno.ENOENT, errno.ENOTDIR) else 126)
