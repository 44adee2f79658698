"""Tags at creation and changes of tags, for all EC2 handlers."""

from __future__ import annotations

from typing import Any

from localcloud.cloudformation.resources.registry import Call, Properties, dropped_tag_keys, tag_list


def tag_specifications(call: Call, properties: Properties, kind: str) -> list[dict[str, Any]] | None:
    tags = tag_list(call, properties)
    return [{"ResourceType": kind, "Tags": tags}] if tags else None


def retag(call: Call, physical_id: str, old: Properties, new: Properties) -> None:
    if old.get("Tags") == new.get("Tags"):
        return
    dropped = dropped_tag_keys(call, old, new)
    if dropped:
        call.api("ec2", "delete_tags", Resources=[physical_id], Tags=[{"Key": key} for key in dropped])
    tags = tag_list(call, new)
    if tags:
        call.api("ec2", "create_tags", Resources=[physical_id], Tags=tags)
