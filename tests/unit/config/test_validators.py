"""Every validator: what it accepts, what it refuses and with which message; and the page that lists them."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Literal, get_args, get_origin

import pytest
from annotated_types import Ge, Gt, Le, MinLen
from pydantic.fields import FieldInfo
from validator_cases import all_cases
from validator_cases.case import Case, cluster

from gpucluster.config import loads
from gpucluster.config.checks import every
from gpucluster.config.checks.docs import page
from gpucluster.config.limits import limits as named_limits
from gpucluster.config.models import ClusterConfig
from gpucluster.config.section import Section
from gpucluster.config.validators import KINDS_OF_SOURCE, Findings, Validator, Validators, register
from gpucluster.errors import ConfigError, Notice

PAGE = Path(__file__).resolve().parents[3] / "docs" / "validators.md"
CASES = all_cases()
OFFLINE = sorted(name for name, each in every().items() if each.needs == "nothing")
TABLE = [(name, case) for name in sorted(CASES) for case in CASES[name]]


def heard(keys: dict[str, Any]) -> list[Notice]:
    """Errors and warnings of a cluster file, without silenced ones."""
    try:
        return loads(json.dumps(keys)).warnings()
    except ConfigError as error:
        return list(error.problems)


def of(name: str, notices: list[Notice]) -> list[Notice]:
    return [notice for notice in notices if notice.validator == name]


def test_every_validator_has_a_case_and_every_case_a_validator() -> None:
    assert sorted(CASES) == OFFLINE


@pytest.mark.parametrize(("name", "case"), TABLE, ids=[name for name, _ in TABLE])
def test_a_cluster_that_passes_beside_one_that_fails(name: str, case: Case) -> None:
    failing = of(name, heard(case.fails))
    assert failing, [notice.render() for notice in heard(case.fails)]
    assert (failing[0].key, failing[0].message, len(failing)) == (case.key, case.says, case.times)
    assert {notice.level for notice in failing} == {every()[name].level}
    assert of(name, heard(case.passes)) == []


@pytest.mark.parametrize(("name", "case"), TABLE, ids=[name for name, _ in TABLE])
def test_a_passing_case_passes_all_validators(name: str, case: Case) -> None:
    """Otherwise another fault in the passing case might hide the rule."""
    assert [notice.render() for notice in heard(case.passes) if notice.level == "error"] == []


@pytest.mark.parametrize("name", [name for name in OFFLINE if every()[name].can_be_silenced])
def test_silence_takes_the_name_of_each(name: str) -> None:
    for case in CASES.get(name, []):
        assert of(name, heard({**case.fails, "silence": [name]})) == []


def test_the_page_lists_them_all() -> None:
    if os.environ.get("GOLDEN") == "rewrite":
        PAGE.write_text(page())
    assert PAGE.read_text() == page(), "write it anew: python -m gpucluster.config.checks.docs > docs/validators.md"
    assert all(f"- `{name}` (" in page() for name in every())


def test_every_validator_has_a_requirement_and_a_source() -> None:
    for each in every().values():
        assert len(each.requires) > 15, each.name
        assert any(kind in each.source for kind in KINDS_OF_SOURCE), each.name


def says_nothing(config: ClusterConfig) -> Findings:
    yield from ()


def test_a_validator_without_a_source_is_a_mistake_at_import() -> None:
    with pytest.raises(ValueError, match="has no source"):
        register(Validator("a-b", "error", "Section", "something", "because"))
    with pytest.raises(ValueError, match="no name for a validator"):
        register(Validator("A", "error", "Section", "something", "https://aws.amazon.com"))
    with pytest.raises(ValueError, match="two validators"):
        register(Validator("region-known", "error", "Section", "something", "https://aws.amazon.com"))
    with pytest.raises(ValueError, match="does not say"):
        Validators("Section")("a-b", "https://aws.amazon.com")(says_nothing)


OURS_ALONE = {"software.frameworks"}
"""Choices that only GpuCluster limits."""


def test_every_choice_and_range_of_the_models_has_a_name() -> None:
    limited = {key for key, annotation in fields_of(ClusterConfig) if limits(annotation)}
    named = {key: limit.validator for key, limit, _ in named_limits(ClusterConfig)}
    assert limited - OURS_ALONE == set(named)
    assert set(named.values()) <= set(every())


def fields_of(section: type[Section], path: str = "") -> Iterator[tuple[str, FieldInfo]]:
    for name, field in section.model_fields.items():
        key = f"{path}{field.alias or name}"
        yield key, field
        for inner in sections_in(field.annotation):
            yield from fields_of(inner, f"{key}.")


def sections_in(annotation: Any) -> Iterator[type[Section]]:
    if isinstance(annotation, type) and issubclass(annotation, Section):
        yield annotation
    for part in get_args(annotation):
        yield from sections_in(part)


def limits(field: FieldInfo) -> bool:
    """Whether Pydantic itself refuses values of the right type: a choice, a bound, a shortest length."""
    return any(get_origin(part) is Literal or isinstance(part, (Ge, Gt, Le, MinLen)) for part in parts_of(field))


def parts_of(part: Any) -> Iterator[Any]:
    """All parts of a field's annotation, except those of a nested section."""
    yield part
    if isinstance(part, FieldInfo):
        inside = [part.annotation, *part.metadata]
    else:
        inside = [*getattr(part, "__metadata__", ()), *get_args(part)]
    for each in inside:
        yield from parts_of(each)


def test_silenced_findings_are_counted_and_not_shown() -> None:
    config = loads(json.dumps(cluster(region="eu-north-9", silence=["region-known"])))
    assert config.warnings() == []
    assert [notice.validator for notice in config.silenced()] == ["region-known"]


def test_an_error_can_be_silenced() -> None:
    keys = cluster(availability_zone="us-west-2a")
    assert [notice.validator for notice in heard(keys)] == ["zone-of-region"]
    assert loads(json.dumps({**keys, "silence": ["zone-of-region"]})).availability_zone == "us-west-2a"


@pytest.mark.parametrize(
    ("name", "level", "message", "hint"),
    [
        ("zone-of-regoin", "warning", "there is no validator 'zone-of-regoin'", "did you mean 'zone-of-region'?"),
        (
            "xyz",
            "warning",
            "there is no validator 'xyz'",
            "docs/validators.md lists them; remove the name if the rule has gone",
        ),
        (
            "instance-type-known",
            "error",
            "'instance-type-known' cannot be silenced: a value that it refuses cannot be used",
            "correct the value",
        ),
    ],
)
def test_silence_takes_known_names_only(name: str, level: str, message: str, hint: str) -> None:
    """An unknown name has no effect: the file may be older than the removal of the rule."""
    (notice,) = heard(cluster(silence=["region-known", name]))
    assert (notice.key, notice.level, notice.message, notice.hint) == ("silence[1]", level, message, hint)


def test_a_malformed_file_cannot_be_silenced() -> None:
    """A missing key, an unknown one, a value of the wrong type: `silence` cannot name them."""
    notices = heard({"name": "a", "regoin": "us-east-1", "partitions": "none"})
    assert [(notice.key, notice.validator) for notice in notices] == [
        ("region", ""),
        ("regoin", ""),
        ("partitions", ""),
    ]
