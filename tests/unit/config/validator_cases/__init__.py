"""For each validator, a cluster that passes beside one that fails: every module here has a table CASES."""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module
from pathlib import Path

from validator_cases.case import Case

MODULES = sorted(path.stem for path in Path(__file__).parent.glob("*.py") if path.stem not in ("__init__", "case"))


def all_cases() -> dict[str, list[Case]]:
    found: dict[str, list[Case]] = {}
    for module in MODULES:
        table: Mapping[str, Case | list[Case]] = import_module(f"validator_cases.{module}").CASES
        for name, cases in table.items():
            found.setdefault(name, []).extend(cases if isinstance(cases, list) else [cases])
    return found
