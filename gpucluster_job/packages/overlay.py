"""A job's own packages: an environment on top of the cluster's, shared by all jobs that require the same.

usage: overlay check JOB    before the job is queued: refuses conflicts. Prints ready, waiting, later, stored or missing
       overlay start JOB    installs in the background
       overlay build JOB    restores or installs what is missing, or waits for another installation
       overlay list JOBS    one JSON object
       overlay prune JOBS   deletes and prints those that no queued or running job uses

Only the standard library, and no other module of the project: `gpucluster env` sends this file to the head node.

It is in JOBS/.packages/<folder of the cluster's environment>/<key>. Beside it, <key>.state is both lock and state: a
node that takes a lock over NFS reads that file anew, but may cache for half a minute that another file is missing.
"""

from __future__ import annotations

import fcntl
import itertools
import json
import os
import re
import shutil
import subprocess
import sys
import time
from collections import deque
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any, Iterator, Mapping

READY, FAILED = "ready", "failed"
RESTORED, INSTALLED = "restored", "installed"
REFUSED = 3
"""Exit code of `check`: the packages do not fit, and stderr says why."""
CHECK_TIMEOUT_S = 240
POLL_S = 5
SHOWN_LINES = 15
"""Lines of the log that are shown after a failure."""
_CONSTRAINT = re.compile(r"The user requested \(constraint\) ([A-Za-z0-9._-]+).*?==([^,\s]+).*")
_RAISED = re.compile(r"\s*[A-Za-z_][\w.]*(Error|Exception): ")
_NAME_ALONE = re.compile(r"The user requested [A-Za-z0-9._-]+")
# A login shell has the jobs' credentials. boto3 is one of the system's packages.
_WITH_S3 = 'file=/etc/profile.d/gpucluster-credentials.sh; [ ! -r $file ] || . $file; exec "$0" -I "$@"'


_SECRET = "write the index with its password into ~/.config/pip/pip.conf there"


class Failed(Exception):
    """The reason, with the end of the log before it."""

    def __init__(self, reason: str, lines: list[str]) -> None:
        super().__init__(reason)
        self.reason, self.lines = reason, lines


@dataclass(frozen=True)
class Overlay:
    job: Path
    """The folder of the job that requires it: its code, and its requirements."""
    environment: Path
    """The cluster's environment, by the link that jobs use."""
    key: str

    @classmethod
    def of(cls, job: str) -> Overlay:
        asked = json.loads(Path(job, "packages", "asked.json").read_text(encoding="utf-8"))
        return cls(Path(job), Path(asked["environment"]), asked["key"])

    @property
    def base(self) -> Path:
        return Path(os.path.realpath(str(self.environment)))

    @property
    def place(self) -> Path:
        return self.job.parent / ".packages" / self.base.name / self.key

    @property
    def state(self) -> Path:
        return self.place.with_suffix(".state")

    @property
    def environment_is_made(self) -> bool:
        wanted = self.environment.parent / ".wanted" / self.environment.name
        return (wanted / "complete").exists() and self.environment.exists()

    def file(self, name: str) -> Path:
        return self.job / "packages" / name

    def path(self, before: str) -> str:
        """PATH with its programs before the environment's."""
        own, below = str(self.place / "bin"), str(self.base / "bin")
        folders = before.split(":")
        at = folders.index(below) if below in folders else 0
        return ":".join([*folders[:at], own, *folders[at:]])


@contextmanager
def locked(state: Path, *, wait: bool = True, shared: bool = False) -> Iterator[IO[str]]:
    """Raises OSError if the lock is held and the caller does not wait. POSIX locks work over NFS too. Shared: to read,
    also while the packages are stored in S3; nobody changes them meanwhile."""
    state.parent.mkdir(parents=True, exist_ok=True)
    with state.open("a+", encoding="utf-8") as file:
        fcntl.lockf(file, (fcntl.LOCK_SH if shared else fcntl.LOCK_EX) | (0 if wait else fcntl.LOCK_NB))
        file.seek(0)
        yield file


def _write(state: IO[str], text: str) -> None:
    state.truncate(0)
    state.write(text)
    state.flush()


