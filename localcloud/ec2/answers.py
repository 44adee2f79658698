"""Writes EC2's answers as XML fast: it keeps by member and class what moto computes again for every value.

moto calls six providers of aliases for the names of a member, and builds dictionaries that xmltodict turns into text.
It took seconds for an answer with a thousand instances.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any
from xml.sax.saxutils import escape

from botocore.model import ListShape, Shape, StructureShape
from moto.core import serialize
from moto.core.serialize import AttributePickerContext, EC2Serializer

_MISSING = object()
Member = tuple[str, Shape, str]  # name, shape, element
_members: dict[int, tuple[StructureShape, list[Member]]] = {}
_names: dict[tuple[type, int], tuple[Shape, bool, tuple[str, ...]]] = {}
Transforms = dict[str, list[tuple[str, Callable[[Any], Any]]]]


def install() -> None:
    serialize.SERIALIZERS["ec2"] = QuickSerializer


class QuickSerializer(EC2Serializer):
    """Writes the same as moto's serializer; a test compares them."""

    def _serialize_result(self, resp: Any, result: Any) -> Any:
        operation = self.operation_model
        self._transforms = _by_member(self._value_picker.response_transformers)
        inner: list[str] = []
        if operation.output_shape is not None:
            path = f"{operation.name}.{operation.output_shape.name}"
            self._structure(inner, result, operation.output_shape, path)
        namespace = operation.metadata.get("xmlNamespace", "")
        tag = f"{operation.name}Response"
        resp["body"] = (
            f'<?xml version="1.0" encoding="utf-8"?>\n<{tag} xmlns="{namespace}">{"".join(inner)}'
            f"<requestId>{self.context.request_id}</requestId></{tag}>"
        )
        resp["headers"]["Content-Type"] = self.CONTENT_TYPE
        return resp

    def _structure(self, out: list[str], value: Any, shape: Any, path: str) -> None:
        if value is None:
            return
        for name, member, element in self._members_of(shape):
            picked = self._picked(value, name, member, path)
            if picked is not None:
                self._element(out, picked, member, element, f"{path}.{name}")

    def _members_of(self, shape: Any) -> list[Member]:
        known = _members.get(id(shape))
        if known is None:
            found = [(name, member, self.get_serialized_name(member, name)) for name, member in shape.members.items()]
            for _, member, _ in found:
                member.parent = shape
            known = _members[id(shape)] = (shape, found)
        return known[1]

    def _picked(self, value: Any, name: str, member: Shape, path: str) -> Any:
        key = (type(value), id(member))
        known = _names.get(key)
        if known is None:
            known = _names[key] = self._find_names(value, name, member)
        picked = None
        for candidate in known[2]:
            found = _item(value, candidate) if known[1] else getattr(value, candidate, _MISSING)
            if found is not _MISSING:
                picked = found
                break
        for where, transform in self._transforms.get(name, ()):
            if f"{path}.{name}".endswith(where):
                return transform(picked)
        return picked

    def _find_names(self, value: Any, name: str, member: Any) -> tuple[Shape, bool, tuple[str, ...]]:
        context = AttributePickerContext(value, name, member, self.operation_model, self.service_model)
        names = dict.fromkeys(self._value_picker.get_possible_keys(context))
        return member, hasattr(value, "__getitem__"), tuple(names)

    def _element(self, out: list[str], value: Any, shape: Shape, element: str, path: str) -> None:
        if isinstance(shape, ListShape):
            out.append(f"<{element}>")
            self._items(out, value, shape.member, path)
            out.append(f"</{element}>")
        elif isinstance(shape, StructureShape):
            out.append(f"<{element}>")
            self._structure(out, value, shape, path)
            out.append(f"</{element}>")
        else:
            out.append(f"<{element}>{escape(self._text(value, shape))}</{element}>")

    def _items(self, out: list[str], values: Any, member: Any, path: str) -> None:
        """Like moto, leaves out structures that are empty."""
        element, path = self.get_serialized_name(member, "member"), f"{path}.{member.name}"
        for value in values:
            inner: list[str] = []
            self._element(inner, value, member, element, path)
            if not (isinstance(member, StructureShape) and len(inner) == 2):
                out += inner

    def _text(self, value: Any, shape: Shape) -> str:
        kind = shape.type_name
        if kind == "boolean":
            return "true" if str(value).lower() == "true" else "false"
        if kind in ("integer", "long"):
            return str(int(value))
        if kind in ("float", "double"):
            return str(float(value))
        if kind == "timestamp":
            wanted = shape.serialization.get("timestampFormat", self.DEFAULT_TIMESTAMP_FORMAT)
            return str(self._timestamp_serializer._convert_timestamp_to_str(value, wanted))
        return self._base64(value) if kind == "blob" else str(value)


def _item(value: Any, key: str) -> Any:
    try:
        return value[key]
    except (KeyError, IndexError, TypeError, AttributeError):
        return _MISSING


def _by_member(transformers: dict[str, Callable[[Any], Any]]) -> Transforms:
    found: Transforms = {}
    for where, transform in transformers.items():
        found.setdefault(where.rpartition(".")[2], []).append((where, transform))
    return found
