"""Keeps a copy of a task's state in S3: `state_sync FOLDER s3://BUCKET/PREFIX KEPT RESULT VERB`, on a job's first node.

    restore   fills FOLDER if the copy is newer than this cluster's last state, or FOLDER has lost its files
    clean     deletes the copy
    watch     copies changed files every minute, and a last time when stdin closes
    watch-events    the same, for TensorBoard's event files outside of a copied state

The prefix contains the files under their own names, and LIST, which names them and is written last. KEPT is a file
beside FOLDER with the id of the list that this cluster wrote or read last: any other list is another cluster's.

Only finished files are copied: a program writes under a name that begins with a dot or ends with .tmp, and renames it.
Prints lines for the job's log, and writes RESULT, the fields for result.json.
"""

from __future__ import annotations

import itertools
import json
import os
import select
import sys
import time
import uuid
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath
from typing import Any, Dict

from gpucluster_train.channels import ChannelError, bucket_and_key, in_print
from gpucluster_train.sources import s3_client, s3_errors

EVERY_S = 60.0
SETTLED_S = 5.0
"""A program that does not rename may still be writing to a file that just changed. The last copy includes it."""
GROWING_S = 600.0
"""A new file that still changes after this time is a log, and no checkpoint that replaces a deleted one. A deleted file
stays no longer in the copy if that has a newer one."""
LIST = ".gpucluster-state.json"


@dataclass(frozen=True)
class Entry:
    """A file as it was copied, or a link."""

    size: int
    changed_ns: int
    link: str | None = None


Entries = Dict[str, Entry]


DISTRIBUTED = ".metadata"
"""The file that completes a checkpoint of torch.distributed.checkpoint: without it nothing reads the rest."""


def finished(name: str) -> bool:
    return name == DISTRIBUTED or not (name.startswith(".") or name.endswith(".tmp"))


def grows(name: str) -> bool:
    """TensorBoard's event files: only their ends change, and readers take them as far as they go."""
    return ".tfevents." in PurePosixPath(name).name


def being_written(folder: Path) -> bool:
    """Whether an unfinished file, or one in an unfinished folder, changed in the last minute. Old ones were left by a
    run that was killed."""
    since = time.time() - EVERY_S
    for top, _, names in os.walk(folder):
        inside = not all(map(finished, Path(top).relative_to(folder).parts))
        for name in names:
            entry = _entry(Path(top, name)) if inside or not finished(name) else None
            if entry and entry.changed_ns > since * 1e9:
                return True
    return False


def entries(folder: Path) -> Entries:
    """The finished files by name, oldest first, so that a file that names others is copied after them. Raises OSError
    if a folder cannot be listed: os.walk would skip it, and its files would be deleted from the copy."""

    def refused(error: OSError) -> None:
        if not isinstance(error, FileNotFoundError) or Path(error.filename) == folder:  # others were deleted meanwhile
            raise error

    found = {}
    for top, below, names in os.walk(folder, onerror=refused):
        links = [name for name in below if Path(top, name).is_symlink()]
        below[:] = [name for name in below if finished(name) and name not in links]
        for name in filter(finished, (*names, *links)):
            own = Path(top, name).relative_to(folder).as_posix()
            if _is_key(own) and (entry := _entry(Path(top, name))):
                found[own] = entry
    return dict(sorted(found.items(), key=lambda each: each[1].changed_ns))


def _is_key(name: str) -> bool:
    """Keys in S3 are UTF-8: boto3 raises UnicodeEncodeError for others."""
    return not any("\ud800" <= letter <= "\udfff" for letter in name)


def left_out(folder: Path) -> str:
    """A line about the files that `entries` leaves out because of their names; "" if there are none."""
    every = (Path(top, name).relative_to(folder).as_posix() for top, _, names in os.walk(folder) for name in names)
    odd = sorted(name for name in every if not _is_key(name))
    if not odd:
        return ""
    which = f"{len(odd)} files, first {in_print(odd[0])}, are" if len(odd) > 1 else f"{in_print(odd[0])} is"
    return f"{which} not copied to S3: a name there is UTF-8; the other files are copied"


def _entry(path: Path) -> Entry | None:
    """None if it was renamed or deleted meanwhile, or is no file."""
    try:
        if path.is_symlink():
            return Entry(0, path.lstat().st_mtime_ns, os.readlink(path))
        status = path.stat()
        return Entry(status.st_size, status.st_mtime_ns) if path.is_file() else None
    except FileNotFoundError:
        return None