def check(overlay: Overlay) -> int:
    """If the cluster's environment is not built yet, there is nothing to compare with."""
    if not overlay.environment_is_made:
        print("later")
        return 0
    if _state(overlay.state) == READY:
        print("ready")
        return 0
    try:
        with locked(overlay.state, wait=False) as state:
            if state.read().startswith(FAILED):
                _write(state, "")
    except OSError:
        print("waiting")
        return 0
    if _cached(overlay, "has"):  # they were compared with the same environment before they were stored
        print("stored")
        return 0
    if refusal := _refusal(overlay):
        print(f"error: {refusal}", file=sys.stderr)
        return REFUSED
    print("missing")
    return 0


def _refusal(overlay: Overlay) -> str:
    """Runs pip's resolver, which downloads only metadata if possible. If it takes long, the installation decides."""
    try:
        argv = _install(overlay, overlay.base, "--dry-run")
        done = subprocess.run(argv, **_around(overlay), timeout=CHECK_TIMEOUT_S, check=False)
    except Failed as error:
        return error.reason
    except subprocess.TimeoutExpired:
        return ""
    return reason(done.stdout.splitlines(), overlay.environment.name) if done.returncode else ""


def start(overlay: Overlay) -> int:
    argv = [sys.executable, "-IS", os.path.abspath(__file__), "build", str(overlay.job)]
    with overlay.file("log.txt").open("w") as log:
        subprocess.Popen(argv, stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True)
    return 0


def build(overlay: Overlay) -> int:
    """A job that waits for the head node's attempt gets its failure, and does not try again on its nodes."""
    while not overlay.environment_is_made:
        if "SLURM_JOB_ID" in os.environ and (overlay.base / "complete").exists():
            break  # the cluster requires a newer one since; the ranks of this job run in this one
        if str(overlay.job / "code") not in _queue():
            return 1  # the environment could not be built, or the job was cancelled
        time.sleep(POLL_S)
    made = _made(overlay)
    if made in (READY, INSTALLED) and "SLURM_JOB_ID" not in os.environ:
        _store(overlay, made)
    return 1 if made == FAILED else 0


def _made(overlay: Overlay) -> str:
    """READY if they were there before."""
    with locked(overlay.state, shared=True) as state:
        if state.read() == READY:
            return READY
    with locked(overlay.state) as state:
        before = state.read()
        if before == READY:
            return READY
        if before.startswith(FAILED):
            print(before.partition("\n")[2])
            return FAILED
        shutil.rmtree(str(overlay.place), ignore_errors=True)
        # beside the packages, because it stays if the installation fails: `env list` names it
        shutil.copy(str(overlay.file("requirements.txt")), str(overlay.place.with_suffix(".txt")))
        try:
            restored = _cached(overlay, "restore")
            if not restored:
                _make(overlay)
        except Failed as error:
            shutil.rmtree(str(overlay.place), ignore_errors=True)
            _write(state, "\n".join([FAILED, *error.lines, f"error: {error.reason}"]))
            print(f"error: {error.reason}", flush=True)
            return FAILED
        _write(state, READY)
    return RESTORED if restored else INSTALLED


def _store(overlay: Overlay, made: str) -> None:
    """On the head node, after jobs may use them. A job's node that was faster only installs them: its job waits."""
    with locked(overlay.state, shared=True) as state:
        if state.read() == READY and (made == INSTALLED or not _cached(overlay, "has")):
            _cached(overlay, "store")


def _cached(overlay: Overlay, verb: str) -> bool:
    """Whether `software.cache` has the packages, or they could be restored or stored. The log says why not."""
    with suppress(Failed):
        _with_s3(overlay, "cache.py", verb, str(overlay.environment), str(overlay.place))
        return True
    return False


def _program(name: str) -> list[str]:
    return [sys.executable, "-IS", str(Path(__file__).with_name(name))]


def _with_s3(overlay: Overlay, name: str, *words: str) -> None:
    """Runs a program beside this one. Raises Failed."""
    run(["sh", "-c", _WITH_S3, sys.executable, str(Path(__file__).with_name(name)), *words], overlay)


