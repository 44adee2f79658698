"""Resource types whose tags are narrower than those of others."""

from __future__ import annotations

import re

_KEYS = {"AWS::DLM::LifecyclePolicy": r"(?!aws:)[a-zA-Z+-=._:/]+"}
"""By the type, the keys that its service takes. botocore's model of DLM: TagKey; it has no spaces and no @."""


def refusing(key: str) -> list[str]:
    """The types that cannot have a tag of this key."""
    return [type_ for type_, pattern in _KEYS.items() if not re.fullmatch(pattern, key)]
