"""The base class of cluster.yaml's sections: a frozen model that can be read even if some of its values were refused.

Types that `submit` needs are named tuples: Python creates one in a fifth of the time of a data class. Modules with
models, or with many named tuples, do not use `from __future__ import annotations`: Python would compile each annotation
again.
"""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, ClassVar

from pydantic import BaseModel, ConfigDict, WrapValidator, field_validator
from pydantic_core import core_schema

if TYPE_CHECKING:
    from pydantic import SerializationInfo, ValidatorFunctionWrapHandler


class NotValidated(Exception):
    """A check read a value that was already refused, so it stops."""


class Refused:
    """Placeholder for a refused value, so that the rest of the file can still be checked (see `load`)."""


REFUSED = Refused()


def pass_refused(value: Any, handler: "ValidatorFunctionWrapHandler") -> Any:
    return value if value is REFUSED else handler(value)


class Section(BaseModel):
    heading: ClassVar[str]
    """The heading in docs/validators.md for the limits of its keys."""

    # defer_build: a section's validator is built within ClusterConfig's; building each alone too doubles the import.
    model_config = ConfigDict(extra="forbid", frozen=True, defer_build=True)

    _let_through = field_validator("*", mode="wrap")(pass_refused)

    if not TYPE_CHECKING:

        def __getattr__(self, name):
            if name in type(self).model_fields:
                raise NotValidated(name)
            return super().__getattr__(name)


def or_blank(section: type[Section]) -> WrapValidator:
    """Keeps the place of a refused list entry: as a section without validated keys."""

    def validate(value: Any, handler: "ValidatorFunctionWrapHandler") -> Any:
        if value is not REFUSED:
            return handler(value)
        blank = section.model_construct()
        blank.__dict__.clear()
        return blank

    return WrapValidator(validate)


class Separate:
    """A model whose validator is built only when a file has it, not with the model around it.

    `read` validates it. Default: the model's own `model_validate`."""

    def __init__(self, read: Callable[[Any], BaseModel] | None = None) -> None:
        self.read = read

    def __get_pydantic_core_schema__(self, source: Any, handler: Any) -> core_schema.CoreSchema:
        written = core_schema.plain_serializer_function_ser_schema(_dumped, info_arg=True)
        return core_schema.no_info_plain_validator_function(self.read or source.model_validate, serialization=written)


def _dumped(model: BaseModel, info: "SerializationInfo") -> dict[str, Any]:
    return model.model_dump(mode=info.mode, by_alias=info.by_alias)