def _make(overlay: Overlay) -> None:
    """Created in its final place, since many of its files contain the path; no job uses it before it is ready."""
    place = overlay.place
    run([str(overlay.base / "bin" / "python"), "-I", "-m", "venv", "--without-pip", str(place)], overlay)
    (packages,) = place.glob("lib/python3.*/site-packages")
    (below,) = overlay.base.glob("lib/python3.*/site-packages")
    (packages / "environment.pth").write_text(f"import site; site.addsitedir({str(below)!r})\n")
    pip = place / "bin" / "pip"
    pip.write_text(f'#!/bin/sh\nexec "{place}/bin/python" -I -m pip "$@"\n')
    pip.chmod(0o755)
    run(_install(overlay, place), overlay)
    if overlay.file("setup.sh").exists():
        _set_up(overlay)
    run([*_program("installed.py"), "compare", str(overlay.base), str(place), overlay.environment.name], overlay)


def _install(overlay: Overlay, environment: Path, *more: str) -> list[str]:
    """pip sees the cluster's environment through the one on top of it, and installs missing packages there. Existing
    packages are required again by name, so that everything fits together; compiled ones in the same version."""
    names, fixed = overlay.file("environment.txt"), overlay.file("fixed.txt")
    run([*_program("installed.py"), "pin", str(overlay.base), str(names), str(fixed)], overlay)
    # pip's cache would be beside the accounts and Slurm's state
    options = ["--no-input", "--no-cache-dir", "--disable-pip-version-check"]
    pip = [str(environment / "bin" / "python"), "-I", "-m", "pip", "install", *options]
    return [*pip, *more, "-c", str(fixed), "-r", str(names), "-r", str(_requirements(overlay))]


def _requirements(overlay: Overlay) -> Path:
    """With folders for prefixes of S3. Raises Failed."""
    asked = overlay.file("requirements.txt")
    text = asked.read_text(encoding="utf-8")
    if unset := [each for each in re.findall(r"\$\{([A-Z0-9_]+)\}", text) if not os.environ.get(each)]:  # as pip does
        where = f"on {os.uname().nodename}, where pip runs"
        raise Failed(f"requirements: ${{{unset[0]}}} is not set {where}: {_SECRET}", [])
    if "s3://" not in text:
        return asked
    local = overlay.file("local.txt")
    _with_s3(overlay, "wheels.py", str(asked), str(local), str(overlay.file("wheels")))
    return local


def _set_up(overlay: Overlay) -> None:
    """Runs in a copy of the code, so that files that the lines fetch or build outlive the job's folder."""
    code = overlay.place / "code"
    shutil.copytree(str(overlay.job / "code"), str(code), symlinks=True)
    fixed = str(overlay.file("fixed.txt"))
    more = {"VIRTUAL_ENV": str(overlay.place), "PIP_CONSTRAINT": fixed, "UV_CONSTRAINT": fixed}
    more["PATH"] = overlay.path(os.environ["PATH"])
    run(["bash", str(overlay.file("setup.sh"))], overlay, cwd=code, more=more)


def run(argv: list[str], overlay: Overlay, *, cwd: Path | None = None, more: Mapping[str, str] | None = None) -> None:
    """Runs in the job's code, or in `cwd`. Prints the output as it comes. Raises Failed."""
    lines: deque[str] = deque(maxlen=200)
    with subprocess.Popen(argv, **_around(overlay, cwd, more)) as process:
        assert process.stdout
        for line in process.stdout:
            if not line.startswith("Requirement already satisfied"):
                print(line, end="", flush=True)
                lines.append(line.rstrip())
    if process.returncode:
        said = [line for line in lines if line]
        raise Failed(reason(said, overlay.environment.name), said[-SHOWN_LINES:])


