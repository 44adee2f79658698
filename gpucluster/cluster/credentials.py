"""The caller's AWS credentials. boto3 finds them once; programs that call AWS for us get what it found.

The session of a role is stored where the AWS CLI stores it, so that a profile with `mfa_serial` asks for one code an
hour and not at each command.
"""

from __future__ import annotations

import json
import os
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from getpass import GetPassWarning
from pathlib import Path
from typing import Any

from gpucluster.cluster import api_errors
from gpucluster.errors import AccessError


def session(region: str) -> Any:
    """A boto3 session, the same for the same environment. Makes no call."""
    variables = {name: value for name, value in os.environ.items() if name.startswith("AWS_") or name == "HOME"}
    return _session(region, tuple(sorted(variables.items())))


@cache
def _session(region: str, _variables: tuple[tuple[str, str], ...]) -> Any:
    import boto3
    from botocore.credentials import create_credential_resolver
    from botocore.session import Session

    # Without a terminal, getpass would read the code from stdin, which may carry data, and show it.
    warnings.filterwarnings("error", category=GetPassWarning)
    core = Session()
    resolver = create_credential_resolver(core, cache=_stored(), region_name=region)
    core.register_component("credential_provider", resolver)
    return boto3.Session(botocore_session=core, region_name=region)


def _stored() -> Any:
    """The AWS CLI's store of role sessions (awscli/customizations/assumerole.py); none if it cannot be written."""
    from botocore.utils import JSONFileCache

    folder = Path.home() / ".aws" / "cli" / "cache"
    parent = next(each for each in (folder, *folder.parents) if each.exists())
    return JSONFileCache(str(folder)) if os.access(parent, os.W_OK | os.X_OK) else {}


def environment(found: Any) -> dict[str, str | None]:
    """Variables with the session's credentials. None removes a variable: a profile would be read again, and may need
    a code again. Empty if there are no credentials."""
    credentials = found.get_credentials()
    if credentials is None:
        return {}
    frozen = credentials.get_frozen_credentials()
    return {
        "AWS_ACCESS_KEY_ID": frozen.access_key,
        "AWS_SECRET_ACCESS_KEY": frozen.secret_key,
        "AWS_SESSION_TOKEN": frozen.token,
        "AWS_PROFILE": None,
        "AWS_DEFAULT_PROFILE": None,
    }


@contextmanager
def reading() -> Iterator[None]:
    """Raises AccessError for exceptions of botocore's providers that are not botocore's own, such as those of a
    `credential_process`."""
    try:
        yield
    except (ArithmeticError, AttributeError, LookupError, OSError, TypeError, ValueError) as error:
        who = f"the credentials of the profile {api_errors.profile()} cannot be read"
        raise AccessError(f"{who}: {_reason(error)}", api_errors.try_profile()) from None


def _reason(error: Exception) -> str:
    """Never shows what may be a secret."""
    if isinstance(error, json.JSONDecodeError):
        first = error.doc.strip().partition("\n")[0]
        begins = f" and begins with {first[:60]!r}" if first and not any(each in first for each in "{[") else ""
        return (
            f"the output of its credential_process is not JSON{begins}: it must print one JSON object and nothing else"
        )
    if isinstance(error, OSError):
        return f"{error.filename}: {error.strerror}" if error.filename else str(error)
    return f"{type(error).__name__} in its config file or in the output of its credential_process"
