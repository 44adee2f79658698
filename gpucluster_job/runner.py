"""Runs the job's commands on its first node, one after another, and ends them when the job ends."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from contextlib import suppress
from typing import Any, Callable, Mapping, Optional

from gpucluster_job.wakeup import Wakeup, handle

Take = Callable[[bytes], None]
Tick = Callable[[], Optional[float]]

LAUNCHER_GRACE_S = 7.0
"""After scancel or the time limit, ranks have 5 s to end (ranks/) and the launcher 7 s; Slurm kills everything after 10
s (KillWait in slurm.conf). The remaining time is for the result."""
RANKS_S = 8.0
"""How long the steps that end the ranks may take, before their launcher is ended: ranks have 5 s, and steps must
start."""
LEFT_S = 5.0
"""How long output is read after a command has ended: a process that it left behind may keep the pipe open."""
TIMED_OUT = 124


def ticks(*several: Tick | None) -> Tick | None:
    """Returns one function that calls each of these when it is due."""
    due = {each: 0.0 for each in several if each}

    def tick() -> float | None:
        for each, at in list(due.items()):
            if time.monotonic() >= at:
                pause = each()
                if pause:
                    due[each] = time.monotonic() + pause
                else:
                    del due[each]
        return max(0.01, min(due.values()) - time.monotonic()) if due else None

    return tick if due else None


class Stopped(Exception):
    """The job has to end before its launcher has started."""


class Runner:
    def __init__(self) -> None:
        self.stopped = False
        self._process: subprocess.Popen[bytes] | None = None
        self._taking: Take | None = None
        self._ending: list[subprocess.Popen[bytes]] = []
        self._end_at = 0.0
        self._wakeup = Wakeup()
        handle((signal.SIGTERM, signal.SIGINT), self._stop)
        handle((signal.SIGALRM,), self._kill)

    def run(
        self,
        argv: list[str],
        take: Take,
        *,
        limit_s: float | None = None,
        tick: Tick | None = None,
        environment: Mapping[str, str] | None = None,
    ) -> int:
        """Returns the command's exit code, as a shell gives it. Calls `take` with its output, and with b"" at the end.
        Calls `tick` again after as many seconds as it returns.

        Raises Stopped if the job was ended before the command started.
        """
        self.check()
        try:
            process = subprocess.Popen(
                argv, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, env=environment
            )
        except OSError as error:
            take(f"{argv[0]}: {'not found' if isinstance(error, FileNotFoundError) else error.strerror}\n".encode())
            take(b"")
            return 127 if isinstance(error, FileNotFoundError) else 126
        self._process, self._taking = process, take
        if self.stopped:
            self._stop()
        until = time.monotonic() + limit_s if limit_s else None
        timed_out = self._attend(process, take, until, tick)
        self._process, self._end_at = None, 0.0
        signal.setitimer(signal.ITIMER_REAL, 0)
        code = process.wait()
        return TIMED_OUT if timed_out else code if code >= 0 else 128 - code

    def phase(self, argv: list[str], take: Take, **more: Any) -> int:
        """Like `run`, for commands before the launcher. Also raises Stopped if the job was ended during the command."""
        code = self.run(argv, take, **more)
        self.check()
        return code

    def check(self) -> None:
        if self.stopped:
            raise Stopped

    def runs(self, take: Take) -> bool:
        """Whether the command whose output goes to `take` is running."""
        return self._process is not None and self._taking == take

    def end(self, grace_s: float) -> None:
        """Ends the running command."""
        if self._process:
            self._process.terminate()
            signal.setitimer(signal.ITIMER_REAL, grace_s)

    def end_after(self, steps: list[subprocess.Popen[bytes]], longest_s: float = RANKS_S) -> None:
        """Ends the running command when these steps have ended, which end its ranks."""
        self._ending, self._end_at = steps, time.monotonic() + longest_s

    def ignore_signals(self) -> None:
        """The result is being written; the job ends without further action."""
        handle((signal.SIGTERM, signal.SIGINT, signal.SIGUSR1, signal.SIGUSR2), signal.SIG_IGN)  # type: ignore[arg-type]

    def _attend(self, process: subprocess.Popen[bytes], take: Take, until: float | None, tick: Tick | None) -> bool:
        """Waits until the command has ended and all its output is read. Returns whether it was ended at its limit."""
        assert process.stdout
        watched, ended, timed_out, next_tick = [process.stdout.fileno()], False, False, 0.0
        while True:
            now = time.monotonic()
            if not ended and process.poll() is not None:
                ended, tick, until = True, None, now + (1.0 if self.stopped else LEFT_S)
            if ended and (not watched or (until and now >= until)):
                break
            if until and now >= until:
                timed_out, until = True, None
                self.end(LEFT_S)
            self._end_if_due(now)
            if tick and now >= next_tick:
                pause = tick()
                tick, next_tick = (tick if pause else None), now + (pause or 0.0)
            self._read(process, watched, [until, next_tick if tick else None, self._end_at or None], take)
        take(b"")
        process.stdout.close()
        return timed_out

    def _end_if_due(self, now: float) -> None:
        if self._end_at and (now >= self._end_at or all(step.poll() is not None for step in self._ending)):
            self._end_at = 0.0
            self.end(LAUNCHER_GRACE_S)

    def _read(
        self, process: subprocess.Popen[bytes], watched: list[int], wakes: list[float | None], take: Take
    ) -> None:
        first = min((each for each in wakes if each), default=None)
        for each in self._wakeup.wait(watched, None if first is None else max(0.0, first - time.monotonic())):
            data = os.read(each, 2**16)
            if data:
                take(data)
            else:
                watched.remove(each)

    def _stop(self, number: int = 0, frame: Any = None) -> None:
        self.stopped = True
        self.end(LAUNCHER_GRACE_S)

    def _kill(self, number: int, frame: Any) -> None:
        if self._process:
            with suppress(ProcessLookupError):
                self._process.kill()
