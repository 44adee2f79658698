"""Errors of CloudFormation's API; each becomes an AWS XML error."""

from __future__ import annotations


class CloudFormationError(Exception):
    """An API error: `code` and `status` as AWS documents them."""

    code = "ValidationError"
    status = 400

    def __init__(self, message: str) -> None:
        super().__init__(message)
        self.message = message


class ValidationError(CloudFormationError):
    """The request, the template or the stack's state is invalid."""


class TransformError(ValidationError):
    """The template uses a macro; the local cloud has none."""


class AlreadyExistsError(CloudFormationError):
    code = "AlreadyExistsException"


class ChangeSetNotFoundError(CloudFormationError):
    code = "ChangeSetNotFound"
    status = 404


class InvalidChangeSetStatusError(CloudFormationError):
    code = "InvalidChangeSetStatus"


class InsufficientCapabilitiesError(CloudFormationError):
    code = "InsufficientCapabilitiesException"


class UnsupportedError(CloudFormationError):
    """An unsupported operation; the SDKs do not retry it."""

    code = "UnsupportedOperation"


class ResourceError(Exception):
    """A resource could not be created, changed or deleted; the text is the event's reason."""


class CancelledError(ResourceError):
    """Another resource failed first."""


class UnchangedError(ResourceError):
    """An update was refused before it changed anything: there is nothing to undo."""
