"""Turns job.yaml and flags into a JobSpec that fits the cluster, or raises every problem at once."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from gpucluster import job_keys
from gpucluster.config.document import Document, Finding, key_of
from gpucluster.config.foreign import JOB, recognized
from gpucluster.config.wording import finding as worded
from gpucluster.errors import JobSpecError, Notice
from gpucluster.job import sbatch_options
from gpucluster.job.aliases import ALIASES, canonical, conflicts, other_model
from gpucluster.job.checks import check, complete
from gpucluster.job.spec import Channel, JobSpec
from gpucluster.layout import Layout

Fitted = tuple[JobSpec, Iterable[Finding]]


def load(layout: Layout, path: Path | None = None, flags: Mapping[str, Any] | None = None) -> JobSpec:
    """The file's keys, overridden by flags. For variables, metrics and channels, a flag overrides only the same name;
    an empty flag leaves out those of the file.

    `flags` maps keys of JobSpec. Raises JobSpecError.
    """
    document = read(path) if path else Document("the command line")
    return loads(layout, document, dict(flags or {}))


def loads(layout: Layout, document: Document, flags: dict[str, Any]) -> JobSpec:
    def fit(spec: JobSpec, base: Path) -> Fitted:
        completed = complete(spec, layout, base)
        return completed, check(completed, layout)

    def models(spec: JobSpec, given: Mapping[str, Any]) -> Iterator[Finding]:
        return (
            other_model(given, layout.partition(spec.partition or "")) if spec.partition in layout.names else iter(())
        )

    return fitted(document, flags, fit, models)


def fitted(
    document: Document,
    flags: dict[str, Any],
    fit: Callable[[JobSpec, Path], Fitted],
    more: Callable[[JobSpec, Mapping[str, Any]], Iterable[Finding]] = lambda spec, given: (),
) -> JobSpec:
    """`fit` completes a spec for the place where it shall run, and finds what does not fit there; its path is the
    folder that the job's paths are relative to. `more` judges the file's keys as they are written. Raises
    JobSpecError."""
    if foreign := recognized(document, cluster=False):
        problem = f"this is {foreign.what}, not a job"
        raise JobSpecError([Notice("error", document.file, 0, 0, "", problem, hint=JOB)])
    if document.data is None and document.problems:
        raise JobSpecError(document.problems)
    if document.data is not None and not isinstance(document.data, dict):
        raise JobSpecError(
            [*document.problems, document.notice(Finding((), "must be a section of `key: value` lines"))]
        )
    given = document.data or {}
    if {"region", "partitions"} <= given.keys():
        hint = f"-c {document.file} chooses it; {JOB}"
        raise JobSpecError([Notice("error", document.file, 0, 0, "", "this is a cluster file, not a job", hint=hint)])
    flags = _with_more(given, flags)
    problems = list(document.problems)
    findings = list(conflicts(given))
    spec, faults = _validate(_over(canonical(given), flags), fit, Path(document.file).parent)
    if spec:
        findings += more(spec, given)
    problems += [_notice(document, given, flags, finding) for finding in (*findings, *faults)]
    if problems or spec is None:
        raise JobSpecError(sorted(problems, key=lambda notice: (notice.line, notice.column)))
    return spec


def _with_more(given: Mapping[str, Any], flags: Mapping[str, Any]) -> dict[str, Any]:
    """`with` exists only as a flag: its requirements are added to the file's."""
    others = {key: value for key, value in flags.items() if key != "with"}
    if "with" not in flags:
        return others
    asked = others.get("requirements", given.get("requirements", ()))
    return others | {"requirements": [*([asked] if isinstance(asked, str) else asked or ()), *flags["with"]]}


_BY_NAME = [key.name for key in job_keys.of_job() if key.form == "pairs"]
"""Keys of which a flag gives one entry: the file's other entries stay."""


def _over(given: dict[str, Any], flags: dict[str, Any]) -> dict[str, Any]:
    both = {key: (given.get(key), flags.get(key)) for key in _BY_NAME}
    pairs = (
        (key, old, new) for key, (old, new) in both.items() if isinstance(old, dict) and isinstance(new, dict) and new
    )
    return given | flags | {key: old | new for key, old, new in pairs}


