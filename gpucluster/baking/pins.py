"""Pins baked AMIs for synthesis: in cdk.context.json, beside CDK's own look-ups.

An entry is for one account, region, base image and recipe. Another version of the steps, or a newer base image, needs
another entry: until an image of the new recipe is built, nodes boot the base image and install everything.
"""

from __future__ import annotations

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


@dataclass(frozen=True)
class Baking:
    """The properties that distinguish baked images."""

    account: str
    region: str
    base: str
    """An AMI's id."""
    recipe: str
    parts: str = ""
    """The builder's parts (`recipe.parts`); empty: any. Not in the key: a base has only one pinned image."""

    @property
    def key(self) -> str:
        return f"gpucluster-image:account={self.account}:base={self.base}:recipe={self.recipe}:region={self.region}"


def read(config_file: Path | str) -> dict[str, Any]:
    return cdk.pinned_for(config_file)


def find(entries: Mapping[str, Any], baking: Baking) -> str | None:
    """The baked AMI's id."""
    image_id: str | None = entries.get(baking.key)
    return image_id


def looked_up(entries: Mapping[str, Any], image: str, *, account: str, region: str) -> str | None:
    """The AMI for an image's name; None if CDK has not looked it up yet."""
    if image not in PUBLIC_PARAMETERS:
        return image
    image_id: str | None = entries.get(
        f"ssm:account={account}:parameterName={PUBLIC_PARAMETERS[image]}:region={region}"
    )
    return image_id


def current(entries: Mapping[str, Any], *, account: str, region: str, recipe: str) -> list[str]:
    """AMIs of the current steps, which launch templates may use."""
    found = ((_KEY.fullmatch(name), value) for name, value in entries.items())
    ours = (account, region, recipe)
    return [str(value) for match, value in found if match and match.group("account", "region", "recipe") == ours]


def pin(config_file: Path | str, baking: Baking, image_id: str) -> Path:
    """Writes the entry, replacing those of other recipes for that base. Returns the file, which the user commits."""
    path = cdk.context_beside(config_file)
    others = {name: value for name, value in cdk.pinned(path).items() if not _is_of(name, baking, base=baking.base)}
    return cdk.write_context(path, {**others, baking.key: image_id})


def forget(config_file: Path | str, *, account: str, region: str) -> list[str]:
    """Deletes all entries of an account in a region; returns their AMIs."""
    path = cdk.context_beside(config_file)
    entries = cdk.pinned(path)
    gone = [name for name in entries if _is_of(name, Baking(account, region, "", ""), base=None)]
    if gone:
        cdk.write_context(path, {name: value for name, value in entries.items() if name not in gone})
    return [str(entries[name]) for name in gone]


def _is_of(name: str, baking: Baking, *, base: str | None) -> bool:
    found = _KEY.fullmatch(name)
    if not found or (found["account"], found["region"]) != (baking.account, baking.region):
        return False
    return base in (None, found["base"])
