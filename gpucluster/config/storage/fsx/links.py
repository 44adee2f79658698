"""Rules about the links between an FSx file system and S3."""

from __future__ import annotations

from gpucluster.addresses import S3Uri
from gpucluster.config import construct_ids
from gpucluster.config.checks.names import LOGICAL_IDS
from gpucluster.config.document import Finding, Path
from gpucluster.config.models import ClusterConfig
from gpucluster.config.storage import DataRepository, FsxLustre
from gpucluster.config.storage.fsx.sizes import FSX
from gpucluster.config.validators import Findings, Validators

validator = Validators(FSX)

FSX_LINKS = "https://docs.aws.amazon.com/fsx/latest/APIReference/API_CreateDataRepositoryAssociation.html"
MOST_LINKS = 8
GUIDE = "https://docs.aws.amazon.com/fsx/latest/LustreGuide"


@validator("fsx-scratch-1-has-no-links", FSX_LINKS)
def fsx_scratch_1_has_no_links(storage: FsxLustre, path: Path, config: ClusterConfig) -> Findings:
    """A file system with data repositories is not scratch-1."""
    if storage.deployment == "scratch-1" and storage.data_repositories:
        yield Finding((*path, "data_repositories"), "scratch-1 cannot be linked to S3", "write deployment: scratch-2")


@validator("fsx-links-apart", f"{FSX_LINKS}: FileSystemPath")
def fsx_links_apart(storage: FsxLustre, path: Path, config: ClusterConfig) -> Findings:
    """No linked directory holds another."""
    paths = [repository.path.rstrip("/") + "/" for repository in storage.data_repositories]
    for index, later in enumerate(paths):
        for earlier in paths[:index]:
            if later.startswith(earlier) or earlier.startswith(later):
                place = (*path, "data_repositories", index, "path")
                yield Finding(
                    place,
                    f"{later.rstrip('/') or '/'} overlaps {earlier.rstrip('/') or '/'}",
                    "linked directories must not contain each other",
                )


@validator("fsx-links-have-own-names", f"{LOGICAL_IDS}: logical ids are alphanumeric and unique")
def links_have_own_names(storage: FsxLustre, path: Path, config: ClusterConfig) -> Findings:
    """Linked paths differ in more than . / - and the case of first letters: IDs in the template lack these."""
    if storage.lifetime == "jobs":  # the head node creates these links, so the template has no ids for them
        return
    first: dict[str, str] = {}
    for index, repository in enumerate(storage.data_repositories):
        id_ = construct_ids.of_repository(repository.path)
        other = first.setdefault(id_, repository.path)
        if other.rstrip("/") != repository.path.rstrip("/"):
            place = (*path, "data_repositories", index, "path")
            yield Finding(place, f"{repository.path} is too similar to {other}: both would get the ID {id_}")


@validator("fsx-links-count", f"{FSX_LINKS}: a maximum of 8")
def links_count(storage: FsxLustre, path: Path, config: ClusterConfig) -> Findings:
    """A file system has at most 8 data repositories."""
    count = len(storage.data_repositories)
    if count > MOST_LINKS:
        yield Finding(
            (*path, "data_repositories"),
            f"at most {MOST_LINKS} on one file system, got {count}",
            "link a common prefix, or add a second file system",
        )


@validator("fsx-links-differ", f"{FSX_LINKS}: a unique S3 bucket or prefix")
def links_differ(storage: FsxLustre, path: Path, config: ClusterConfig) -> Findings:
    """No two data repositories link the same S3 prefix."""
    seen: dict[S3Uri, int] = {}
    for index, repository in enumerate(storage.data_repositories):
        place = S3Uri.of(repository.s3)
        if place in seen:
            yield Finding(
                (*path, "data_repositories", index, "s3"),
                f"{repository.s3} is already linked by data_repositories[{seen[place]}]",
                "each needs its own bucket or prefix",
            )
        seen.setdefault(place, index)


@validator("fsx-link-path-length", f"{FSX_LINKS}: FileSystemPath, 4096")
def link_path_length(repository: DataRepository, path: Path, config: ClusterConfig) -> Findings:
    """A linked directory's path has at most 4096 characters."""
    if len(repository.path) > 4096:
        yield Finding((*path, "path"), f"must have at most 4096 characters, got {len(repository.path)}")


@validator(
    "fsx-link-path-plain", f"{FSX_LINKS}: FileSystemPath, a directory such as /ns1/subdir; man path_resolution.7"
)
def link_path_plain(repository: DataRepository, path: Path, config: ClusterConfig) -> Findings:
    """A linked directory's path names it plainly: without ., .. and empty parts."""
    parts = repository.path.strip("/").split("/")
    if repository.path.strip("/") and any(part in ("", ".", "..") for part in parts):
        yield Finding((*path, "path"), f"must not contain //, . or .., got {repository.path!r}")


@validator(
    "fsx-link-events-once",
    "https://docs.aws.amazon.com/fsx/latest/APIReference/API_AutoImportPolicy.html: Events, at most 3",
)
def link_events_once(repository: DataRepository, path: Path, config: ClusterConfig) -> Findings:
    """A data repository lists each event once."""
    for key, events in (("import", repository.import_), ("export", repository.export)):
        for index, event in enumerate(events):
            if event in events[:index]:
                yield Finding((*path, key, index), f"{event} is already in the list", "remove one of them")
