"""Chooses lines of a job's log on the head node. The client sends this file's text to the head node's Python, and only
the chosen lines travel.

The one argument is JSON: `log`, the path, and what `Selection` of gpucluster/following/logs.py has. The first line of
the output is `{}`, or says why there is no log; then the chosen lines. With `follow` each line begins with the byte at
which the next one begins, and a blank; the program ends when its input closes and the log has been printed to its end.

It reads blocks, so its memory has a bound whatever the log. grep -E matches expressions, in linear time, and not
Python's re, which may take for ever. Python 3.8: the head node may be another cluster's login node.
"""

from __future__ import annotations

import json
import os
import re
import resource
import select
import signal
import subprocess
import sys
import time
from collections.abc import Iterable, Iterator
from itertools import islice
from typing import IO, TYPE_CHECKING, Any, BinaryIO

if TYPE_CHECKING:
    Line = tuple[int, bytes]
    """The byte at which the next line begins, and the line with its end."""

BLOCK_BYTES = 2**22
"""A longer line is handled as several."""
FIRST_WINDOW_BYTES = 2**20
"""The last lines are searched in so many bytes at the end of the log, then in sixteen times as many."""
IDLE_S = 0.3
GREP_S = 20
GREP_BYTES_PER_S = 10_000_000
"""A usual expression reads a hundred times as fast. One with back-references may take for ever."""
GREP_BYTES = 2**30
LAUNCHER = b"[launcher] "
FEWEST_FOLDED = 6
MOST_FOLDED = 5000

# What a launcher prints when a rank has failed. Our own lines name the rank and its reason, so these add nothing:
# torchrun's ChildFailedError and its agents' tracebacks (torch/distributed/elastic/multiprocessing/errors/__init__.py
# and api.py), horovodrun's (horovod/runner/gloo_run.py), Open MPI's blocks (recorded from versions 1.10 to 5).
_REPORT = re.compile(
    rb"ChildFailedError|Root Cause \(first observed failure\)|SignalException: Process \d+ got signal"
    rb"|Horovod detected that one or more processes|detected that one or more processes exited"
    rb"|Primary job  terminated normally"
)
_BEGIN = re.compile(
    rb"Traceback \(most recent call last\):|[EW]\d{4} .*/elastic/|[-=]{20,}$|Process \d+ exit with status code "
)
_END = re.compile(rb"[-=]{20,}$|.*SignalException: Process \d+ got signal|Exit code: |\s*Exit code:")


def main(asked: dict[str, Any]) -> int:
    path = asked["log"]
    if asked.get("grep") and (wrong := refused(asked["grep"])):
        return _say({"refused": wrong})
    if not asked.get("follow") and not os.path.exists(path):
        return _say({"missing": path})
    bounds = Bounds.read(path, asked) if needs_times(asked) else Bounds()
    if bounds.lacks:
        return _say({"lacks": bounds.lacks})
    _say({})
    if asked.get("follow"):
        follow(path, asked, bounds)
        return 0
    with open(path, "rb") as log:
        end = min(bounds.end, os.fstat(log.fileno()).st_size)
        if asked.get("tail") is not None:
            write(cut(line, asked.get("longest")) for _, line in last(log, asked, bounds.start, end))
        else:
            write(pieces(log, asked, bounds.start, end))
    return 0


def _say(answer: dict[str, Any]) -> int:
    print(json.dumps(answer), flush=True)
    return 0


def write(found: Iterable[bytes]) -> None:
    for piece in found:
        sys.stdout.buffer.write(piece)
    sys.stdout.buffer.flush()


def cut(line: bytes, longest: int | None) -> bytes:
    """A page that shows the beginnings of hundreds of lines of a megabyte must not get them whole every few seconds."""
    if longest is None or len(line) <= longest:
        return line
    return line[:longest] + f"… (a line of {len(line):,} bytes)\n".encode()


