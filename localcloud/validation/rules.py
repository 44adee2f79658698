"""The rules that no model says: by service and action, asked after the model was."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

Parameters = dict[str, Any]
Rule = Callable[[Parameters, str], None]
"""Raises a Refusal. It gets the parameters and the region; the cloud's lock is held."""

_RULES: dict[tuple[str, str], list[Rule]] = {}


def rule(service: str, *actions: str) -> Callable[[Rule], Rule]:
    def register(function: Rule) -> Rule:
        for action in actions:
            _RULES.setdefault((service, action), []).append(function)
        return function

    return register


def of(service: str, action: str) -> list[Rule]:
    return _RULES.get((service, action), [])
