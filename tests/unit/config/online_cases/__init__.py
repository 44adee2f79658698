"""Online validators: what AWS answers where one speaks, and where it does not."""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module
from pathlib import Path

from online_cases.case import Online

MODULES = sorted(path.stem for path in Path(__file__).parent.glob("*.py") if path.stem not in ("__init__", "case"))


def all_online() -> dict[str, list[Online]]:
    found: dict[str, list[Online]] = {}
    for module in MODULES:
        table: Mapping[str, Online | list[Online]] = import_module(f"online_cases.{module}").CASES
        for name, cases in table.items():
            found.setdefault(name, []).extend(cases if isinstance(cases, list) else [cases])
    return found
