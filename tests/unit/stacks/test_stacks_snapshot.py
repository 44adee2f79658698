"""CloudFormation of each example, as a file to review. `GOLDEN=rewrite` writes them anew."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests import snapshots

ROOT = Path(__file__).resolve().parents[3]
GOLDEN = ROOT / "tests" / "golden"
EXAMPLES = [ROOT / "cluster.yaml", *sorted((ROOT / "examples").glob("*.yaml"))]
REFERENCE = ROOT / "examples" / f"{snapshots.REFERENCE}.yaml"
VARIANTS = sorted((ROOT / "tests" / "data" / "stacks").glob("*.yaml"))
"""What no example has: RDS, no internet, an existing VPC, a key of the customer's."""


def normalised(template: dict[str, Any]) -> Any:
    """Without what every change of a step or of this project's own files would change."""
    text = json.dumps(_without_user_data(template), sort_keys=True)
    text = re.sub(r"Bundle(Handle|Live)[0-9a-f]{24}[0-9A-F]{8}", r"Bundle\1VERSION", text)
    text = re.sub(r"\b[0-9a-f]{64}\b", "ASSET", text)
    return _opened(json.loads(re.sub(r'((?:version\\":\\"|"Value": "))[0-9a-f]{16}\b', r"\1VERSION", text)))


def _without_user_data(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: "USER DATA" if key == "Fn::Base64" else _without_user_data(each) for key, each in value.items()}
    return [_without_user_data(each) for each in value] if isinstance(value, list) else value


def _opened(value: Any) -> Any:
    """With JSON in strings as JSON, where nothing is lost by that."""
    if isinstance(value, dict):
        return {key: _opened(each) for key, each in value.items()}
    if isinstance(value, list):
        return [_opened(each) for each in value]
    if not isinstance(value, str) or not value.startswith("{"):
        return value
    try:
        inner = json.loads(value)
    except ValueError:
        return value
    return {"JSON": inner} if json.dumps(inner, sort_keys=True, separators=(",", ":")) == value else value


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda path: path.stem)
def test_template(template_of: Callable[[str], dict[str, Any]], example: Path) -> None:
    got = normalised(template_of(example.read_text()))
    if os.environ.get("GOLDEN") == "rewrite":
        reference = normalised(template_of(REFERENCE.read_text()))
        for name, template in ((REFERENCE.stem, reference), (example.stem, got)):
            snapshots.write_template(GOLDEN, name, reference, template)
    golden = snapshots.compact(snapshots.template(GOLDEN, example.stem))
    assert snapshots.compact(got) == golden, "the template changed; GOLDEN=rewrite, then review the difference"


def test_no_hash_is_left_in_a_snapshot(template_of: Callable[[str], dict[str, Any]]) -> None:
    text = snapshots.compact(normalised(template_of(EXAMPLES[0].read_text())))
    assert not re.search(r"[0-9a-f]{16}", text.replace("0123456789abcdef0", ""))


def test_every_value_of_a_template_is_in_its_snapshot() -> None:
    """Whatever is changed, taken away or added in the template of an example, its snapshot is another one."""
    golden = snapshots.template(GOLDEN, EXAMPLES[0].stem)
    sections = {kind: named for kind, named in golden.items() if isinstance(named, dict)}
    parts = [(kind, name, part) for kind, named in sections.items() for name, part in named.items()]
    number = 0
    for kind, name, part in parts:  # alone, because the whole takes 20 times as long
        seen = {snapshots.compact({kind: {name: part}})}
        for count, (holder, key) in enumerate(places(part), 1):
            kept = holder[key]
            holder[key] = f"changed {count}"
            changed = snapshots.compact({kind: {name: part}})
            assert changed not in seen, f"{kind} {name}: {key!r}: {kept!r}"
            seen.add(changed)
            holder[key] = kept
            number += 1
    assert number > 1000 and len(parts) > 50


def places(value: Any) -> Iterator[tuple[Any, Any]]:
    for key, each in list(value.items() if isinstance(value, dict) else enumerate(value)):
        yield value, key
        if isinstance(each, dict | list):
            yield from places(each)
