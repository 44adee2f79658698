"""The contexts of this user, in a file: for each cluster its address and the facts that `context add` found."""

from __future__ import annotations

import json
import os
import re
from dataclasses import asdict, dataclass
from typing import Any

from gpucluster.contexts import file
from gpucluster.contexts.probe import Facts, Kind, Partition
from gpucluster.errors import UsageError
from gpucluster.head.login import Address, LoginRemote
from gpucluster.layout import Site
from gpucluster.meant import did_you_mean

FOLDER = "gpucluster"
"""The default folder for jobs, in the user's home on the cluster. It is not called jobs, because a user may have such a
folder."""


@dataclass(frozen=True)
class Context:
    name: str
    address: str
    folder: str
    """The folder on the cluster that contains a folder for each job."""
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
    """The context of verbs without --context; empty: they use the cluster file."""

    def get(self, name: str) -> Context:
        """Raises UsageError."""
        if name not in self.known:
            none = "`gpucluster context add NAME ssh://LOGIN` adds one"
            listed = f"known: {', '.join(self.known)}" if self.known else none
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
        target = file.path()
        target.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        new = target.with_suffix(".new")
        new.write_text(json.dumps(data, indent=2) + "\n", encoding="utf-8")
        os.replace(new, target)


def read() -> Contexts:
    """Raises UsageError for a file that cannot be read."""
    data = file.load()
    try:
        found = {name: _read(name, each) for name, each in data.get("contexts", {}).items()}
        return Contexts(found, data.get("current", ""))
    except (KeyError, TypeError, AttributeError) as error:
        raise file.unreadable(error) from None


def check_name(name: str) -> str:
    """Raises UsageError."""
    if not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9_-]{0,39}", name):
        raise UsageError(f"{name!r} cannot be a context's name: allowed are letters, digits, hyphens and underscores")
    return name


def _written(context: Context) -> dict[str, Any]:
    return {"address": context.address, "folder": context.folder, "facts": asdict(context.facts)}


def _read(name: str, data: dict[str, Any]) -> Context:
    facts = dict(data["facts"])
    listed = facts.pop("partitions")
    found = tuple(Partition(each["name"], tuple(Kind(*kind) for kind in each["kinds"])) for each in listed)
    return Context(name, data["address"], data["folder"], Facts(**facts, partitions=found))
