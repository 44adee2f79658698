"""Tags, images and instances in Describe calls: found by id, and without changes that EC2 does not show yet."""

from __future__ import annotations

from typing import Any

from moto.ec2.exceptions import InvalidInstanceIdError
from moto.ec2.models import EC2Backend
from moto.ec2.models.amis import Ami, AmiBackend
from moto.ec2.models.core import TaggedEC2Resource
from moto.ec2.models.instances import Instance, InstanceBackend, Reservation
from moto.ec2.models.tags import TagBackend
from moto.ec2.utils import EC2_PREFIX_TO_RESOURCE, get_prefix

from localcloud.pace.hooks import Pace

_WILD = "*?["
_describe_images = AmiBackend.describe_images
_describe_tags = TagBackend.describe_tags
_describe_instances = InstanceBackend.describe_instances

Tag = dict[str, str]


def install(pace: Pace) -> None:
    def tags_of(resource: Any) -> list[Tag]:
        return _of_id(pace, resource.ec2_backend, resource.id) if resource.id else []

    def tags(backend: Any, filters: dict[str, list[str]] | None = None) -> list[Tag]:
        return _shown_tags(pace, backend, filters)

    def reservations(backend: Any, filters: Any = None) -> list[Reservation]:
        return _shown_reservations(pace, backend, filters)

    TaggedEC2Resource.get_tags = tags_of  # type: ignore[method-assign, assignment]
    TagBackend.describe_tags = tags  # type: ignore[method-assign, assignment]
    AmiBackend.describe_images = _shown_images  # type: ignore[method-assign, assignment]
    InstanceBackend.describe_instances = reservations  # type: ignore[method-assign, assignment]
    InstanceBackend.get_instance = _instance  # type: ignore[method-assign, assignment]
    InstanceBackend.get_instance_by_id = _instance_or_none  # type: ignore[method-assign, assignment]


def _of_id(pace: Pace, backend: EC2Backend, resource_id: str) -> list[Tag]:
    held = backend.tags.get(resource_id)
    tags = pace.tags(resource_id, held or {})
    kind = EC2_PREFIX_TO_RESOURCE.get(get_prefix(resource_id), "")
    return [
        {"resource_id": resource_id, "key": key, "value": value, "resource_type": kind} for key, value in tags.items()
    ]


def _shown_tags(pace: Pace, backend: Any, filters: dict[str, list[str]] | None) -> list[Tag]:
    """Finds tags by id; moto compares every tag of the account with each pattern."""
    ids = (filters or {}).get("resource-id")
    if not ids or any(character in each for each in ids for character in _WILD):
        return _describe_tags(backend, filters)
    found = [tag for resource_id in dict.fromkeys(ids) for tag in _of_id(pace, backend, resource_id)]
    others = {name: values for name, values in (filters or {}).items() if name != "resource-id"}
    return [tag for tag in found if tag in _among(found, others)] if others else found


def _among(tags: list[Tag], filters: dict[str, list[str]]) -> list[Tag]:
    """The tags that match moto's filters."""
    few = TagBackend()
    for tag in tags:
        few.tags[tag["resource_id"]][tag["key"]] = tag["value"]
    return _describe_tags(few, filters)


def _shown_images(backend: Any, *given: Any, **named: Any) -> list[Ami]:
    """Finds an image by id; moto calls this for each new instance and compares every image with the id."""
    wanted = (named.get("filters") or {}).get("image-id")
    if given or list(named) != ["filters"] or len(named["filters"]) != 1 or not isinstance(wanted, str):
        return _describe_images(backend, *given, **named)
    image = backend.amis.get(wanted)
    return [image] if image else []


def _instance(backend: Any, instance_id: str) -> Instance:
    if found := _instance_or_none(backend, instance_id):
        return found
    raise InvalidInstanceIdError(instance_id)


def _instance_or_none(backend: Any, instance_id: str) -> Instance | None:
    """Begins with the newest. moto asks for each instance of a launch, and of CreateTags, twice, and goes through all
    there were, also those that have terminated, from the oldest."""
    for reservation in reversed(backend.reservations.copy().values()):
        for instance in reversed(reservation.instances):
            if instance.id == instance_id:
                return instance  # type: ignore[no-any-return]
    return None


def _shown_reservations(pace: Pace, backend: Any, filters: Any) -> list[Reservation]:
    """Leaves out instances that EC2 does not show yet."""
    shown = []
    for reservation in _describe_instances(backend, filters):
        reservation.instances = [each for each in reservation.instances if pace.knows(each.id)]
        if reservation.instances:
            shown.append(reservation)
    return shown
