"""Reads cluster.yaml into a ClusterConfig, or raises every problem at once.

Two passes. The first validates the file as it is. If it finds errors, the second validates it again with a
placeholder for each invalid value, so that the rules across keys still check the valid ones: for a partition with an
invalid value and an impossible combination, both are reported.
"""

from __future__ import annotations

import typing
from collections.abc import Iterator
from copy import deepcopy
from functools import reduce
from operator import getitem
from pathlib import Path as FilePath
from typing import Any

from pydantic import BaseModel, ValidationError

from gpucluster.config.checks import check
from gpucluster.config.checks.silence import Outcome
from gpucluster.config.document import Document, Finding, Path
from gpucluster.config.foreign import recognized
from gpucluster.config.limits import name_of
from gpucluster.config.models import ClusterConfig
from gpucluster.config.section import REFUSED, Section
from gpucluster.config.storage import NAMES, OF_EXISTING, TYPES, Existing, kind_of
from gpucluster.config.wording import finding as worded
from gpucluster.errors import ConfigError, Notice

_JOBS, _OURS = {"command", "jobs"}, {"region", "partitions"}
"""Keys of a job's file, and keys that every cluster file has and no job."""


def load(path: str | FilePath) -> ClusterConfig:
    """Raises ConfigError with every problem of the file."""
    return loads(_text(str(path)), str(path))


def loads(text: str, file: str = "cluster.yaml") -> ClusterConfig:
    """`file`: the name for messages. Raises ConfigError."""
    from gpucluster.config.parse import parse

    document = parse(text, file)
    if foreign := recognized(document, cluster=True):
        hint = foreign.hint.replace("FILE", "-" if file == "<stdin>" else file)
        raise ConfigError([_whole(file, f"this is {foreign.what}, not a cluster file", hint)])
    if document.data is None:
        empty = _whole(file, "the file is empty", "`gpucluster init` writes a commented one")
        raise ConfigError(document.problems or [empty])
    if isinstance(document.data, dict) and _JOBS & document.data.keys() and not _OURS & document.data.keys():
        hint = f"`gpucluster submit {file} --dry-run` checks it; -c names another cluster file"
        raise ConfigError([_whole(file, "this is a job, not a cluster file", hint)])
    config, outcome = _validate(document)
    notices = [*document.problems, *map(document.notice, outcome.findings)]
    if config is None or any(notice.level == "error" for notice in notices):
        raise ConfigError(sorted(notices, key=lambda notice: (notice.line, notice.column)))
    config._warnings = tuple(map(document.notice, outcome.findings))
    config._silenced = tuple(map(document.notice, outcome.silenced))
    return config


def _validate(document: Document) -> tuple[ClusterConfig | None, Outcome]:
    """The findings, including warnings, and the config. If there are errors, only its valid values can be read."""
    data = document.data
    try:
        config = ClusterConfig.model_validate(data)
    except ValidationError as error:
        faults = _faults(error)
        partial = _without_faults(data, faults)
        outcome = _checked(partial, document) if partial else Outcome()
        return partial, Outcome((*(_finding(fault, data) for fault in faults), *outcome.findings), outcome.silenced)
    return config, _checked(config, document)


def _checked(config: ClusterConfig, document: Document) -> Outcome:
    """Some rules read files beside the cluster file."""
    config._document = document
    return check(config)


def _text(file: str) -> str:
    try:
        return FilePath(file).read_text(encoding="utf-8")
    except FileNotFoundError:
        problem = _whole(
            file, "no such file", "check its name and folder; `gpucluster init` writes a commented cluster.yaml"
        )
    except IsADirectoryError:
        problem = _whole(file, "this is a folder", f"name the file in it: -c {FilePath(file) / 'cluster.yaml'}")
    except UnicodeDecodeError as error:
        problem = not_utf8(file, error)
    except (OSError, ValueError) as error:
        problem = _whole(file, f"cannot be read: {getattr(error, 'strerror', None) or error}")
    raise ConfigError([problem])


def not_utf8(file: str, error: UnicodeDecodeError) -> Notice:
    return _whole(file, f"the file is not UTF-8 text: byte {error.start} is 0x{error.object[error.start]:02x}")


