"""The contexts of this user: a file with what `context add` has found out about each cluster."""

from __future__ import annotations

import json
import os
import re
from dataclasses import asdict, dataclass
from typing import Any

from gpucluster.contexts import place
from gpucluster.contexts.probe import Facts, Kind, Partition
from gpucluster.errors import UsageError
from gpucluster.head.login import Address, LoginRemote
from gpucluster.layout import Site
from gpucluster.meant import did_you_mean

FOLDER = "gpucluster"
"""Below the user's home there: users keep folders named jobs of their own."""


@dataclass(frozen=True)
class Context:
    name: str
    address: str
    folder: str
    """On the cluster, where job folders lie."""
    facts: Facts

    @property
    def site(self) -> Site:
        return Site(self.folder, self.facts.pyxis)

    def remote(self) -> LoginRemote:
        return LoginRemote(self.name, Address.parse(self.address), self.site, self.facts.programs)


@dataclass
class Contexts:
    known: dict[str, Context]
    current: str = ""
    """The one that verbs use where none is named; empty: the cluster file's cluster."""

    def get(self, name: str) -> Context:
        """Raises UsageError."""
        if name not in self.known:
            listed = f"known: {', '.join(self.known)}" if self.known else "`gpucluster context add` makes one"
            raise UsageError(f"there is no context {name!r}", did_you_mean(name, [*self.known], listed))
        return self.known[name]

    def add(self, context: Context) -> None:
        self.known[context.name] = context

    def remove(self, name: str) -> Context:
        """Raises UsageError."""
        self.get(name)
        self.current = "" if self.current == name else self.current
        return self.known.pop(name)

    def save(self) -> None:
        data = {"current": self.current, "contexts": {name: _written(each) for name, each in self.known.items()}}
        target = place.path()
        target.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        new = target.with_suffix(".new")
        new.write_text(json.dumps(data, indent=2) + "\n", encoding="utf-8")
        os.replace(new, target)


def read() -> Contexts:
    """Raises UsageError for a file that cannot be read."""
    data = place.load()
    try:
        found = {name: _read(name, each) for name, each in data.get("contexts", {}).items()}
        return Contexts(found, data.get("current", ""))
    except (KeyError, TypeError, AttributeError) as error:
        raise place.unreadable(error) from None


def check_name(name: str) -> str:
    """Raises UsageError."""
    if not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9_-]{0,39}", name):
        raise UsageError(f"{name!r} cannot be a context's name: allowed are letters, digits, hyphens and underscores")
    return name


def _written(context: Context) -> dict[str, Any]:
    return {"address": context.address, "folder": context.folder, "facts": asdict(context.facts)}


def _read(name: str, data: dict[str, Any]) -> Context:
    told = dict(data["facts"])
    listed = told.pop("partitions")
    found = tuple(Partition(each["name"], tuple(Kind(*kind) for kind in each["kinds"])) for each in listed)
    return Context(name, data["address"], data["folder"], Facts(**told, partitions=found))
