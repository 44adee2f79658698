"""The files of one Lustre file system on this machine, and their transfers from and to S3."""

from __future__ import annotations

import os
import shutil
import stat
import tempfile
import threading
from dataclasses import replace
from pathlib import Path

from localcloud.filesystems import posix, records
from localcloud.filesystems.first_read import FirstRead
from localcloud.filesystems.objects import NotExported, Object, Repository, Store
from localcloud.filesystems.records import Record, Signature


class Files:
    """`root` is what clients mount. Methods may be called from any thread that does not hold the cloud's lock."""

    def __init__(self, folder: Path, store: Store) -> None:
        self.root = folder / "files"
        self._arriving = folder / "arriving"
        self.store = store
        self.lock = threading.RLock()
        for each in (self.root, self._arriving):
            each.mkdir(parents=True, exist_ok=True)
            each.chmod(0o755)
        self._first_read = FirstRead(self.restore)

    def close(self) -> None:
        self._first_read.close()

    def lay(self, path: Path, found: Object, repository: Repository, relative: str) -> None:
        """Creates the file with the object's metadata; opening it first imports its content. Raises OSError."""
        with self.lock:
            self.make_folders(path.parent)
            if stat.S_ISDIR(found.attributes.mode):
                path.mkdir(exist_ok=True)
                self._mark_as(path, found, repository.uri(relative))
                return
            with tempfile.TemporaryDirectory(dir=self._arriving) as arriving:
                new = Path(arriving, "file")
                if stat.S_ISLNK(found.attributes.mode):
                    new.symlink_to(os.fsdecode(repository.read(relative)))
                    self._mark_as(new, found, repository.uri(relative))
                else:
                    new.touch()
                    os.truncate(new, found.size)
                    self._mark_as(new, found, repository.uri(relative), released=True)
                new.rename(path)

    def _mark_as(self, path: Path, found: Object, uri: str, *, released: bool = False) -> None:
        found.attributes.apply(path)
        now = os.lstat(path)
        records.save(path, Record(now.st_ino, uri, Signature.of(now), released))
        if released and self._first_read.works:
            self._first_read.watch(path)
        elif released:
            self.restore(str(path))

    def make_folders(self, path: Path) -> None:
        """Directories without an object; they are exported only after somebody changes them."""
        if path.is_dir():
            return
        self.make_folders(path.parent)
        path.mkdir()
        path.chmod(posix.DEFAULT_PERMISSIONS)
        records.save(path, Record(path.stat().st_ino, "", Signature.of(path.stat())))

    def restore(self, path: str) -> None:
        """Imports the content of a released file. Raises FileNotFoundError if the object has been deleted."""
        with self.lock:
            record = records.load(path)
            if record is None or not record.released:
                return
            before, signature = os.stat(path), record.signature
            if before.st_size == signature.size:  # otherwise a client has truncated it, and needs no content
                signature = replace(signature, size=self._fetch(record.uri, path))
                os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))
            records.save(path, Record(record.inode, record.uri, signature))
            self._first_read.leave(path)

    def _fetch(self, uri: str, path: str) -> int:
        content = self.store.read(uri)
        with open(path, "r+b") as file:
            file.write(content)
            return file.truncate()

    def release(self, path: Path) -> int:
        """Returns the number of freed bytes. Raises PermissionError if the file's current content is not in S3."""
        with self.lock:
            if records.state(path) != records.EXISTS | records.ARCHIVED:
                raise PermissionError(1, "Operation not permitted", str(path))
            record, held = records.load(path), os.stat(path).st_blocks * 512
            if record is None or not self._first_read.works:
                return 0
            os.truncate(path, 0)
            os.truncate(path, record.signature.size)
            os.utime(path, ns=(os.stat(path).st_atime_ns, record.signature.mtime_ns))
            records.save(path, Record(record.inode, record.uri, record.signature, released=True))
            self._first_read.watch(path)
            return held

    def export(self, path: Path, repository: Repository, relative: str) -> str:
        """Returns the identity of its current object in S3. Raises NotExported, OSError."""
        with self.lock:
            found, record = os.lstat(path), records.load(path)
            name = relative + "/" * stat.S_ISDIR(found.st_mode)
            made = repository.write(name, self._content(path, found, record), posix.describe(found))
            released = record is not None and record.released
            records.save(path, Record(found.st_ino, repository.uri(name), Signature.of(found), released))
            return made.ident

    def _content(self, path: Path, found: os.stat_result, record: Record | None) -> bytes:
        if stat.S_ISDIR(found.st_mode):
            return b""
        if stat.S_ISLNK(found.st_mode):
            return os.fsencode(path.readlink())
        if not stat.S_ISREG(found.st_mode):
            raise NotExported("it is neither file nor directory nor link")
        if record and record.released:
            return self.store.read(record.uri)
        return path.read_bytes()

    def remove(self, path: Path) -> None:
        """Deletes what S3 no longer has; a directory only if it is empty, and nothing that clients have changed
        meanwhile."""
        with self.lock:
            if path.is_dir() and not path.is_symlink():
                if not any(path.iterdir()):
                    path.rmdir()
            elif path.is_symlink() or not records.state(path) & records.DIRTY:
                path.unlink(missing_ok=True)

    def delete(self, folder: Path) -> None:
        """A whole directory's content."""
        with self.lock:
            for each in folder.iterdir():
                shutil.rmtree(each) if each.is_dir() and not each.is_symlink() else each.unlink()
