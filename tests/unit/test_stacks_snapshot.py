"""CloudFormation of each example, as a file to review. `GOLDEN=rewrite` writes them anew."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[2]
GOLDEN = ROOT / "tests" / "golden"
EXAMPLES = [ROOT / "cluster.yaml", *sorted((ROOT / "examples").glob("*.yaml"))]
VARIANTS = sorted((ROOT / "tests" / "data" / "stacks").glob("*.yaml"))
"""What no example has: RDS, no internet, an existing VPC, a key of the customer's."""


def normalised(template: dict[str, Any]) -> str:
    """Without what every change of a step or of this project's own files would change."""
    text = json.dumps(_without_user_data(template), indent=1, sort_keys=True) + "\n"
    text = re.sub(r"Bundle(Handle|Live)[0-9a-f]{24}[0-9A-F]{8}", r"Bundle\1VERSION", text)
    text = re.sub(r"\b[0-9a-f]{64}\b", "ASSET", text)
    return re.sub(r'((?:version\\":\\"|"Value": "))[0-9a-f]{16}\b', r"\1VERSION", text)


def _without_user_data(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: "USER DATA" if key == "Fn::Base64" else _without_user_data(each) for key, each in value.items()}
    return [_without_user_data(each) for each in value] if isinstance(value, list) else value


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda path: path.stem)
def test_template(template_of: Callable[[str], dict[str, Any]], example: Path) -> None:
    got = normalised(template_of(example.read_text()))
    golden = GOLDEN / example.stem / "template.json"
    if os.environ.get("GOLDEN") == "rewrite":
        golden.parent.mkdir(parents=True, exist_ok=True)
        golden.write_text(got)
    assert golden.is_file(), f"no {golden.relative_to(ROOT)}: GOLDEN=rewrite writes it"
    assert got == golden.read_text(), "the template changed; GOLDEN=rewrite, then review the difference"


def test_no_hash_is_left_in_a_snapshot(template_of: Callable[[str], dict[str, Any]]) -> None:
    text = normalised(template_of(EXAMPLES[0].read_text()))
    assert not re.search(r"[0-9a-f]{16}", text.replace("0123456789abcdef0", ""))
