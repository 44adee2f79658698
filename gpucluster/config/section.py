"""What a section of cluster.yaml is: a frozen model that can also be read where some of its values were refused."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

from pydantic import BaseModel, ConfigDict, WrapValidator, field_validator

if TYPE_CHECKING:
    from pydantic import ValidatorFunctionWrapHandler


class NotValidated(Exception):
    """A check asked for a value that was refused already: it has nothing to say."""


class Refused:
    """Stands where the user's value was refused, so that the rest of the file can still be checked (see `load`)."""


REFUSED = Refused()


def pass_refused(value: Any, handler: ValidatorFunctionWrapHandler) -> Any:
    return value if value is REFUSED else handler(value)


class Section(BaseModel):
    heading: ClassVar[str]
    """Of docs/validators.md, where the limits of its keys are listed."""

    # defer_build: a section's validator is built within ClusterConfig's; building each alone too doubles the import.
    model_config = ConfigDict(extra="forbid", frozen=True, defer_build=True)

    _let_through = field_validator("*", mode="wrap")(pass_refused)

    if not TYPE_CHECKING:

        def __getattr__(self, name):
            if name in type(self).model_fields:
                raise NotValidated(name)
            return super().__getattr__(name)


def or_blank(section: type[Section]) -> WrapValidator:
    """A refused entry of a list keeps its place: as a section of which no key was validated."""

    def validate(value: Any, handler: ValidatorFunctionWrapHandler) -> Any:
        if value is not REFUSED:
            return handler(value)
        blank = section.model_construct()
        blank.__dict__.clear()
        return blank

    return WrapValidator(validate)
