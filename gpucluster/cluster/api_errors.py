"""AWS's errors as ours: what is wrong, and what to do."""

from __future__ import annotations

import os
import re
import urllib.request
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from getpass import GetPassWarning
from typing import Any
from urllib.parse import urlsplit

from gpucluster.errors import AccessError, AwsError

ATTEMPTS = 6
"""How often a call is made that AWS throttles or does not answer. If AWS throttles, botocore's mode `standard` pauses
up to 1, 2, 4, 8 and 16 s between them, and half of that on average; otherwise a twentieth
(botocore/retries/standard.py). So an error comes after about 15 s, or about one."""
CREDENTIALS = (
    "AuthFailure",
    "ExpiredToken",
    "ExpiredTokenException",
    "InvalidClientTokenId",
    "InvalidSignatureException",
    "RequestExpired",
    "RequestTimeTooSkewed",
    "SignatureDoesNotMatch",
    "UnrecognizedClientException",
)
"""Error codes of every service: AWS rejects the caller, not this call."""
_THROTTLED = (
    "EC2ThrottledException",
    "RequestLimitExceeded",
    "RequestThrottled",
    "RequestThrottledException",
    "SlowDown",
    "Throttling",
    "ThrottlingException",
    "TooManyRequestsException",
)
_DENIED = ("AccessDenied", "AccessDeniedException", "UnauthorizedOperation")
_SKEWED = re.compile(r"Signature (expired|not yet current)|request time and the current time is too large")
"""The reference of AWS Signature Version 4, "Troubleshooting"; Amazon S3, "Error responses": RequestTimeTooSkewed."""
_EXPIRED = re.compile(r"refreshed credentials are still expired")
"""The RuntimeError that botocore raises if a profile or the environment has only credentials that have expired."""
_WEB_PAGE = re.compile(rb"<html\b|<!doctype html\b", re.IGNORECASE)
_TITLE = re.compile(rb"<title>\s*([^<]{1,100})", re.IGNORECASE)
_TOLERATED_S = 240
"""AWS refuses a signature after 5 minutes."""


@contextmanager
def aws_errors() -> Iterator[None]:
    """Translates botocore's exceptions into ours, with a hint."""
    from botocore.exceptions import BotoCoreError, ClientError, EndpointConnectionError
    from botocore.parsers import ResponseParserError

    try:
        yield
    except EndpointConnectionError as error:
        endpoint = error.kwargs.get("endpoint_url", "AWS")
        raise AwsError(
            f"{endpoint} does not answer",
            "check the network; `gpucluster up --local` starts a local cloud again",
        ) from None
    except ClientError as error:
        raise _client_error(error) from None
    except BotoCoreError as error:
        raise _botocore_error(error) from None
    except ResponseParserError as error:
        raise AwsError(f"AWS's answer cannot be read: {str(error).splitlines()[0]}", _between()) from None
    except RuntimeError as error:
        if not _EXPIRED.search(str(error)):
            raise
        raise _expired() from None
    except (GetPassWarning, EOFError):
        raise AccessError(
            f"the profile {profile()} asks for an MFA code, and there is no terminal to type it into",
            "run `gpucluster status` in a terminal first: the session is kept for other commands until it expires",
        ) from None


def profile() -> str:
    return os.environ.get("AWS_PROFILE") or os.environ.get("AWS_DEFAULT_PROFILE") or "default"


def refuse_web_page(operation_model: Any, response_dict: Mapping[str, Any], **_: Any) -> None:
    """A handler of botocore's event `before-parse`. Raises AwsError if the answer is a web page, which AWS's APIs send
    only with a status of 500 or more."""
    status, body = response_dict["status_code"], response_dict.get("body")
    if status >= 500 or not isinstance(body, bytes) or not _WEB_PAGE.search(body[:1000]):
        return
    title = _TITLE.search(body)
    said = f" ({title[1].decode(errors='replace').strip()})" if title else ""
    raise AwsError(f"{operation_model.name}: HTTP {status} with a web page{said} instead of AWS's answer", _between())


def _between() -> str:
    proxy = urlsplit(urllib.request.getproxies().get("https", ""))
    who = f"the proxy {proxy.scheme}://{proxy.hostname}:{proxy.port} (HTTPS_PROXY)" if proxy.hostname else "a proxy"
    return f"{who} or a gateway of your network answered: log in to it, or add amazonaws.com to NO_PROXY"