class Bounds:
    """The bytes of the log that the asked times and run may be in. log.times, which the job writes, has a line for each
    few seconds: the time, the size of the log at that time, and the number of the run."""

    def __init__(self, start: int = 0, end: int = sys.maxsize, lacks: str = "") -> None:
        self.start, self.end, self.lacks = start, end, lacks

    @classmethod
    def read(cls, path: str, asked: dict[str, Any]) -> Bounds:
        entries = list(times(path))
        if not entries:
            return cls(lacks="times")
        found = cls()
        if run := asked.get("run"):
            found._within_run(entries, run)
        now = time.time()
        since, until = (None if asked.get(key) is None else _absolute(asked[key], now) for key in ("since", "until"))
        if since is not None:
            found.start = max([found.start, *(size for at, size, _ in entries if at <= since)])
        if until is not None:
            found.end = min([found.end, *(size for at, size, _ in entries if at >= until)])
        return found

    def _within_run(self, entries: list[tuple[float, int, int]], run: int) -> None:
        if run not in {number for _, _, number in entries}:
            self.lacks = f"run {max(number for _, _, number in entries)}"
            return
        self.start = min(size for _, size, number in entries if number == run)
        self.end = min([self.end, *(size for _, size, number in entries if number > run)])


def needs_times(asked: dict[str, Any]) -> bool:
    return any(asked.get(key) is not None for key in ("since", "until", "run"))


def _absolute(at_s: float, now: float) -> float:
    """A negative time is before now, by this machine's clock, which the client's need not agree with."""
    return now + at_s if at_s < 0 else at_s


def times(path: str) -> Iterator[tuple[float, int, int]]:
    """Skips a line that a full disk has cut."""
    try:
        with open(os.path.splitext(path)[0] + ".times", "rb") as file:
            for line in file:
                words = line.split()
                try:
                    yield float(words[0]), int(words[1]), int(words[2])
                except (ValueError, IndexError):
                    continue
    except OSError:
        return


def last(log: BinaryIO, asked: dict[str, Any], start: int, end: int) -> Iterator[Line]:
    """Reads twice what it needs, and keeps nothing: the first time it counts."""
    count, window = int(asked["tail"]), FIRST_WINDOW_BYTES
    while True:
        begin = line_after(log, max(start, end - window), start)
        found = sum(1 for _ in chosen(log, asked, begin, end))
        if found and (found >= count or begin <= start):
            return islice(chosen(log, asked, begin, end), max(0, found - count), None)
        if begin <= start:
            return iter(())
        window *= 16


def line_after(log: BinaryIO, at: int, start: int) -> int:
    """Where the first whole line from this byte on begins."""
    if at <= start:
        return start
    log.seek(at - 1)
    return at - 1 + len(log.readline(BLOCK_BYTES))


def line_begin(log: BinaryIO, at: int, start: int) -> int:
    """Where the line that this byte is in begins."""
    begin = max(start, at - BLOCK_BYTES)
    log.seek(begin)
    return begin + log.read(at - begin).rfind(b"\n") + 1


def chosen(log: BinaryIO, asked: dict[str, Any], start: int, end: int) -> Iterator[Line]:
    fold = Fold(asked)
    for lines in matching(log, asked, start, end):
        yield from fold.take(lines)
    yield from fold.rest()


def pieces(log: BinaryIO, asked: dict[str, Any], start: int, end: int) -> Iterator[bytes]:
    """The bytes of the chosen lines. A block of which every line is chosen stays whole, which is much faster."""
    if expressions(asked):
        yield from (line for _, line in chosen(log, asked, start, end))
        return
    fold = Fold(asked)
    for at, block in blocks(log, start, end):
        yield block if fold.passes(block) else b"".join(line for _, line in fold.take(split(block, at)))
    yield b"".join(line for _, line in fold.rest())