def _around(overlay: Overlay, cwd: Path | None = None, more: Mapping[str, str] | None = None) -> dict[str, Any]:
    """Arguments for Popen. A job's PYTHONPATH is for its ranks."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}
    return {
        "cwd": str(cwd or overlay.job / "code"), "env": {**environment, **(more or {})}, "text": True,
        "errors": "replace", "stdin": subprocess.DEVNULL, "stdout": subprocess.PIPE, "stderr": subprocess.STDOUT,
    }  # fmt: skip


def reason(lines: list[str], environment: str) -> str:
    """pip lists conflicting packages in a block. Otherwise its last error is best; for a setup line, the trap's.
    For a package that cannot be built, pip prints the Python error and a note after it."""
    at = next((index for index, line in enumerate(lines) if line.startswith("The conflict is caused by:")), None)
    if at is not None:
        block = itertools.takewhile(lambda line: line.startswith(" "), lines[at + 1 :])
        versions = [line.strip() for line in block if not _NAME_ALONE.fullmatch(line.strip())]
        return "these packages do not fit together: " + "; ".join(_plain(line, environment) for line in versions)
    errors = [line.partition("ERROR: ")[2] for line in lines if line.startswith("ERROR: ")]
    ours = [line for line in lines if line.startswith("setup: ")]
    raised = [line.strip() for line in lines if _RAISED.match(line)]
    found = (ours or raised or errors or lines or ["it printed nothing"])[-1]
    if found.startswith("ModuleNotFoundError: No module named 'torch'"):
        found += "; install this package by setup: [pip install --no-build-isolation NAME]"
    return found


def _plain(line: str, environment: str) -> str:
    """pip combines our constraint with those of its configuration."""
    ours = _CONSTRAINT.fullmatch(line)
    if ours:
        return f"the environment {environment} has {ours[1]} {ours[2]}"
    return re.sub(r"^The user requested ", "the job asks for ", line)


def used(queue: str) -> dict[str, list[str]]:
    """Parses `squeue --format "%i %Z"`, whose folders are those of the jobs' code: key -> jobs that have not ended."""
    found: dict[str, list[str]] = {}
    for line in queue.splitlines():
        job, _, code = line.strip().partition(" ")
        with suppress(OSError):
            found.setdefault(Overlay.of(str(Path(code).parent)).key, []).append(job)
    return found


def overlays(jobs: Path, queue: str) -> Iterator[tuple[Path, dict[str, Any]]]:
    jobs_of = used(queue)
    for state in sorted(jobs.glob(".packages/*/*.state")):
        place = state.with_suffix("")
        said = _state(state)
        if said != READY and not place.exists() and not said.startswith(FAILED):
            continue
        asked = place.with_suffix(".txt")
        yield (
            state,
            {
                "environment": place.parent.name,
                "requirements": asked.read_text(encoding="utf-8").split("\n")[:-1] if asked.exists() else [],
                "state": said.partition("\n")[0] or "unfinished",
                "error": said.rpartition("\nerror: ")[2] if said.startswith(FAILED) else "",
                "jobs": jobs_of.get(place.name, []),
                "folder": str(place),
            },
        )


def _state(state: Path) -> str:
    try:
        with locked(state, wait=False, shared=True) as file:
            return file.read()
    except OSError:
        return "being made"


def prune(jobs: Path, queue: str) -> Iterator[str]:
    """A job that was submitted meanwhile finds no state file, and installs again."""
    for state, each in overlays(jobs, queue):
        if each["jobs"]:
            continue
        with suppress(OSError), locked(state, wait=False) as file:
            _write(file, "")
            shutil.rmtree(each["folder"], ignore_errors=True)
            state.with_suffix(".txt").unlink(missing_ok=True)
            yield each["folder"]


def _queue() -> str:
    argv = ["squeue", "--noheader", "--me", "--format=%i %Z"]
    done = subprocess.run(argv, stdout=subprocess.PIPE, text=True, check=False)
    if done.returncode:
        sys.exit(f"error: squeue: exit code {done.returncode}")
    return done.stdout


def main(words: list[str]) -> int:
    """words: the verb's own name, and its own arguments."""
    verb, folder = words[1:3]
    if verb == "list":
        print(json.dumps([each for _, each in overlays(Path(folder), _queue())]))
        return 0
    if verb == "prune":
        print(json.dumps(list(prune(Path(folder), _queue()))))
        return 0
    return {"check": check, "start": start, "build": build}[verb](Overlay.of(folder))


if __name__ == "__main__":
    sys.exit(main(sys.argv))
