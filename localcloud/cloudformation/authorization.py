"""The resource and condition keys of CloudFormation's calls, from the service authorization reference: the stack, with
its tags. Listings are checked for `*`."""

from __future__ import annotations

from collections.abc import Iterator

from localcloud.cloudformation.service import Service
from localcloud.identity.resources import Check, Keys
from localcloud.protocol.calls import Call


def checks(service: Service, call: Call) -> Iterator[Check]:
    name = call.form.get("StackName", "")
    stack = service.find(call.region, name) if name else None
    if stack:
        tags: Keys = {f"aws:ResourceTag/{key}": (value,) for key, value in stack.revision.tags.items()}
        yield Check(f"cloudformation:{call.action}", stack.stack_id, tags)
    elif name:
        by_name = f"arn:aws:cloudformation:{call.region}:{service.account_id}:stack/{name}/*"
        yield Check(f"cloudformation:{call.action}", name if name.startswith("arn:") else by_name)
    else:
        yield Check(f"cloudformation:{call.action}", "*")