def blocks(log: BinaryIO, start: int, end: int) -> Iterator[tuple[int, bytes]]:
    """Whole lines, with the byte at which the first begins."""
    log.seek(start)
    rest = b""
    while start + len(rest) < end:
        data = log.read(min(BLOCK_BYTES, end - start - len(rest)))
        if not data:
            break
        cut = data.rfind(b"\n") + 1
        if cut or len(rest) + len(data) > BLOCK_BYTES:
            block, rest = rest + data[: cut or None], data[cut:] if cut else b""
            yield start, block
            start += len(block)
        else:
            rest += data
    if rest:
        yield start, rest


def matching(log: BinaryIO, asked: dict[str, Any], start: int, end: int) -> Iterator[list[Line]]:
    """grep finds the lines of a rank, too, because Python needs ten times as long for each line."""
    first, *more = [*expressions(asked), ""]
    if not first:
        yield from (split(block, at) for at, block in blocks(log, start, end))
        return
    begin = re.compile(os.fsencode(more[0]))
    for line in grepped(log, first, start, end):
        if begin.match(line[1]):
            yield [line]


def expressions(asked: dict[str, Any]) -> list[str]:
    """The second is always that for the beginning of a line."""
    rank, node = asked.get("rank"), asked.get("node")
    found = [asked["grep"]] if asked.get("grep") else []
    return found if rank is None and node is None else [*found, label(rank, node)]


def label(rank: str | int | None, node: str | None) -> str:
    """An expression for the beginning of a line, `[3 train-1] `. grep and Python understand it alike."""
    names = ("[^] ]+" if name is None else re.sub(r"([^A-Za-z0-9-])", r"[\1]", str(name)) for name in (rank, node))
    return r"^\[{} {}\] ".format(*names)


def split(block: bytes, at: int) -> list[Line]:
    found: list[Line] = []
    for line in block.split(b"\n"):
        at += len(line) + 1
        found.append((at, line + b"\n"))
    end, line = found.pop()
    if len(line) > 1:  # it has no end of its own: the last one, or a part of a long one
        found.append((end - 1, line[:-1]))
    return found


def refused(expression: str) -> str:
    """grep's own words about an expression that it does not accept."""
    with _limited(_grep(expression), GREP_S, subprocess.DEVNULL) as grep:
        assert grep.stderr
        said = grep.stderr.read(2000).decode(errors="replace").strip()
    return said or f"it needs too much memory or time: {expression!r}" if grep.returncode not in (0, 1) else ""


def grepped(log: BinaryIO, expression: str, start: int, end: int) -> Iterator[Line]:
    """grep prints the byte of each matching line and a colon before it (--byte-offset)."""
    limit_s = GREP_S + (end - start) // GREP_BYTES_PER_S
    with open(log.name, "rb") as source:
        os.lseek(source.fileno(), start, os.SEEK_SET)
        head = subprocess.Popen(["head", f"--bytes={end - start}"], stdin=source, stdout=subprocess.PIPE)
    with head, _limited(_grep(expression), limit_s, stdin=head.stdout) as grep:
        assert head.stdout and grep.stdout
        head.stdout.close()  # grep alone has it, so that head ends with it
        try:
            yield from parsed(grep.stdout, start, end)
        except GeneratorExit:
            grep.kill()
            raise
    if grep.returncode == -signal.SIGXCPU:
        sys.exit(f"grep needs more than {limit_s} s of CPU for {end - start} bytes with the expression {expression!r}")
    if grep.returncode not in (0, 1):
        sys.exit(f"grep ended with {grep.returncode} at the expression {expression!r}")


def parsed(output: IO[bytes], start: int, end: int) -> Iterator[Line]:
    at, is_whole = start, True
    for piece in iter(lambda: output.readline(BLOCK_BYTES), b""):
        if is_whole:
            offset, _, piece = piece.partition(b":")
            at = start + int(offset)
        at, is_whole = at + len(piece), piece.endswith(b"\n")
        if at > end:  # grep ends a last line that has no end
            at, piece = end, piece[:-1]
        yield at, piece


