"""AWS's errors for invalid signatures and credentials, in each protocol's form.

EC2: https://docs.aws.amazon.com/AWSEC2/latest/APIReference/errors-overview.html, S3:
https://docs.aws.amazon.com/AmazonS3/latest/API/ErrorResponses.html, the others:
https://docs.aws.amazon.com/IAM/latest/APIReference/CommonErrors.html and, for JSON, observed answers of DynamoDB
(yegor256/s3auth#244, aws/aws-sdk-js#284).
"""

from __future__ import annotations

from typing import NamedTuple

from werkzeug import Response

from localcloud.protocol import answers
from localcloud.protocol.calls import Call

_MISMATCH = (
    "The request signature we calculated does not match the signature you provided. Check your AWS Secret Access Key "
    "and signing method. Consult the service documentation for details."
)
_INVALID_TOKEN = "The security token included in the request is invalid."
_NOT_VALIDATED = "AWS was not able to validate the provided access credentials"
_HINT = " (`python -m localcloud env --name NAME` prints the keys of a local cloud)"


class Refused(Exception):
    """`kind` is a key of the tables below; `signed` and `now` are times as signatures write them."""

    def __init__(self, kind: str, signed: str = "", now: str = "") -> None:
        super().__init__(kind)
        self.kind, self.signed, self.now = kind, signed, now


class _Error(NamedTuple):
    code: str
    status: int
    message: str


_EC2 = {
    "unknown-key": _Error("AuthFailure", 401, _NOT_VALIDATED + _HINT),
    "token-expired": _Error("RequestExpired", 400, "Request has expired."),
    "skewed": _Error("RequestExpired", 400, "Request has expired."),
    "expired": _Error("RequestExpired", 400, "Request has expired."),
}
_S3 = {
    "missing": _Error("AccessDenied", 403, "Access Denied"),
    "unknown-key": _Error(
        "InvalidAccessKeyId", 403, "The AWS Access Key Id you provided does not exist in our records." + _HINT
    ),
    "token-expired": _Error("ExpiredToken", 400, "The provided token has expired."),
    "skewed": _Error(
        "RequestTimeTooSkewed", 403, "The difference between the request time and the current time is too large."
    ),
    "expired": _Error("AccessDenied", 403, "Request has expired"),
    "incomplete": _Error(
        "AuthorizationHeaderMalformed", 400, "The authorization header that you provided is not valid."
    ),
    "other-body": _Error(
        "XAmzContentSHA256Mismatch",
        400,
        "The provided 'x-amz-content-sha256' header does not match what was computed.",
    ),
}
_JSON = {
    "missing": _Error("MissingAuthenticationTokenException", 403, "Missing Authentication Token"),
    "unknown-key": _Error("UnrecognizedClientException", 400, _INVALID_TOKEN + _HINT),
    "token-expired": _Error("ExpiredTokenException", 400, "The security token included in the request is expired"),
    "skewed": _Error("InvalidSignatureException", 400, "Signature expired: {signed} is not within 15 min. of {now}"),
    "expired": _Error("InvalidSignatureException", 400, "Signature expired: {signed}"),
    "mismatch": _Error("InvalidSignatureException", 400, _MISMATCH),
    "other-body": _Error("InvalidSignatureException", 400, _MISMATCH),
    "incomplete": _Error(
        "IncompleteSignatureException", 400, "The request signature does not conform to AWS standards."
    ),
}
_QUERY = {
    "missing": _Error("MissingAuthenticationToken", 403, "Request is missing Authentication Token"),
    "unknown-key": _Error("InvalidClientTokenId", 403, _INVALID_TOKEN + _HINT),
    "token-expired": _Error("ExpiredToken", 403, "The security token included in the request is expired"),
    "skewed": _Error("SignatureDoesNotMatch", 403, "Signature expired: {signed} is not within 15 min. of {now}"),
    "expired": _Error("SignatureDoesNotMatch", 403, "Signature expired: {signed}"),
    "mismatch": _Error("SignatureDoesNotMatch", 403, _MISMATCH),
    "other-body": _Error("SignatureDoesNotMatch", 403, _MISMATCH),
    "incomplete": _Error("IncompleteSignature", 400, "The request signature does not conform to AWS standards."),
}


def answer(call: Call, refused: Refused) -> Response:
    if call.service == "ec2":
        error = _EC2.get(refused.kind, _QUERY[refused.kind])
    elif call.service == "s3":
        error = _S3.get(refused.kind, _QUERY[refused.kind])
    elif answers.in_json(call):
        error = _JSON[refused.kind]
    else:
        error = _QUERY[refused.kind]
    message = error.message.format(signed=refused.signed, now=refused.now)
    return answers.error(call, error.code, message, status=error.status)
