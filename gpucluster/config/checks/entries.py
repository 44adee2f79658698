"""The paths in cluster.yaml of the entries of a kind."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from typing import Any

from gpucluster.config.document import Path
from gpucluster.config.models import Budget, ClusterConfig, Monitoring, Network, S3Access, Security, Software
from gpucluster.config.nodes import HeadNode, ParameterServers, Partition
from gpucluster.config.scripts import Script
from gpucluster.config.section import NotValidated
from gpucluster.config.storage import DataRepository, FsxLustre, Mount
from gpucluster.config.users import User

SECTIONS: dict[type, str] = {
    Network: "network",
    HeadNode: "head_node",
    ParameterServers: "parameter_servers",
    Software: "software",
    Monitoring: "monitoring",
    Budget: "budget",
    Security: "security",
}
LISTS: dict[type, str] = {Partition: "partitions", S3Access: "s3_access", User: "users"}


def entries(config: ClusterConfig, kind: type) -> Iterator[tuple[Path, Any]]:
    """None if the section is missing or its list was refused."""
    with suppress(NotValidated):
        if kind is ClusterConfig:
            yield (), config
        elif kind in SECTIONS:
            section = getattr(config, SECTIONS[kind])
            if section is not None:
                yield (SECTIONS[kind],), section
        elif kind in LISTS:
            yield from _listed(LISTS[kind], getattr(config, LISTS[kind]))
        elif issubclass(kind, Mount):
            yield from (pair for pair in _listed("storage", config.storage) if isinstance(pair[1], kind))
        elif kind is DataRepository:
            yield from _repositories(config)
        elif kind is Script:
            yield from _scripts(config)
        else:
            raise TypeError(f"cluster.yaml has no entries of the kind {kind.__name__}")


def _listed(key: str, items: tuple[Any, ...]) -> Iterator[tuple[Path, Any]]:
    for index, item in enumerate(items):
        yield (key, index), item


def _scripts(config: ClusterConfig) -> Iterator[tuple[Path, Script]]:
    for kind in (HeadNode, Partition, ParameterServers):
        for path, nodes in entries(config, kind):
            with suppress(NotValidated):
                for index, script in enumerate(nodes.scripts):
                    yield (*path, "scripts", index), script


def _repositories(config: ClusterConfig) -> Iterator[tuple[Path, DataRepository]]:
    for path, storage in entries(config, FsxLustre):
        with suppress(NotValidated):
            for index, repository in enumerate(storage.data_repositories):
                yield (*path, "data_repositories", index), repository
