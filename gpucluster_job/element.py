"""The start of an array's element: creates its working directory, and fills in its values of a sweep."""

from __future__ import annotations

import json
import os
import re
from contextlib import suppress
from pathlib import Path

from gpucluster_job.settings import Settings


def enter(settings: Settings, command: list[str]) -> list[str]:
    """Returns the command with this element's values; for a job that is no array, the command itself."""
    if settings.folder == settings.root:
        return command
    _own_workdir(settings.root / "code", settings.folder / "code")
    values: dict[str, str] = json.loads((settings.folder / "parameters.json").read_text(encoding="utf-8"))
    for name, value in values.items():
        os.environ["GPUCLUSTER_SWEEP_" + re.sub(r"[^A-Z0-9]", "_", name.upper())] = value
    return [_filled_in(word, values) for word in command]


def _own_workdir(shared: Path, own: Path) -> None:
    """Links to everything in the array's working directory. Files that the program creates belong to the element:
    elements do not overwrite each other's checkpoints, and nothing is copied."""
    own.mkdir(exist_ok=True)
    for each in shared.iterdir():
        with suppress(FileExistsError):  # a requeued element already has it
            (own / each.name).symlink_to(Path("..", "..", "code", each.name))
    os.chdir(own)
    os.environ["PWD"] = str(own)


def _filled_in(word: str, values: dict[str, str]) -> str:
    """In one pass: a value may look like another's name."""
    if not values:
        return word
    names = "|".join(re.escape(name) for name in values)
    return re.sub(r"\{(" + names + r")\}", lambda match: values[match[1]], word)