@dataclass
class Copy:
    """The copy in S3. Every method raises ChannelError with S3's message."""

    uri: str
    s3: Any = field(default_factory=s3_client)

    def key(self, name: str) -> str:
        return f"{bucket_and_key(self.uri)[1]}/{name}".lstrip("/")

    @property
    def bucket(self) -> str:
        return bucket_and_key(self.uri)[0]

    def read_list(self) -> tuple[str, Entries]:
        """Its id and its files; "" if there is no copy."""
        with s3_errors(self.uri):
            found = self.s3.list_objects_v2(Bucket=self.bucket, Prefix=self.key(LIST), MaxKeys=1).get("Contents")
            if not found:
                return "", {}
            read = json.loads(self.s3.get_object(Bucket=self.bucket, Key=self.key(LIST))["Body"].read())
        return read["id"], {name: Entry(*each) for name, each in read["files"].items()}

    def write_list(self, id_: str, files: Mapping[str, Entry]) -> None:
        written = {name: [each.size, each.changed_ns, each.link] for name, each in files.items()}
        with s3_errors(self.uri):
            body = json.dumps({"id": id_, "files": written}).encode()
            self.s3.put_object(Bucket=self.bucket, Key=self.key(LIST), Body=body)

    def put(self, path: Path, name: str) -> None:
        with s3_errors(f"{self.uri}/{name}"), path.open("rb") as file:
            self.s3.upload_fileobj(file, self.bucket, self.key(name))

    def get(self, name: str, to: Path) -> None:
        with s3_errors(f"{self.uri}/{name}"):
            self.s3.download_file(self.bucket, self.key(name), str(to))

    def delete(self, names: list[str]) -> None:
        """One by one: DeleteObjects reports failures only in its response, and raises nothing."""
        for name in names:
            with s3_errors(f"{self.uri}/{name}"):
                self.s3.delete_object(Bucket=self.bucket, Key=self.key(name))


class Sync:
    def __init__(self, folder: Path, copy: Copy, kept: Path) -> None:
        self.folder, self.copy, self.kept = folder, copy, kept
        self.id = ""
        self.copied: Entries = {}
        self._new_since: dict[str, float] = {}
        """When each file was first seen that is not in the copy, by time.monotonic()."""
        self._gone_since: dict[str, float] = {}
        """When each file was first missed that is in the copy."""

    def restore(self) -> str:
        """Restores all or nothing. Returns a line for the log; "" if nothing was restored."""
        self.id, self.copied = self.copy.read_list()
        if not self.id:
            return ""
        lost = ""
        if self.id in self._known() and not (lost := self._lost()):
            return ""
        partial = self.folder.with_name(f".{self.folder.name}.restored")
        _remove(partial)
        partial.mkdir(parents=True)
        for name, entry in self.copied.items():
            self._fetch(name, entry, partial / name)
        aside = self._put_aside()
        partial.rename(self.folder)
        self._know(self.id)
        why = f", because {self.folder} was {lost}" if lost else ", which another cluster wrote" if aside else ""
        kept = f"; {'what was unfinished in it' if lost else 'the previous state'} is in {aside}" if aside else ""
        return f"{len(self.copied)} files were restored from {self.copy.uri}{why}{kept}"

    def _lost(self) -> str:
        """How the folder lost the files of the list that this cluster wrote itself; "" if it did not. A program that
        deletes all of its files and is ended before the next copy looks the same, and gets them back: `step` would
        delete the only other copy."""
        if not self.copied:
            return ""
        if not os.path.lexists(self.folder):
            return "missing"
        return "empty" if self.folder.is_dir() and not entries(self.folder) else ""

    def _fetch(self, name: str, entry: Entry, path: Path) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        if entry.link is not None:
            path.symlink_to(entry.link)
            return
        self.copy.get(name, path)
        os.utime(path, ns=(entry.changed_ns, entry.changed_ns))

    def _put_aside(self) -> Path | None:
        """Renames what is in the folder, instead of deleting it."""
        if not self.folder.exists() or not any(self.folder.iterdir()):
            _remove(self.folder)
            return None
        name = f"{self.folder.name}-before-{os.environ['SLURM_JOB_ID']}"
        further = (f"{name}-{number}" for number in itertools.count(2))  # Slurm requeues a job with the same ID
        names = itertools.chain([name], further)
        aside = next(path for path in map(self.folder.with_name, names) if not os.path.lexists(path))
        self.folder.rename(aside)
        return aside

    def _known(self) -> list[str]:
        try:
            return list(json.loads(self.kept.read_text(encoding="utf-8")))
        except (OSError, ValueError):
            return []

    def _know(self, *ids: str) -> None:
        self.kept.write_text(json.dumps(ids) + "\n", encoding="utf-8")

    def clean(self) -> None:
        self.id, self.copied = self.copy.read_list()
        # the list first: if this is interrupted, the next run must not look for files that have been deleted
        self.copy.delete([LIST, *(name for name, entry in self.copied.items() if entry.link is None)])
        _remove(self.kept)

    def step(self, *, last: bool) -> bool:
        """Copies changed files, and deletes from the copy what has been replaced. The list is written after the files
        that it names, and before files that it no longer names are deleted. Returns whether anything was copied."""
        there = entries(self.folder)
        before = time.time_ns() - int(SETTLED_S * 1e9)
        changed = [name for name, each in there.items() if self.copied.get(name) != each]
        ready = [name for name in changed if last or grows(name) or there[name].changed_ns < before]
        done = {**self.copied, **{name: there[name] for name in ready if self._copy(name, there[name])}}
        gone = self._gone(there, done, last=last)
        for name in gone:
            del done[name]
        if done == self.copied:
            return False
        id_ = uuid.uuid4().hex
        self._know(id_, *filter(None, [self.id]))  # the list may arrive although the response is lost
        self.copy.write_list(id_, done)
        links = {name for name, entry in self.copied.items() if entry.link is not None}
        self.id, self.copied = id_, done
        self.copy.delete([name for name in gone if name not in links])
        return True

    def _gone(self, there: Entries, done: Entries, *, last: bool) -> list[str]:
        """What may be deleted from the copy: files that the program has deleted, once all that may replace them is in
        it. A program that keeps only its newest checkpoint must find one in the copy at every moment."""
        gone = [name for name in done if name not in there]
        seen, now = self._new_since, time.monotonic()
        self._new_since = {name: seen.get(name, now) for name in there if name not in done}
        coming = any(now - since < GROWING_S for since in self._new_since.values())
        self._gone_since = {name: self._gone_since.get(name, now) for name in gone}
        if gone and (coming or not (there or last) or being_written(self.folder)):
            kept = {name: entry for name, entry in done.items() if name in there}
            return [name for name in gone if _has_no_place(name, set(kept)) or self._is_replaced(name, kept)]
        return gone

    def _is_replaced(self, name: str, kept: Entries) -> bool:
        """Whether a file was deleted long ago, and a newer one is in the copy: an unfinished file may always change."""
        long_ago = time.monotonic() - self._gone_since[name] >= GROWING_S
        return long_ago and any(each.changed_ns > self.copied[name].changed_ns for each in kept.values())

    def _copy(self, name: str, entry: Entry) -> bool:
        """A file that changes meanwhile is copied again the next time; one that grows is in the copy all the same."""
        path = self.folder / name
        if entry.link is None:
            try:
                self.copy.put(path, name)
            except FileNotFoundError:
                return False
        return grows(name) or _entry(path) == entry


