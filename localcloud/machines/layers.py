"""Machine images that were made from instances: the guest's changes, as a layer over the image that it had booted."""

from __future__ import annotations

import shutil
from collections.abc import Iterable
from pathlib import Path

from localcloud.machines.processes import MachineError, run

_ATTEMPTS = 3


class Layers:
    """One folder for each image; every other image id is only the base."""

    def __init__(self, folder: Path, base: Path) -> None:
        self._folder = folder
        self._base = base
        self._made: dict[str, tuple[Path, ...]] = {}
        shutil.rmtree(folder, ignore_errors=True)  # an earlier cloud's

    def of(self, image_id: str) -> tuple[Path, ...]:
        """Read-only folders, the topmost first, as overlayfs expects them."""
        return self._made.get(image_id, (self._base,))

    def make(self, image_id: str, written: Path, below: tuple[Path, ...]) -> None:
        """Makes an image from a guest's changes over `below`. Whiteouts and their marks stay, because they hide files
        below."""
        layer = self._folder / image_id
        for attempt in range(1, _ATTEMPTS + 1):
            shutil.rmtree(layer, ignore_errors=True)
            layer.mkdir(parents=True)
            try:
                run(["cp", "--archive", "--reflink=auto", f"{written}/.", str(layer)], timeout_s=600)
                break
            except MachineError:  # a running guest removes files meanwhile
                if attempt == _ATTEMPTS:
                    raise
        self._made[image_id] = (layer, *below)

    def remove(self, image_id: str, in_use: Iterable[Path]) -> None:
        """No new instance boots it; its files stay for instances that have, and for images made of them."""
        layers = self._made.pop(image_id, ())
        needed = {*in_use, *(layer for made in self._made.values() for layer in made)}
        for layer in layers:
            if layer != self._base and layer not in needed:
                shutil.rmtree(layer, ignore_errors=True)
