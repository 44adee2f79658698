"""Rules about `tags`: what AWS accepts as a tag on every resource of the cluster."""

from __future__ import annotations

import unicodedata
from collections import Counter

from gpucluster.config.document import Finding
from gpucluster.config.models import ClusterConfig
from gpucluster.config.tags import OURS
from gpucluster.config.validators import Findings, Validators

validator = Validators("Tags")

RULES = "https://docs.aws.amazon.com/AWSEC2/latest/UserGuide/Using_Tags.html#tag-restrictions"
STACK = "https://docs.aws.amazon.com/AWSCloudFormation/latest/APIReference/API_Tag.html"
MOST = 40
"""AWS allows 50 for each resource; an instance has up to seven of GpuCluster's, the others are for later ones."""
KEY_CHARACTERS, VALUE_CHARACTERS = 128, 256
_SIGNS = "_.:/=+-@"


@validator("tag-not-ours", f"{RULES}: the prefix aws: is reserved; a key is set once on each resource")
def tag_not_ours(config: ClusterConfig) -> Findings:
    """A tag's key is neither Name nor begins with aws: or gpucluster:, which AWS and GpuCluster set themselves."""
    for key in config.tags:
        low = key.lower()
        if low.startswith("aws:"):
            yield Finding(("tags", key), "AWS reserves keys that begin with aws:", "choose another key", at="key")
        elif low.startswith(OURS):
            yield Finding(("tags", key), f"GpuCluster sets keys that begin with {OURS}", "choose another key", at="key")
        elif low == "name":
            message = "GpuCluster sets Name itself: it tells nodes and disks apart"
            yield Finding(("tags", key), message, "choose another key", at="key")


@validator("tag-form", f"{RULES}; {STACK}: Value, at least one character; error ValidationError of IAM CreateRole")
def tag_form(config: ClusterConfig) -> Findings:
    """A tag's key has 1 to 128 characters and its value 1 to 256: letters, digits, spaces and _ . : / = + - @."""
    for key, value in config.tags.items():
        for what, text, most in (("key", key, KEY_CHARACTERS), ("value", value, VALUE_CHARACTERS)):
            at, subject = ("key", "the key") if what == "key" else ("value", "the value")
            if not 1 <= len(text) <= most:
                message = f"{subject} must have 1 to {most} characters, got {len(text)}"
                yield Finding(("tags", key), message, at=at)  # type: ignore[arg-type]
            elif strange := "".join(dict.fromkeys(each for each in text if not _allowed(each))):
                message = f"{subject} must consist of letters, digits, spaces and {' '.join(_SIGNS)}, got {strange!r}"
                yield Finding(("tags", key), message, at=at)  # type: ignore[arg-type]


@validator(
    "tag-keys-differ", "error InvalidInput of IAM CreateRole: Duplicate tag keys found. Tag keys are case insensitive"
)
def tag_keys_differ(config: ClusterConfig) -> Findings:
    """Two tags' keys differ in more than upper and lower case."""
    counted = Counter(key.lower() for key in config.tags)
    first: dict[str, str] = {}
    for key in config.tags:
        before = first.setdefault(key.lower(), key)
        if counted[key.lower()] > 1 and before != key:
            yield Finding(("tags", key), f"{before} is the same key for IAM", "keep one of them", at="key")


@validator("tag-count", f"{RULES}: 50 tags on a resource; {STACK}")
def tag_count(config: ClusterConfig) -> Findings:
    """There are at most 40 tags: a resource can have 50, and GpuCluster needs some."""
    if len(config.tags) > MOST:
        yield Finding(("tags",), f"must be at most {MOST} tags, got {len(config.tags)}", "remove some", at="key")


def _allowed(character: str) -> bool:
    """In IAM's pattern, [\\p{L}\\p{Z}\\p{N}_.:/=+\\-@], the narrowest of the services that the stack uses."""
    return character in _SIGNS or unicodedata.category(character)[0] in "LZN"
