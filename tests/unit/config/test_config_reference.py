"""examples/reference.yaml documents every key: it and the models are held together here."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any, get_args

import pytest

from gpucluster.config import ClusterConfig, load
from gpucluster.config.parse import parse
from gpucluster.config.section import Section

FILE = Path(__file__).resolve().parents[3] / "examples" / "reference.yaml"
TEXT = FILE.read_text()
FREE = {"tags"}
"""Mappings whose keys are the user's."""


def keys_of_models(section: type[Section], path: str = "") -> Iterator[str]:
    """`partitions.name`, `storage.capacity_gib` …: lists without their indexes."""
    for name, field in section.model_fields.items():
        key = f"{path}{field.alias or name}"
        inner = list(sections(field.annotation))
        yield key
        for model in inner:
            yield from keys_of_models(model, f"{key}.")


def sections(annotation: Any) -> Iterator[type[Section]]:
    if isinstance(annotation, type) and issubclass(annotation, Section):
        yield annotation
    for part in get_args(annotation):
        yield from sections(part)


def keys_of_file(value: Any, path: str = "") -> Iterator[str]:
    if isinstance(value, dict):
        for name, inner in value.items():
            yield f"{path}{name}"
            if f"{path}{name}" not in FREE:
                yield from keys_of_file(inner, f"{path}{name}.")
    if isinstance(value, list):
        for inner in value:
            yield from keys_of_file(inner, path)


def literals(annotation: Any) -> Iterator[str]:
    for part in get_args(annotation):
        if isinstance(part, str):
            yield part
        yield from literals(part)


def test_the_reference_has_every_key_and_no_other() -> None:
    assert set(keys_of_file(parse(TEXT, "reference").data)) == set(keys_of_models(ClusterConfig))


def test_the_reference_is_valid_and_warns_of_nothing() -> None:
    config = load(FILE)
    assert config.warnings() == []


def words_with_choices() -> list[tuple[str, str]]:
    found = []
    for section in (ClusterConfig, *set(sections_of(ClusterConfig))):
        for name, field in section.model_fields.items():
            found += [(name, choice) for choice in literals(field.annotation) if not choice.startswith("tag:")]
    return sorted(set(found))


def sections_of(section: type[Section]) -> Iterator[type[Section]]:
    for field in section.model_fields.values():
        for inner in sections(field.annotation):
            yield inner
            yield from sections_of(inner)


@pytest.mark.parametrize(("key", "choice"), words_with_choices())
def test_every_choice_is_named_in_the_reference(key: str, choice: str) -> None:
    assert choice in TEXT, f"{key} may be {choice}"


def test_every_optional_key_is_explained() -> None:
    """An optional key without an explanation would be useless here."""
    bare = [line for line in TEXT.splitlines() if line.strip().endswith((": null", ": []"))]
    assert bare == []
