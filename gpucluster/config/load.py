"""cluster.yaml to ClusterConfig, or every problem at once.

Two passes. The first validates the file as it is. If it finds faults, the second validates it again with the faulty
values taken out (a place holder stands for each), so that the checks across keys still run on everything that is sound:
a partition with one wrong value and one impossible combination shows both.
"""

from __future__ import annotations

import typing
from collections.abc import Iterable
from copy import deepcopy
from dataclasses import replace
from pathlib import Path as FilePath
from typing import Any

from pydantic import BaseModel, ValidationError

from gpucluster.config.checks import check
from gpucluster.config.checks.silence import Outcome
from gpucluster.config.document import Document, Finding, Path
from gpucluster.config.limits import name_of
from gpucluster.config.models import ClusterConfig
from gpucluster.config.section import REFUSED, Section
from gpucluster.config.storage import TYPES
from gpucluster.config.wording import finding as worded
from gpucluster.errors import ConfigError, Notice


def load(path: str | FilePath) -> ClusterConfig:
    """Raises ConfigError with every problem of the file."""
    return loads(_text(str(path)), str(path))


def loads(text: str, file: str = "cluster.yaml") -> ClusterConfig:
    """`file` is the name that the messages show. Raises ConfigError."""
    from gpucluster.config.parse import parse

    document = parse(text, file)
    if document.data is None:
        raise ConfigError(document.problems or [_whole(file, "is empty", "`gpucluster init` writes a commented one")])
    config, outcome = _validate(document.data)
    notices = [*document.problems, *map(document.notice, outcome.findings)]
    if config is None or any(notice.level == "error" for notice in notices):
        raise ConfigError(sorted(notices, key=lambda notice: (notice.line, notice.column)))
    config._document = document
    config._warnings = tuple(map(document.notice, outcome.findings))
    config._silenced = tuple(map(document.notice, outcome.silenced))
    return config


def _validate(data: Any) -> tuple[ClusterConfig | None, Outcome]:
    """The findings, warnings among them; and the config, of which only sound values can be read if there are errors."""
    try:
        config = ClusterConfig.model_validate(data)
    except ValidationError as error:
        faults = _faults(error)
        partial = _without_faults(data, faults)
        outcome = check(partial) if partial else Outcome()
        return partial, Outcome((*map(_finding, faults), *outcome.findings), outcome.silenced)
    return config, check(config)


def _text(file: str) -> str:
    try:
        return FilePath(file).read_text(encoding="utf-8")
    except FileNotFoundError:
        problem = _whole(
            file, "no such file", "`gpucluster init` writes a commented cluster.yaml; -c names another file"
        )
    except UnicodeDecodeError as error:
        problem = _whole(file, f"is not UTF-8 text: byte {error.start} is 0x{error.object[error.start]:02x}")
    except (OSError, ValueError) as error:
        problem = _whole(file, f"cannot be read: {getattr(error, 'strerror', None) or error}")
    raise ConfigError([problem])


def _whole(file: str, message: str, hint: str | None = None) -> Notice:
    return Document(file).notice(Finding((), message, hint))


def _finding(fault: Any) -> Finding:
    path, section = _place(fault["loc"])
    allowed = [field.alias or name for name, field in section.model_fields.items()]
    if fault["type"] == "union_tag_not_found":
        allowed = list(TYPES.values())
    finding = worded(fault, path, allowed)
    return replace(finding, validator=finding.validator or name_of(fault["type"], finding.path, ClusterConfig))


def _place(loc: Iterable[str | int]) -> tuple[Path, type[BaseModel]]:
    """Where in the file pydantic's `loc` is, and the section around it. `loc` also names members of unions."""
    path: Path = ()
    candidates: list[type[BaseModel]] = [ClusterConfig]
    section: type[BaseModel] = ClusterConfig
    for part in loc:
        tagged = [model for model in candidates if len(candidates) > 1 and part in _tags(model)]
        if tagged:
            candidates = tagged
            continue
        path = (*path, part)
        if isinstance(part, str):
            section = candidates[0] if candidates else section
            candidates = _sections(_annotations(section).get(part))
    return path, section


def _annotations(section: type[BaseModel]) -> dict[str, Any]:
    return {field.alias or name: field.annotation for name, field in section.model_fields.items()}


def _tags(section: type[BaseModel]) -> tuple[Any, ...]:
    return typing.get_args(_annotations(section).get("type"))


def _sections(annotation: Any) -> list[type[BaseModel]]:
    """The models inside an annotation such as `tuple[Annotated[A | B, …], ...]`."""
    if isinstance(annotation, type) and issubclass(annotation, Section):
        return [annotation]
    return [section for part in typing.get_args(annotation) for section in _sections(part)]


def _faults(error: ValidationError) -> list[Any]:
    """Pydantic counts the sound entries of a list only, and calls one too short that has none."""
    return [fault for fault in error.errors() if not (fault["type"] == "too_short" and fault["input"])]


def _without_faults(data: Any, faults: list[Any]) -> ClusterConfig | None:
    """None where too little is left: the file is not a mapping."""
    if not isinstance(data, dict):
        return None
    sound = deepcopy(data)
    for fault in faults:
        _take_out(sound, _place(fault["loc"])[0], remove=fault["type"] == "extra_forbidden")
    config = ClusterConfig.model_validate(sound)
    _strip(config)
    return config


LISTS_WITH_GAPS = ("partitions", "storage", "instance_types", "s3_access")
"""Lists whose other entries are still checked when one is refused; any other list is refused with its entry."""


def _take_out(data: Any, path: Path, *, remove: bool) -> None:
    if isinstance(path[-1], int) and path[-2] not in LISTS_WITH_GAPS:
        path = path[:-1]
    for part in path[:-1]:
        data = data[part]
        if data is REFUSED:
            return
    if remove:
        data.pop(path[-1], None)
    else:
        data[path[-1]] = REFUSED


def _strip(value: Any) -> None:
    """Drop the place holders from the models, so that reading one raises NotValidated."""
    if isinstance(value, tuple):
        for item in value:
            _strip(item)
    if isinstance(value, Section):
        for name, field in list(value.__dict__.items()):
            if field is REFUSED:
                del value.__dict__[name]
            else:
                _strip(field)
