"""The transfers of one data repository association: imports changes in S3, and exports changes in the directory."""

from __future__ import annotations

import os
import stat
import sys
import threading
from collections.abc import Iterator, Mapping, Set
from typing import Any

from localcloud.filesystems import records
from localcloud.filesystems.files import Files
from localcloud.filesystems.objects import NotExported, Object
from localcloud.filesystems.records import Signature


class Association:
    """`known`: S3's version of each path when the two were last the same."""

    def __init__(self, files: Files, record: Mapping[str, Any]) -> None:
        self._files = files
        self._record = record  # as FSx shows it, with the current policies
        self.folder = files.root / str(record["FileSystemPath"]).strip("/")
        self.repository = files.store.repository(str(record["DataRepositoryPath"]))
        self._turn = threading.RLock()
        self._ended = False
        self._known: dict[str, str] = {}
        self._unsettled: dict[str, Signature] = {}
        self._refused: dict[str, Signature] = {}
        files.make_folders(self.folder)

    def _events(self, policy: str) -> tuple[str, ...]:
        return tuple(((self._record.get("S3") or {}).get(policy) or {}).get("Events") or ())

    def sync(self) -> None:
        """Runs once. A changed file is exported when it has not changed between two calls."""
        with self._turn:
            if self._ended:
                return
            if events := self._events("AutoImportPolicy"):
                self.import_changes(events)
            if events := self._events("AutoExportPolicy"):
                self._export_changes(events)

    def end(self) -> None:
        """Returns when no transfer is running. Files that are deleted afterwards stay in S3."""
        with self._turn:
            self._ended = True

    def import_changes(self, events: tuple[str, ...] = ("NEW", "CHANGED"), below: str = "") -> tuple[int, int]:
        """How many objects were imported, and how many could not be. `below`: a directory, relative."""
        with self._turn:
            there = self.repository.list()
            news = [path for path in sorted(there) if self._event(path, there[path]) in events]
            taken = [self._take(path, there[path]) for path in news if is_below(path, below)]
            if "DELETED" in events:
                self._take_away(self._known.keys() - there.keys())
            return taken.count(True), taken.count(False)

    def _event(self, path: str, found: Object) -> str | None:
        known = self._known.get(path)
        return "NEW" if known is None else "CHANGED" if known != found.ident else None

    def _take_away(self, paths: Set[str]) -> None:
        for path in sorted(paths, reverse=True):  # a directory comes before its contents
            self._files.remove(self.folder / path)
            del self._known[path]

    def _take(self, path: str, found: Object) -> bool:
        """False if it cannot be imported; changes by clients that are not in S3 yet stay."""
        place = self.folder / path
        try:
            with self._files.lock:
                if not (place.is_file() and records.state(place) & records.DIRTY):
                    self._files.lay(place, found, self.repository, path)
        except (OSError, ValueError) as error:  # the second: metadata in another form than FSx's
            _say(f"{self.repository.uri(path)} was not imported: {error}")
            return False
        finally:
            self._known[path] = found.ident
        return True

    def _export_changes(self, events: tuple[str, ...]) -> None:
        seen = set()
        for path, event, signature in self.changes():
            if event in events and self._unsettled.get(path) == signature and self._refused.get(path) != signature:
                self.export(path)
            self._unsettled[path] = signature
            seen.add(path)
        self._unsettled = {path: kept for path, kept in self._unsettled.items() if path in seen}
        if "DELETED" in events:
            self._export_deletions()

    def _export_deletions(self) -> None:
        for path in [each for each in self._known if not os.path.lexists(f"{self.folder}/{each}".rstrip("/"))]:
            self.repository.delete(path)
            del self._known[path]

    def changes(self, below: str = "") -> Iterator[tuple[str, str, Signature]]:
        """Path, NEW or CHANGED, and its current state: everything whose current state is not in S3."""
        for path in self.paths(below):
            try:
                place = f"{self.folder}/{path}"  # creating a Path for each of many files would take most of the time
                record, found = records.load(place), Signature.of(os.lstat(place))
            except OSError:  # deleted meanwhile
                continue
            if record is None or record.signature != found:
                yield path, "CHANGED" if record else "NEW", found

    def paths(self, below: str = "") -> Iterator[str]:
        """The paths of everything in the directory, relative."""
        start = self.folder / below
        if below and (start.is_symlink() or not start.is_dir()):
            yield from [below] if os.path.lexists(start) else []
            return
        for folder, folders, files in os.walk(start):
            for name in sorted([*folders, *files]):
                yield os.path.join(folder, name)[len(str(self.folder)) + 1 :]

    def export(self, path: str) -> str | None:
        """Why it is not in S3; None if it is."""
        place, signature = self.folder / path, None
        try:
            with self._turn:
                signature = Signature.of(os.lstat(place))
                key = path + "/" * stat.S_ISDIR(signature.mode)
                self._known[key] = self._files.export(place, self.repository, path)
        except (NotExported, OSError) as error:
            if signature:
                self._refused[path] = signature
            _say(f"{self._record['FileSystemPath']}/{path} was not exported: {error}")
            return str(error)
        self._refused.pop(path, None)
        return None


def is_below(path: str, folder: str) -> bool:
    return not folder or path.rstrip("/") == folder or path.startswith(folder.rstrip("/") + "/")


def _say(line: str) -> None:
    print(f"fsx: {line}", file=sys.stderr, flush=True)
