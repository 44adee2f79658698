"""Pages of Describe actions: moto returns most of them whole, or truncated without a token."""

from __future__ import annotations

import base64
import binascii
from typing import Any

from moto.core.common_types import TYPE_RESPONSE
from moto.core.responses import ActionResult
from moto.core.utils import get_pagination_model
from moto.ec2.responses import EC2Response

from localcloud.validation.refusal import Refusal

_OWN = {"DescribeInstances"}  # moto's own pages, of reservations
# https://docs.aws.amazon.com/AWSEC2/latest/APIReference/API_DescribeInstanceTypes.html
# and API_DescribeInstanceTopology.html; that of the latter says nothing about a request with ids.
_WITHOUT_ASKING = {"DescribeInstanceTypes": 100, "DescribeInstanceTopology": 20}
_ALL = 1000
_MARK = "localcloud:"


class Pages(EC2Response):
    _page: tuple[str, int, int] | None = None
    """The member of the answer that is split, the start, and the size."""

    def call_action(self) -> TYPE_RESPONSE:
        self._page = self._asked()
        try:
            response: TYPE_RESPONSE = super().call_action()
        except ValueError:
            if given := self.params.get("NextToken"):  # moto expects a list
                raise _invalid(given) from None
            raise
        return response

    def _asked(self) -> tuple[str, int, int] | None:
        action = self._get_action()
        described = get_pagination_model("ec2").get(action)
        if described is None or action in _OWN or not isinstance(described["result_key"], str):
            return None
        token, most = self.params.pop("NextToken", None), self.params.pop("MaxResults", None)
        if action == "DescribeLaunchTemplates":
            self.params["MaxResults"] = 1_000_000  # moto cuts at 15
        return described["result_key"], start(token), min(int(most or _WITHOUT_ASKING.get(action, _ALL)), _ALL)

    def serialized(self, action_result: ActionResult) -> TYPE_RESPONSE:
        result: Any = action_result.result
        if self._page and isinstance(result, dict) and isinstance(result.get(self._page[0]), list):
            member, begin, most = self._page
            found = result[member]
            if begin > len(found):
                raise _invalid(token(begin))
            result[member] = found[begin : begin + most]
            if len(found) > begin + most:
                result["NextToken"] = token(begin + most)
        return super().serialized(action_result)


def token(begin: int) -> str:
    return base64.b64encode(f"{_MARK}{begin}".encode()).decode()


def start(given: str | None) -> int:
    if not given:
        return 0
    try:
        return int(base64.b64decode(given, validate=True).decode().removeprefix(_MARK))
    except (binascii.Error, ValueError):
        raise _invalid(given) from None


def _invalid(given: str) -> Refusal:
    return Refusal("InvalidNextToken", f"The token '{given}' is invalid")
