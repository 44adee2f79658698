"""The contents of this cloud's FSx and EFS file systems: folders of this machine, which transfers use while the cloud
runs.

API requests hold the cloud's lock, and so do reads and writes in S3. So requests never wait for a file: threads of this
module do everything that reads or writes files.
"""

from __future__ import annotations

import shutil
import sys
import threading
import time
import traceback
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path, PurePosixPath
from typing import Any

from localcloud.filesystems import records
from localcloud.filesystems.association import Association
from localcloud.filesystems.files import Files
from localcloud.filesystems.objects import Store

REST_S = 0.5
"""Pause between two looks at S3 and the files; several times the duration of a look, if that is longer."""
_AT_ONCE = 4
_USERS_MAY = ("state", "action", "restore")
"""Lustre's default of `hsm.user_request_mask`."""


class Contents:
    def __init__(self, folder: Path, store: Store) -> None:
        self.store = store
        self._folder = folder
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
        self._lustre: dict[str, Files] = {}
        self._associations: dict[str, dict[str, Association]] = {}
        self._under_way: dict[tuple[str, str], str] = {}
        self._pool = ThreadPoolExecutor(_AT_ONCE, thread_name_prefix="file-systems")
        self._end = threading.Event()
        self._syncer = threading.Thread(target=self._sync, name="associations", daemon=True)
        self._syncer.start()

    def make(self, system_id: str, *, lustre: bool) -> None:
        folder = self._folder / system_id
        (folder / "files").mkdir(parents=True)
        (folder / "files").chmod(0o755)
        if lustre:
            self._associations[system_id] = {}
            self._lustre[system_id] = Files(folder, self.store)

    def remove(self, system_id: str) -> None:
        associations = self._associations.pop(system_id, {})
        files = self._lustre.pop(system_id, None)

        def away() -> None:
            for association in associations.values():
                association.end()
            if files:
                files.close()
            shutil.rmtree(self._folder / system_id, ignore_errors=True)

        self._later(away)

    def root(self, system_id: str) -> Path:
        return self._folder / system_id / "files"

    def link(self, record: dict[str, Any]) -> None:
        """`record` becomes AVAILABLE after the requested import, and FAILED if it fails."""
        record["Lifecycle"] = "CREATING"

        def begin() -> None:
            try:
                files = self._lustre[record["FileSystemId"]]
                association = Association(files, record)
                if record.get("BatchImportMetaDataOnCreate"):
                    association.import_changes()
            except BaseException:
                record["Lifecycle"] = "FAILED"
                raise
            self._associations[record["FileSystemId"]][record["AssociationId"]] = association
            record["Lifecycle"] = "AVAILABLE"

        self._later(begin)

    def unlink(self, record: Mapping[str, Any], *, delete: bool) -> None:
        association = self._associations[record["FileSystemId"]].pop(record["AssociationId"], None)
        if association is None:
            return
        files = self._lustre[record["FileSystemId"]]

        def away() -> None:
            association.end()
            if delete:
                files.delete(association.folder)

        self._later(away)

    def associations(self, system_id: str) -> list[Association]:
        return list(self._associations.get(system_id, {}).values())

    def files(self, system_id: str) -> Files:
        return self._lustre[system_id]

    def _sync(self) -> None:
        rest_s = REST_S
        while not self._end.wait(rest_s):
            began = time.monotonic()
            for system_id in list(self._lustre):
                for association in self.associations(system_id):
                    _guarded(association.sync)
            rest_s = max(REST_S, 9 * (time.monotonic() - began))

    def _later(self, work: Callable[[], None]) -> None:
        self._pool.submit(_guarded, work)

    run = _later

    def ask(self, request: Mapping[str, Any], uid: int) -> dict[str, object]:
        """A request of a guest's `lfs`, for the file `path` in the file system named `mount_name`."""
        action, system_id, path = str(request["action"]), str(request["system"]), str(request["path"])
        if uid and action not in _USERS_MAY:
            raise PermissionError(1, "Operation not permitted")
        files = self._lustre.get(system_id)
        if files is None:
            raise FileNotFoundError(19, "No such device")
        place = files.root / path.strip("/")
        if ".." in PurePosixPath(path).parts or not place.is_relative_to(files.root):
            raise PermissionError(22, "Invalid argument")
        if not place.exists():
            raise FileNotFoundError(2, "No such file or directory")
        if action == "release":
            files.release(place)
        elif action in ("restore", "archive"):
            self._request(action, system_id, place)
        elif action not in ("state", "action"):
            raise OSError(95, "Operation not supported")
        under_way = self._under_way.get((system_id, str(place)), "NOOP")
        return {"flags": records.state(place), "under_way": under_way}

    def _request(self, action: str, system_id: str, place: Path) -> None:
        files, key = self._lustre[system_id], (system_id, str(place))

        def act() -> None:
            try:
                if action == "restore":
                    files.restore(str(place))
                elif records.state(place) in (0, records.EXISTS | records.ARCHIVED | records.DIRTY):
                    self._archive(system_id, place)
            finally:
                self._under_way.pop(key, None)

        self._under_way[key] = action.upper()
        self._later(act)

    def _archive(self, system_id: str, place: Path) -> None:
        """A file outside of every association stays as it is, because it has no place in S3."""
        for association in self.associations(system_id):
            if place.is_relative_to(association.folder):
                association.export(str(place.relative_to(association.folder)))

    def close(self) -> None:
        self._end.set()
        self._syncer.join()
        self._pool.shutdown(cancel_futures=True)
        for files in self._lustre.values():
            files.close()
        shutil.rmtree(self._folder, ignore_errors=True)


def _guarded(work: Callable[[], None]) -> None:
    """Errors go to the cloud's log, and the thread continues."""
    try:
        work()
    except Exception:  # noqa: BLE001
        traceback.print_exc(file=sys.stderr)
