"""Rules that no model contains, by service and action. They are checked after the model."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

Parameters = dict[str, Any]
Rule = Callable[[Parameters, str], None]
"""Takes the parameters and the region; raises a Refusal. The caller holds the cloud's lock."""

_RULES: dict[tuple[str, str], list[Rule]] = {}


def rule(service: str, *actions: str) -> Callable[[Rule], Rule]:
    def register(function: Rule) -> Rule:
        for action in actions:
            _RULES.setdefault((service, action), []).append(function)
        return function

    return register


def of(service: str, action: str) -> list[Rule]:
    return _RULES.get((service, action), [])