def _whole(file: str, message: str, hint: str | None = None) -> Notice:
    return Document(file).notice(Finding((), message, hint))


def _finding(fault: Any, data: Any) -> Finding:
    path: Path = fault["loc"]
    section = _section(path, data)
    allowed = [*_annotations(section), *_of_same_type(section)]
    if fault["type"] == "union_tag_not_found":
        allowed = list(NAMES)
    finding = _of_new_one(fault, section) or worded(fault, path, allowed)
    limit = name_of(fault["type"], finding.path, _section(finding.path, data))
    return finding._replace(validator=finding.validator or limit)


def _of_same_type(section: type[BaseModel]) -> Iterator[str]:
    """Keys of the file system that exists, for an entry that could name one."""
    theirs = {key for kind in _same_type(section) for key in _annotations(kind)}
    yield from (key for key in OF_EXISTING if key in theirs - set(_annotations(section)))


def _of_new_one(fault: Any, section: type[BaseModel]) -> Finding | None:
    """For a key beside `file_system_id` that AWS takes only when it creates a file system."""
    if fault["type"] != "extra_forbidden" or not issubclass(section, Existing):
        return None
    if not any(fault["loc"][-1] in kind.model_fields for kind in _same_type(section)):
        return None
    named = section.id_key
    said = f"is a key of a new file system, but {named} names one that exists, which the cluster never changes"
    return Finding(fault["loc"], said, f"remove it, or remove {named}: AWS then creates a file system", at="key")


def _same_type(section: type[BaseModel]) -> list[type[BaseModel]]:
    names = {kind.__name__: name for kind, name in TYPES.items()}
    return [kind for kind, name in TYPES.items() if name == names.get(section.__name__)]


def _section(path: Path, data: Any) -> type[BaseModel]:
    """The section around this path of the file."""
    section: type[BaseModel] = ClusterConfig
    candidates: list[type[BaseModel]] = []
    for index, part in enumerate(path):
        if isinstance(part, str):
            section = _kind(candidates, reduce(getitem, path[:index], data)) or section
            candidates = _sections(_annotations(section).get(part))
    return section


def _kind(candidates: list[type[BaseModel]], entry: Any) -> type[BaseModel] | None:
    """The kind of storage that the entry names."""
    kind = kind_of(entry) if len(candidates) > 1 and isinstance(entry, dict) else None
    return kind if kind in candidates else candidates[0] if candidates else None


def _annotations(section: type[BaseModel]) -> dict[str, Any]:
    return {field.alias or name: field.annotation for name, field in section.model_fields.items()}


def _sections(annotation: Any) -> list[type[BaseModel]]:
    """The models inside an annotation such as `tuple[Annotated[A | B, …], ...]`."""
    if isinstance(annotation, type) and issubclass(annotation, Section):
        return [annotation]
    return [section for part in typing.get_args(annotation) for section in _sections(part)]


def _faults(error: ValidationError) -> list[Any]:
    """Without follow-up errors: pydantic counts only a list's valid entries, and calls a list without any too short."""
    return [fault for fault in error.errors() if not (fault["type"] == "too_short" and fault["input"])]


def _without_faults(data: Any, faults: list[Any]) -> ClusterConfig | None:
    """None if nothing is left because the file is not a mapping."""
    if not isinstance(data, dict):
        return None
    sound = deepcopy(data)
    for fault in faults:
        _take_out(sound, fault["loc"], remove=fault["type"] == "extra_forbidden")
    config = ClusterConfig.model_validate(sound)
    _strip(config)
    return config


LISTS_WITH_GAPS = ("partitions", "storage", "instance_types", "s3_access", "users", "scripts")
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
    """Removes the placeholders from the models, so that reading one raises NotValidated."""
    if isinstance(value, tuple):
        for item in value:
            _strip(item)
    own = value.__dict__ if isinstance(value, Section) else value if isinstance(value, dict) else {}
    for name, field in list(own.items()):
        if field is REFUSED:
            del own[name]
        else:
            _strip(field)