def _grep(expression: str) -> list[str]:
    """In the locale C each byte is a letter, so a line that is no UTF-8 matches too."""
    return ["env", "LC_ALL=C", "grep", "--text", "--byte-offset", "-E", "-e", expression]


def _limited(argv: list[str], seconds: int, stdin: Any) -> subprocess.Popen[bytes]:
    def limit() -> None:
        resource.setrlimit(resource.RLIMIT_AS, (GREP_BYTES, GREP_BYTES))
        resource.setrlimit(resource.RLIMIT_CPU, (seconds, seconds + 1))

    return subprocess.Popen(argv, stdin=stdin, stdout=subprocess.PIPE, stderr=subprocess.PIPE, preexec_fn=limit)


class Fold:
    """Replaces a launcher's report about failed ranks by one line, unless all lines are asked for."""

    def __init__(self, asked: dict[str, Any]) -> None:
        self._folds = not (asked.get("launcher") or expressions(asked))
        self._held: list[Line] = []

    def passes(self, block: bytes) -> bool:
        """Whether there is nothing to fold."""
        return not self._folds or not (self._held or LAUNCHER in block)

    def take(self, lines: list[Line]) -> Iterator[Line]:
        if not self._folds:
            yield from lines
            return
        for line in lines:
            if line[1].startswith(LAUNCHER) and len(self._held) < MOST_FOLDED:
                self._held.append(line)
                continue
            if self._held:
                yield from self.rest()
            yield line

    def rest(self) -> Iterator[Line]:
        held, self._held = self._held, []
        words = [line[1][len(LAUNCHER) :].rstrip(b"\n") for line in held]
        first, end = report(words)
        if end - first < FEWEST_FOLDED:
            yield from held
            return
        yield from held[:first]
        said = (
            f"[launcher] {end - first} lines of the launcher about failed ranks: `gpucluster logs --all` shows them\n"
        )
        yield held[end - 1][0], said.encode()
        yield from held[end:]


def report(words: list[bytes]) -> tuple[int, int]:
    """Where a launcher's report begins and ends among its lines. 0, 0: there is none."""
    if not any(map(_REPORT.search, words)):
        return 0, 0
    first = next((place for place, line in enumerate(words) if _BEGIN.match(line)), 0)
    ends = [place + 1 for place, line in enumerate(words) if place > first and _END.match(line)]
    return first, ends[-1] if ends else len(words)


def follow(path: str, asked: dict[str, Any], bounds: Bounds) -> None:
    """From `offset` on, if the client has read so far already."""
    while not os.path.exists(path):
        if closed(1.0):
            return
    fold = Fold(asked)
    with open(path, "rb") as log:
        at, done = asked.get("offset") or bounds.start, False
        if asked.get("tail") is not None and not asked.get("offset"):
            at = line_begin(log, os.fstat(log.fileno()).st_size, at)
            framed(last(log, asked, bounds.start, at))
        while True:
            before = at
            end = min(bounds.end, os.fstat(log.fileno()).st_size)
            end = end if done else line_begin(log, end, at)
            for lines in matching(log, asked, at, end) if end > at else ():
                framed(fold.take(lines))
            at = max(at, end)
            if at == before:
                framed(fold.rest())
                if done:
                    return
                done = closed(IDLE_S)
                time.sleep(IDLE_S if done else 0.0)


def framed(lines: Iterable[Line]) -> None:
    for at, line in lines:
        sys.stdout.buffer.write(b"%d %s" % (at, line if line.endswith(b"\n") else line + b"\n"))
    sys.stdout.buffer.flush()


def closed(wait_s: float) -> bool:
    """Whether the input has ended, as it does with the connection."""
    return bool(select.select([0], [], [], wait_s)[0]) and not os.read(0, 4096)


if __name__ == "__main__":
    sys.exit(main(json.loads(sys.argv[1])))
