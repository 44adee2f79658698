"""Which line says why a program ended, among what Python prints after, around and instead of the error."""

from __future__ import annotations

import subprocess
import sys
import textwrap

import pytest

from gpucluster_job.ranks.last_words import last_words
from gpucluster_job.ranks.program import Lines


def said(lines: list[str]) -> str:
    """As a rank does: from the lines that it has kept."""
    kept = Lines("")
    kept.take("".join(f"{line}\n" for line in lines).encode())
    return last_words(line.decode() for line in kept.last)


@pytest.fixture(autouse=True)
def _quiet(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("gpucluster_job.ranks.program._write", lambda data: None)


def printed(program: str) -> list[str]:
    argv = [sys.executable, "-c", textwrap.dedent(program)]
    done = subprocess.run(argv, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)
    assert done.returncode == 1, done.stdout
    return done.stdout.splitlines()


PROGRAMS = {
    "destructors that fail after the error": (
        """
        class Loader:
            def __del__(self):
                try:
                    {}["pid"]
                except KeyError:
                    raise AssertionError("can only test a child process")
        loaders = [Loader() for _ in range(40)]
        raise ValueError("the loss is nan")
        """,
        "ValueError: the loss is nan",
    ),
    "a destructor that fails before sys.exit": (
        """
        import sys
        class Loader:
            def __del__(self): raise AssertionError("can only test a child process")
        loader = Loader(); del loader
        sys.exit("no checkpoint in /data")
        """,
        "no checkpoint in /data",
    ),
    "an exit function that fails": (
        """
        import atexit
        def later(): raise RuntimeError("cannot schedule new futures after shutdown")
        atexit.register(later)
        raise ValueError("the loss is nan")
        """,
        "ValueError: the loss is nan",
    ),
    "a thread that fails after the error": (
        """
        import threading, time
        def later(): time.sleep(0.3); raise RuntimeError("cannot schedule new futures after shutdown")
        threading.Thread(target=later).start()
        raise ValueError("the loss is nan")
        """,
        "ValueError: the loss is nan",
    ),
    "a thread that fails and is the only reason": (
        """
        import os, threading
        def work(): raise RuntimeError("no GPU left")
        thread = threading.Thread(target=work); thread.start(); thread.join(); os._exit(1)
        """,
        "RuntimeError: no GPU left",
    ),
    "a retry that logs, then sys.exit": (
        """
        import logging, sys
        for attempt in range(3):
            try:
                try: {}["x"]
                except KeyError: raise ConnectionError("refused")
            except ConnectionError: logging.exception("attempt %d failed", attempt)
        sys.exit("no checkpoint in s3://mine")
        """,
        "no checkpoint in s3://mine",
    ),
    "a warning with its traceback, then an error": (
        """
        import logging
        logging.basicConfig(format="%(asctime)s [%(levelname)s] %(message)s")
        try: 1 / 0
        except ZeroDivisionError: logging.warning("no progress bar", exc_info=True)
        raise ValueError("the loss is nan")
        """,
        "ValueError: the loss is nan",
    ),
    "a logged error before the program exits with 1": (
        """
        import logging, sys
        try: 1 / 0
        except ZeroDivisionError: logging.exception("failed")
        sys.exit(1)
        """,
        "ZeroDivisionError: division by zero",
    ),
    "a log record that cannot be formatted": (
        """
        import logging, sys
        logging.warning("%d", "x")
        sys.exit("bad --seed")
        """,
        "bad --seed",
    ),
    "a hook for errors that fails": (
        """
        import sys
        def hook(*given): raise OSError("no such host")
        sys.excepthook = hook
        raise ValueError("the loss is nan")
        """,
        "ValueError: the loss is nan",
    ),
    "a warning after sys.exit": (
        """
        import atexit, sys, warnings
        atexit.register(lambda: warnings.warn("resource_tracker: There appear to be 1 leaked semaphore objects"))
        sys.exit("bad --seed")
        """,
        "bad --seed",
    ),
    "a goodbye after an error, which followed a log record": (
        """
        import atexit, logging
        logging.basicConfig(level=logging.INFO)
        atexit.register(print, "closing the writer")
        logging.info("step 100")
        raise ValueError("the loss is nan")
        """,
        "ValueError: the loss is nan",
    ),
    "a chained error": (
        """
        try: 1 / 0
        except ZeroDivisionError: raise ValueError("the loss is nan")
        """,
        "ValueError: the loss is nan",
    ),
}


@pytest.mark.parametrize("case", PROGRAMS)
def test_the_error_that_ended_a_real_program_is_named(case: str) -> None:
    program, expected = PROGRAMS[case]
    lines = printed(program)
    assert said(lines) == expected, "\n".join(lines)


TRACEBACK = ["Traceback (most recent call last):", '  File "x.py", line 2, in <module>', "ValueError: boom"]


@pytest.mark.parametrize(
    "after",
    [
        # Python 3.14 (_PyErr_FormatUnraisable in Objects/typeobject.c)
        ["Exception ignored while calling deallocator <function A.__del__ at 0x7f>:", *TRACEBACK[:2], "KeyError: 1"],
        [
            "Exception ignored in: <_io.TextIOWrapper name='<stdout>' mode='w'>",
            "BrokenPipeError: [Errno 32] Broken pipe",
        ],
        ["wandb: Find logs at: ./wandb/run-1/logs"],
        ["", "Set the environment variable HYDRA_FULL_ERROR=1 for a complete stack trace."],
    ],
)
@pytest.mark.parametrize("before", [[], ["Error executing job with overrides: []"]])
def test_what_follows_an_uncaught_error_does_not_replace_it(before: list[str], after: list[str]) -> None:
    assert said(["step 1", *before, *TRACEBACK, *after]) == "ValueError: boom"


def test_only_noise_is_better_than_nothing() -> None:
    assert said(["wandb: ERROR api_key not configured"]) == "wandb: ERROR api_key not configured"