def _validate(
    data: dict[str, Any], fit: Callable[[JobSpec, Path], Fitted], base: Path
) -> tuple[JobSpec | None, list[Finding]]:
    """Removes faulty values for a second pass, so that the rest is still checked against the place."""
    try:
        spec, faults = JobSpec.model_validate(data), list[Finding]()
    except ValidationError as error:
        faults = [_finding(fault) for fault in error.errors()]
        faulty = {fault.path[0] for fault in faults if fault.path}
        sound = {key: value for key, value in data.items() if key not in faulty}
        spec = JobSpec.model_validate({"command": ["-"], **sound})
        checked = (found for found in fit(spec, base)[1] if found.path[:1] not in {(key,) for key in faulty})
        return None, [*faults, *checked]
    spec, found = fit(spec, base)
    return spec, [*faults, *found]


def _finding(fault: Any) -> Finding:
    path = tuple(part for part in fault["loc"] if part != "[key]")
    keys = {"servers": ["nodes"], "channels": list(Channel.model_fields)}.get(
        str(*path[:1]), list(JobSpec.model_fields)
    )
    if path == ("command",) and fault["type"] == "missing":
        return Finding(
            path,
            "this key is required: the command that every rank runs",
            "put it after --, or write `command: [python, train.py]`",
        )
    if fault["type"] == "extra_forbidden" and len(path) == 1 and (hint := sbatch_options.hint(str(path[0]))):
        return Finding(path, "unknown key", hint, at="key")
    return worded(fault, path, keys)


def _notice(document: Document, given: Mapping[str, Any], flags: Mapping[str, Any], finding: Finding) -> Notice:
    """A problem of a flag is reported for the command line; a problem of an alias, at the alias's line."""
    key, *rest = finding.path or ("",)
    by_flag = key in flags and not (key in _BY_NAME and rest and rest[0] not in flags[key])
    if by_flag or not document.lines:
        if rest and not re.fullmatch(r"[\w.:/-]+", str(rest[0])):
            rest = []  # an invalid name: the message quotes it
        subject = key_of((flag_of(str(key)), *rest)) if key else ""
        return Notice("error", "command line", 0, 0, subject, finding.message, hint=finding.hint)
    if key and key not in given:
        key = next(_spelled(given, str(key)), key)
    return document.notice(Finding((key, *rest), finding.message, finding.hint, finding.level, finding.at))


def _spelled(given: Mapping[str, Any], key: str) -> Iterator[str]:
    return (alias for alias, name in ALIASES.items() if name == key and alias in given)


def flag_of(key: str) -> str:
    return {"command": "command", "channels": "--channel"}.get(key, f"--{key.replace('_', '-')}")


def is_pipeline(path: Path) -> bool:
    """A job.yaml has no key of that name."""
    try:
        return re.search(r"^jobs\s*:", path.read_text(encoding="utf-8"), re.MULTILINE) is not None
    except (OSError, UnicodeDecodeError):
        return False


def names_sagemaker(path: Path) -> bool:
    """Whether its job has `target: sagemaker`. The job's model judges other values."""
    try:
        return re.search(r"^target\s*:\s*[\"']?sagemaker\b", path.read_text(encoding="utf-8"), re.MULTILINE) is not None
    except (OSError, UnicodeDecodeError):
        return False


def read(path: Path) -> Document:
    from gpucluster.config.parse import parse

    hint = None
    try:
        return parse(path.read_text(encoding="utf-8"), str(path))
    except FileNotFoundError:
        problem, hint = "no such file", "`gpucluster init --template hello` writes a folder with a job.yaml"
    except UnicodeDecodeError as error:
        problem = f"is not UTF-8 text: byte {error.start} is 0x{error.object[error.start]:02x}"
    except OSError as error:
        problem = f"cannot be read: {error.strerror}"
    raise JobSpecError([Notice("error", str(path), 0, 0, "", problem, hint=hint)])