def _botocore_error(error: Exception) -> AwsError:
    """Errors before a call, mostly of the user's profile and credentials."""
    from botocore import exceptions as known

    match error:
        case known.NoCredentialsError() | known.PartialCredentialsError():
            hint = "run `aws sso login` or `aws configure`, or set AWS_PROFILE"
            return AccessError(f"no AWS credentials: {error}", hint)
        case known.ProfileNotFound():
            return AccessError(str(error), "correct AWS_PROFILE; `aws configure list-profiles` lists the profiles")
        case known.SSOError() | known.TokenRetrievalError() | known.LoginError():
            login = "login" if isinstance(error, known.LoginError) else "sso login"
            return AccessError(f"you are not logged in to AWS: {error}", f"aws {login} --profile {profile()}")
        case known.ConfigParseError():
            return AccessError(str(error), "correct that file, or set AWS_CONFIG_FILE to another one")
        case known.ProxyConnectionError():
            return AwsError(str(error), _between())
        case known.SSLError():
            hint = "if your network inspects TLS, set AWS_CA_BUNDLE to the file with its certificate authority"
            return AwsError(f"AWS: {error}", hint)
        case (
            known.CredentialRetrievalError()
            | known.InfiniteLoopConfigError()
            | known.InvalidConfigError()
            | known.MetadataRetrievalError()
            | known.UnknownCredentialError()
        ):
            return AccessError(f"the credentials of the profile {profile()}: {error}", try_profile())
    return AwsError(f"AWS: {error}")


def _expired() -> AccessError:
    if "AWS_CREDENTIAL_EXPIRATION" in os.environ:
        hint = "set AWS_ACCESS_KEY_ID and the others anew, AWS_CREDENTIAL_EXPIRATION too; or unset them all"
        return AccessError("your AWS credentials have expired: AWS_CREDENTIAL_EXPIRATION is over", hint)
    return AccessError(f"your AWS credentials have expired: those of the profile {profile()}", "log in again")


def try_profile() -> str:
    return f"correct the profile; `aws sts get-caller-identity --profile {profile()}` tries it"


def _clock(error: Any) -> str:
    """What to do if AWS rejects the caller because this machine's clock is wrong; else empty."""
    sent = error.response.get("ResponseMetadata", {}).get("HTTPHeaders", {}).get("date")
    try:
        ahead_s = (datetime.now(UTC) - parsedate_to_datetime(sent)).total_seconds() if sent else 0.0
    except (TypeError, ValueError):
        ahead_s = 0.0
    if abs(ahead_s) < _TOLERATED_S and not _SKEWED.search(error.response.get("Error", {}).get("Message") or ""):
        return ""
    what = f"{abs(ahead_s) / 60:.0f} minutes {'ahead of' if ahead_s > 0 else 'behind'} AWS's"
    wrong = what if abs(ahead_s) >= _TOLERATED_S else "probably wrong"
    return f"this machine's clock is {wrong}: set it, for example with `sudo timedatectl set-ntp true`"


def _client_error(error: Any) -> AwsError:
    details = error.response.get("Error", {})
    code, message = details.get("Code", "unknown"), details.get("Message") or ""
    status = error.response.get("ResponseMetadata", {}).get("HTTPStatusCode", 0)
    if code in _THROTTLED:
        what = f"AWS refused {ATTEMPTS} attempts, because this account calls its API in this region too often"
        return AwsError(f"{error.operation_name}: {code}: {message}", f"{what}: try again in a minute")
    if status >= 500:
        what = (
            f"AWS failed {ATTEMPTS} attempts: try again in a few minutes; https://health.aws.amazon.com shows outages"
        )
        return AwsError(f"{error.operation_name}: {code}: {message}", what)
    hint = None
    if code in CREDENTIALS:
        hint = _clock(error) or "your AWS credentials are wrong or have expired: log in again"
    elif code in _DENIED:
        hint = "your AWS identity lacks this permission"
    elif not message:
        return AwsError(f"{error.operation_name}: HTTP {status} without a message of AWS", _between())
    kind = AccessError if hint else AwsError
    return kind(f"{error.operation_name}: {code}: {message}", hint)
