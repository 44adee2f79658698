"""The filters of each Describe action, read from its documentation in botocore's model."""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Any

from localcloud.ec2.validation.model import shape_of
from localcloud.validation.refusal import Refusal

# Names that botocore does not list: aws-cdk-lib sends isDefault
# (Vpc.fromLookup in aws-ec2/lib/vpc.ts); moto has the others.
_ALSO = {
    "DescribeAddresses": {"domain"},
    "DescribeInstances": {"group-id"},
    "DescribeSnapshots": {"kms-key-id"},
    "DescribeSubnets": {"vpcId"},
    "DescribeVpcEndpoints": {"vpc_endpoint_state", "vpc_endpoint_type"},
    "DescribeVpcs": {
        "InstanceTenancy", "cidr-block", "cidrBlock", "dhcpOptionsId", "instance_tenancy", "ipv6", "isDefault", "vpcId",
    },
}  # fmt: skip
_MOST_VALUES = 200
_MOST_FILTERS = 50


@lru_cache(maxsize=256)
def known(action: str) -> frozenset[str]:
    """Empty if the documentation lists none in a form that this can parse."""
    shape = shape_of(action)
    member = (shape.members.get("Filters") or shape.members.get("Filter")) if shape else None
    if member is None:
        return frozenset()
    names = re.findall(r"<li>\s*<p>\s*<code>\s*([a-z][^<]*?)\s*</code>", member.documentation)
    if not names:
        return frozenset()
    others = re.findall(r"You can also use (.*?) as the filter name", member.documentation)
    aliases = re.findall(r"<code>\s*([^<]+?)\s*</code>", " ".join(others))
    return frozenset([*names, *aliases, *_ALSO.get(action, ())])


def check(action: str, parameters: dict[str, Any]) -> None:
    given = parameters.get("Filters") or parameters.get("Filter") or []
    names = known(action)
    if not isinstance(given, list) or len(given) > _MOST_FILTERS:
        raise Refusal("FilterLimitExceeded", f"The maximum number of filters is {_MOST_FILTERS}.")
    for each in given:
        name, values = str(each.get("Name") or ""), each.get("Values") or []
        if names and name not in names and not name.startswith(("tag:", "tag-")):
            raise Refusal("InvalidParameterValue", f"The filter '{name}' is invalid")
        if len(values) > _MOST_VALUES:
            raise Refusal(
                "FilterLimitExceeded",
                f"The maximum number of filter values specified on a single call is {_MOST_VALUES}.",
            )
