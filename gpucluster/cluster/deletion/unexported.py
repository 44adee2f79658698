"""Files that would be lost with a deleted file system: files in linked folders that are not in S3."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from gpucluster.config import ClusterConfig
from gpucluster.errors import RemoteError, UsageError
from gpucluster.head.remote import Remote

PROGRAM = ("sudo", "-n", "/opt/gpucluster/bin/node-program", "lustre.unexported")
TIMEOUT_S = 24 * 3600.0
HINT = "`gpucluster down --export` exports them first, `--discard` deletes them"


@dataclass(frozen=True)
class Folder:
    path: str
    files: int
    not_exported: int
    first: tuple[str, ...]

    def sentence(self) -> str:
        return f"{self.not_exported} of {self.files} files of {self.path} are not in S3, such as {self.first[0]}"


def may_lose(config: ClusterConfig) -> bool:
    """Whether deleting the cluster deletes a file system that is linked to S3."""
    return any(each.deleted_with_cluster and each.data_repositories for each in config.lustre)


def find(remote: Remote, *, export: bool) -> list[Folder]:
    """The cluster's linked folders with files that are not in S3. Raises RemoteError."""
    done = remote.run([*PROGRAM, *(["--export"] if export else [])], timeout_s=TIMEOUT_S)
    text = done.check("cannot list the files that exist only on Lustre").stdout
    try:
        found = [
            Folder(each["path"], each["files"], each["not_exported"], tuple(each["first"])) for each in json.loads(text)
        ]
    except (ValueError, KeyError, TypeError) as error:
        raise RemoteError(f"cannot list the files that exist only on Lustre: {error}") from None
    return [each for each in found if each.not_exported]


def deleted(folders: Sequence[Folder], config: ClusterConfig) -> Iterator[Folder]:
    """The file systems that are deleted with the cluster."""
    kept = [each.mount for each in config.lustre if not each.deleted_with_cluster]
    return (each for each in folders if not any(each.path.startswith(f"{mount}/") for mount in kept))


def refusal(folders: Sequence[Folder], config: ClusterConfig) -> UsageError:
    """A file system with `lifetime: jobs` may also have files outside its linked folders."""
    mounts = [each.mount for each in config.lustre_with_jobs]
    outside = [each.path for each in folders if each.path in mounts]
    more = f"; first move the files of {' and '.join(outside)} that are in no linked folder into one" if outside else ""
    return UsageError("; ".join(each.sentence() for each in folders), HINT + more)
