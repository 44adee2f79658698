"""Tags at creation and changes of tags, for all EC2 handlers."""

from __future__ import annotations

from typing import Any, ClassVar

from localcloud.cloudformation.resources.registry import (
    Call,
    Handler,
    Made,
    Properties,
    dropped_tag_keys,
    tag_list,
    without,
)


class Plain(Handler):
    """A resource that one call creates, whose tags alone change in place, and whose one attribute is its id."""

    noun: ClassVar[str] = ""  # of its calls and, with hyphens, of its tags
    member: ClassVar[str] = ""  # of the answer to the call that creates it
    id_name: ClassVar[str] = ""  # in that member
    attribute: ClassVar[str] = ""  # default: `id_name`

    def create(self, call: Call, properties: Properties) -> Made:
        tags = tag_specifications(call, properties, self.noun.replace("_", "-"))
        made = call.api("ec2", f"create_{self.noun}", without(properties, "Tags"), TagSpecifications=tags)
        return self.made(str(made[self.member][self.id_name]))

    def update(self, call: Call, physical_id: str, old: Properties, new: Properties) -> Made:
        retag(call, physical_id, old, new)
        return self.made(physical_id)

    def made(self, physical_id: str) -> Made:
        return Made(physical_id, {self.attribute or self.id_name: physical_id})


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
