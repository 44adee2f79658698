"""Resource types whose tags are narrower than those of others."""

from __future__ import annotations

import re

_KEYS = {"AWS::DLM::LifecyclePolicy": r"(?!aws:)[a-zA-Z+-=._:/]+"}
"""By the type, the keys that its service takes. botocore's model of DLM: TagKey; it has no spaces and no @."""
_STACK = "aws:cdk:stack"
"""CDK's name for the stack itself. CloudFormation gives its tags to all resources, also to those that refuse them."""


def refusing(key: str) -> list[str]:
    """The types that cannot have a tag of this key."""
    return [_STACK, *(type_ for type_, pattern in _KEYS.items() if not re.fullmatch(pattern, key))]
