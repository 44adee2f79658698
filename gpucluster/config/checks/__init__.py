"""Rules across keys. All are offline except the modules in ONLINE.

A rule is a generator of findings. If it reads a value that was already refused, it stops (NotValidated) and the
others continue, so each rule checks one thing. To add one: write it in the file of its section, under `@validator`,
with a case in tests/unit/config/validator_cases that passes and one that fails.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import suppress
from functools import cache
from importlib import import_module
from itertools import chain
from typing import Any

from gpucluster.config import storage
from gpucluster.config.checks.entries import entries
from gpucluster.config.checks.silence import Outcome, misused, sort_out
from gpucluster.config.document import Finding
from gpucluster.config.limits import register_limits
from gpucluster.config.models import ClusterConfig
from gpucluster.config.section import NotValidated
from gpucluster.config.validators import VALIDATORS, Unanswered, Validator

OFFLINE = (
    "accounting",
    "budget",
    "cluster",
    "efa",
    "head",
    "images",
    "internet",
    "limits",
    "monitoring",
    "mounts",
    "names",
    "network",
    "partitions",
    "placement",
    "purchase",
    "root_volume",
    "s3",
    "s3_access",
    "scripts",
    "security",
    "slurm_lines",
    "software",
    "ssh",
    "tags",
    "users",
)
"""The modules of this folder with offline validators."""

STORAGE = (
    "beegfs.checks",
    "beegfs.jobs",
    "ebs.checks",
    "existing.checks",
    "fsx.checks",
    "fsx.lifetime",
    "fsx.links",
    "fsx.sizes",
)
"""The modules with offline validators in gpucluster/config/storage."""

ONLINE: tuple[str, ...] = (
    "online.buckets",
    "online.connect",
    "online.costs",
    "online.databases",
    "online.exists",
    "online.file_systems",
    "online.images",
    "online.keys",
    "online.lustre_client",
    "online.network",
    "online.quotas",
    "online.reservations",
    "online.routes",
    "online.snapshots",
    "online.volumes",
    "online.zones",
)
"""The modules whose validators call AWS. They are imported to run them, or for their names (`silence`, docs)."""


UNCHECKED = "could not be checked"


def check(config: ClusterConfig) -> Outcome:
    """The findings of all offline validators. Those of single fields ran when the file was read."""
    _import(OFFLINE)
    _import(_of_kinds(config), storage.__name__)
    found = [finding for validator in _needing("nothing") for finding in findings(validator, config)]
    if config.__dict__.get("silence"):
        found += misused(config, every())
    return sort_out(config, found)


def _of_kinds(config: ClusterConfig) -> tuple[str, ...]:
    """The rules of the kinds of storage in the file: the rules of other kinds have nothing to check."""
    rooms = {type(each).__module__.rpartition(".")[2] for each in config.__dict__.get("storage", ())}
    return tuple(module for module in STORAGE if module.partition(".")[0] in rooms)


def check_online(config: ClusterConfig, clients: Any) -> Outcome:
    """The findings of the validators that call AWS; `clients` is passed to each. Only for a config without errors."""
    _import(ONLINE)
    return sort_out(config, [each for validator in _needing("aws") for each in findings(validator, config, clients)])


@cache
def every() -> Mapping[str, Validator]:
    _import(OFFLINE)
    _import(STORAGE, storage.__name__)
    _import(ONLINE)
    register_limits(ClusterConfig)
    return VALIDATORS


def findings(validator: Validator, config: ClusterConfig, *clients: Any) -> Iterator[Finding]:
    assert validator.rule
    for path, entry in chain.from_iterable(entries(config, kind) for kind in validator.each):
        place = (path, config) if path else ()
        with suppress(NotValidated):
            try:
                for finding in validator.rule(entry, *place, *clients):
                    yield finding._replace(level=validator.level, validator=validator.name)
            except Unanswered as reason:
                yield Finding(path, f"{UNCHECKED}: {reason}", reason.hint, "warning", validator=validator.name)


def _needing(needs: str) -> list[Validator]:
    return [validator for validator in VALIDATORS.values() if validator.rule and validator.needs == needs]


def _import(modules: tuple[str, ...], folder: str = __name__) -> None:
    for name in modules:
        import_module(f"{folder}.{name}")