def _has_no_place(name: str, others: set[str]) -> bool:
    """Whether a file cannot be restored beside these: one of them is a folder of its name, or has a folder's name."""
    above = {parent.as_posix() for parent in PurePosixPath(name).parents}
    return bool(above & others) or any(each.startswith(f"{name}/") for each in others)


def _remove(path: Path) -> None:
    import shutil

    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)


def ignore_signals() -> None:
    """Slurm signals every process of a job while ranks still write."""
    import signal

    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGUSR1, signal.SIGUSR2):
        signal.signal(number, signal.SIG_IGN)


def filled(folder: Path) -> bool:
    """Waits for the first file: most jobs write no event files, and need no connection to S3. False if stdin closes
    before there is one."""
    over = False
    while not (found := folder.is_dir() and bool(entries(folder))) and not over:
        over = bool(select.select([sys.stdin], [], [], EVERY_S)[0])
    return found


WHAT = {"watch": ("state", "the state is"), "watch-events": ("tensorboard", "event files are")}
"""What is copied, as the log names it."""


def watch(sync: Sync, result: Path, verb: str = "watch") -> None:
    """Runs until stdin closes."""
    warned = last = begun = False
    label, what = WHAT[verb]
    while not last:
        last = bool(select.select([sys.stdin], [], [], EVERY_S)[0])
        try:
            if not begun:
                sync.id, sync.copied = sync.copy.read_list()
                begun = True
            sync.step(last=last)
            said = problem = left_out(sync.folder)
        except (ChannelError, OSError, ValueError) as error:
            problem = str(error)
            said = f"{what} not copied to S3: {problem}; the job continues, and tries again each minute"
        if problem and not warned:
            warned = True
            say(f"warning: {said}", label)
        _write_status(result, sync, problem or None)


def _write_status(result: Path, sync: Sync, problem: str | None) -> None:
    status = {"s3": sync.copy.uri, "files": len(sync.copied), "problem": problem}
    partial = result.with_name(f".{result.name}")
    try:
        partial.write_text(json.dumps(status) + "\n", encoding="utf-8")
        partial.replace(result)
    except OSError as error:
        say(f"warning: {result} could not be written: {error}")


def say(line: str, label: str = "state") -> None:
    print(f"[{label}] {line}", flush=True)


def main(arguments: list[str]) -> int:
    folder, uri, kept, result, verb = arguments
    try:
        if verb in WHAT:
            ignore_signals()
        if verb == "watch-events" and not filled(Path(folder)):
            return 0
        sync = Sync(Path(folder), Copy(uri), Path(kept))
        if verb == "restore":
            if done := sync.restore():
                say(done)
        elif verb == "clean":
            sync.clean()
        else:
            watch(sync, Path(result), verb)
    except (ChannelError, OSError, ValueError) as error:
        print(f"error: {error}", file=sys.stderr, flush=True)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
