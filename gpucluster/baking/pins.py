"""Where a synthesis finds the AMI that was baked: in cdk.context.json, beside what CDK itself has looked up.

An entry is for one account, region, base image and recipe. Steps of another version, or a newer base image, are another
entry: then nodes boot the base again, and install, until an image of the new recipe is built.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from gpucluster.cluster import cdk
from gpucluster.config.checks.online.images import PUBLIC_PARAMETERS

_KEY = re.compile(
    r"gpucluster-image:account=(?P<account>\d+):base=(?P<base>[^:]+):recipe=(?P<recipe>\w+):region=(?P<region>[^:]+)"
)
_FILE = "cdk.context.json"


@dataclass(frozen=True)
class Baking:
    """What makes one baked image another than the next."""

    account: str
    region: str
    base: str
    """An AMI's id."""
    recipe: str
    parts: str = ""
    """Of its builder, as `recipe.parts` names them; empty: any will do. Not in the key: a base has one image pinned."""

    @property
    def key(self) -> str:
        return f"gpucluster-image:account={self.account}:base={self.base}:recipe={self.recipe}:region={self.region}"


def read(config_file: Path | str) -> dict[str, Any]:
    """All entries, CDK's own too. Those beside the cluster file are for it, and count before those of this project."""
    return {**cdk.pinned(cdk.context_file(Path(config_file))), **cdk.pinned(_beside(config_file))}


def find(entries: Mapping[str, Any], baking: Baking) -> str | None:
    """The baked AMI's id."""
    image_id: str | None = entries.get(baking.key)
    return image_id


def looked_up(entries: Mapping[str, Any], image: str, *, account: str, region: str) -> str | None:
    """The AMI that an image's name stands for; None where CDK has not looked it up yet."""
    if image not in PUBLIC_PARAMETERS:
        return image
    image_id: str | None = entries.get(
        f"ssm:account={account}:parameterName={PUBLIC_PARAMETERS[image]}:region={region}"
    )
    return image_id


def current(entries: Mapping[str, Any], *, account: str, region: str, recipe: str) -> list[str]:
    """AMIs of today's steps: those that launch templates may name."""
    found = ((_KEY.fullmatch(name), value) for name, value in entries.items())
    ours = (account, region, recipe)
    return [str(value) for match, value in found if match and match.group("account", "region", "recipe") == ours]


def pin(config_file: Path | str, baking: Baking, image_id: str) -> Path:
    """Writes the entry, in place of those of other recipes for that base. Returns the file: it is to be committed."""
    path = _beside(config_file)
    others = {name: value for name, value in cdk.pinned(path).items() if not _is_of(name, baking, base=baking.base)}
    return _write(path, {**others, baking.key: image_id})


def forget(config_file: Path | str, *, account: str, region: str) -> list[str]:
    """Takes away all entries of an account in a region; returns the AMIs that they named."""
    path = _beside(config_file)
    entries = cdk.pinned(path)
    gone = [name for name in entries if _is_of(name, Baking(account, region, "", ""), base=None)]
    if gone:
        _write(path, {name: value for name, value in entries.items() if name not in gone})
    return [str(entries[name]) for name in gone]


def _is_of(name: str, baking: Baking, *, base: str | None) -> bool:
    found = _KEY.fullmatch(name)
    if not found or (found["account"], found["region"]) != (baking.account, baking.region):
        return False
    return base in (None, found["base"])


def _beside(config_file: Path | str) -> Path:
    return Path(config_file).resolve().parent / _FILE


def _write(path: Path, entries: Mapping[str, Any]) -> Path:
    """As CDK writes it."""
    path.write_text(json.dumps(dict(sorted(entries.items())), indent=2) + "\n", encoding="utf-8")
    return path
