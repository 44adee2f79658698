"""The base class of resource handlers, their arguments, and the table of handlers by type."""

from __future__ import annotations

import re
import secrets
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar

from botocore.exceptions import ClientError

from localcloud.cloudformation.errors import CancelledError, ResourceError
from localcloud.cloudformation.shapes import fit

Properties = Mapping[str, Any]
_GONE = re.compile(r"NotFound|NoSuch|DoesNotExist|NonExistent|\.Unknown$|InvalidAssociationID")


_THROTTLED = re.compile(r"Throttl|RequestLimitExceeded|TooManyRequests")
_THROTTLING_PAUSES_S = (0.2, 0.4, 0.8, 1.6, 3.2)


@dataclass(frozen=True)
class Made:
    """A resource after creation or update: the values that Ref and GetAtt return."""

    physical_id: str
    attributes: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Call:
    """One operation on one resource: its stack, region and account, and the clients that it may use."""

    clients: Callable[[str, str], Any]
    region: str
    account_id: str
    stack_name: str
    stack_id: str
    logical_id: str
    tags: Mapping[str, str] = field(default_factory=dict)
    cancelled: threading.Event = field(default_factory=threading.Event)
    # Tells the engine the physical id as soon as it exists, so that a later failure can undo it.
    announce: Callable[[str], None] = lambda physical_id: None
    # Whether RunInstances would already accept a new instance profile.
    knows_profile: Callable[[str], bool] = lambda name: True

    def client(self, service: str) -> Any:
        return self.clients(service, self.region)

    def api(self, service: str, method: str, values: Properties | None = None, **more: Any) -> Any:
        """Calls an AWS API with properties converted to its model; properties that are None are left out."""
        client = self.client(service)
        if not hasattr(client, method):
            raise ResourceError(f"the AWS API {service}.{method} is unknown to this version of boto3")
        return _patiently(getattr(client, method), fit(client, method, {**(values or {}), **more}))

    def if_there(self, service: str, method: str, **values: Any) -> Any:
        """Like `api`, but returns {} if the API says that the resource does not exist."""
        try:
            return self.api(service, method, **values)
        except ClientError as error:
            if is_gone(error):
                return {}
            raise

    def name(self, longest: int = 64, lower: bool = False) -> str:
        """A generated physical name, as CloudFormation makes them: stack-logical id-random."""
        suffix = "".join(secrets.choice("ABCDEFGHJKLMNPQRSTUVWXYZ0123456789") for _ in range(12))
        room = longest - len(suffix) - 2
        logical = self.logical_id[: max(room - len(self.stack_name), room // 2)]
        name = f"{self.stack_name[: room - len(logical)]}-{logical}-{suffix}"
        return name.lower() if lower else name

    def wait(self, ready: Callable[[], bool], what: str, timeout_s: float = 600.0, every_s: float = 0.3) -> None:
        deadline = time.monotonic() + timeout_s
        while not ready():
            if self.cancelled.wait(every_s):
                raise CancelledError("Resource creation cancelled")
            if time.monotonic() > deadline:
                raise ResourceError(f"{what} did not happen within {timeout_s:.0f} s")


def _patiently(method: Callable[..., Any], values: Mapping[str, Any]) -> Any:
    """CloudFormation slows down when an API throttles it; it does not fail the stack."""
    for pause_s in _THROTTLING_PAUSES_S:
        try:
            return method(**values)
        except ClientError as error:
            if not _THROTTLED.search(error.response["Error"]["Code"]):
                raise
        time.sleep(pause_s)
    return method(**values)


class Handler:
    """Base of the handlers. Properties outside `updatable` replace the resource when they change.

    `moving` are attributes whose value changes with an update; all others are fixed at creation. Changes of
    `conditional` properties are made in place here, but change sets say that they may replace, as on AWS.
    """

    resource_type: ClassVar[str] = ""
    updatable: ClassVar[frozenset[str]] = frozenset()
    moving: ClassVar[frozenset[str]] = frozenset()
    conditional: ClassVar[frozenset[str]] = frozenset()
    deletion: ClassVar[tuple[str, ...]] = ()

    def create(self, call: Call, properties: Properties) -> Made:
        raise NotImplementedError

    def update(self, call: Call, physical_id: str, old: Properties, new: Properties) -> Made:
        raise ResourceError(f"Update to resource type {self.resource_type} is not supported.")

    def delete(self, call: Call, physical_id: str, properties: Properties) -> None:
        if self.deletion:
            service, method, member = self.deletion
            call.api(service, method, {member: physical_id})

    def snapshot(self, call: Call, physical_id: str) -> None:
        """Makes the snapshot of DeletionPolicy Snapshot, for types that support it."""

    def replaces(self, changed: set[str]) -> bool:
        return bool(changed - self.updatable)

    def replaces_for(self, name: str, old: Any, new: Any) -> bool:
        """Whether this change replaces the resource, for a property of which only some parts do."""
        return False


_HANDLERS: dict[str, Handler] = {}


def resource(
    name: str, *, updatable: str = "", moving: str = "", conditional: str = "", delete: str = ""
) -> Callable[[type[Handler]], type[Handler]]:
    """Registers a handler. `updatable`, `moving` and `conditional` are names separated by spaces.

    `delete` is the call that deletes the resource: service, method, and the parameter that takes the physical id. A
    handler with more to do has its own method. Without either, nothing is deleted.
    """

    def register(handler: type[Handler]) -> type[Handler]:
        handler.resource_type = name
        handler.updatable = frozenset(updatable.split())
        handler.moving = frozenset(moving.split())
        handler.conditional = frozenset(conditional.split())
        handler.deletion = tuple(delete.split())
        _HANDLERS[name] = handler()
        return handler

    return register


def handler_for(name: str) -> Handler:
    if name not in _HANDLERS:
        raise ResourceError(
            f"Resource type {name} is not supported by the local cloud (localcloud/cloudformation/resources/ has those "
            "that are)"
        )
    return _HANDLERS[name]


def supported_types() -> list[str]:
    return sorted(_HANDLERS)


def is_gone(error: Exception) -> bool:
    """Whether an API error says that the resource does not exist."""
    return isinstance(error, ClientError) and bool(_GONE.search(error.response["Error"]["Code"]))


def without(properties: Properties, *names: str) -> dict[str, Any]:
    return {key: value for key, value in properties.items() if key not in names}


def only(properties: Properties, *names: str) -> dict[str, Any]:
    return {key: properties[key] for key in names if key in properties}


def tag_list(call: Call, properties: Properties) -> list[dict[str, str]]:
    """The stack's tags and the resource's own, which win."""
    own = properties.get("Tags") or []
    pairs = own.items() if isinstance(own, Mapping) else ((tag["Key"], tag["Value"]) for tag in own)
    merged = {**call.tags, **{str(key): str(value) for key, value in pairs}}
    return [{"Key": key, "Value": value} for key, value in merged.items()]


def tag_map(call: Call, properties: Properties) -> dict[str, str]:
    return {tag["Key"]: tag["Value"] for tag in tag_list(call, properties)}


def change_tags(call: Call, service: str, remove: str, add: str, old: Properties, new: Properties, **of: Any) -> None:
    """`remove` and `add`: the service's calls. `of`: the argument with which both identify the resource."""
    if old.get("Tags") == new.get("Tags"):
        return
    if dropped := dropped_tag_keys(call, old, new):
        call.api(service, remove, of, TagKeys=dropped)
    if tags := tag_list(call, new):
        call.api(service, add, of, Tags=tags)


def dropped_tag_keys(call: Call, old: Properties, new: Properties) -> list[str]:
    return sorted(set(tag_map(call, old)) - set(tag_map(call, new)))
