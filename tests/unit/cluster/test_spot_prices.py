"""What spot capacity cost, from EC2's history: a change counts from its time on, and the first one is that before the
time asked for (EC2's API reference, DescribeSpotPriceHistory)."""

from __future__ import annotations

from datetime import UTC, datetime
from types import SimpleNamespace
from typing import Any

import boto3
import pytest
from botocore.stub import Stubber

from gpucluster.cluster import spot_prices
from gpucluster.errors import CloudError

HOUR = 3600.0
# The form of botocore's model and of the AWS CLI's examples: the newest change first, the price as text.
ANSWER = [
    {"Timestamp": datetime.fromtimestamp(at * HOUR, UTC), "SpotPrice": usd, "InstanceType": "g5.xlarge",
     "AvailabilityZone": "us-east-1a", "ProductDescription": "Linux/UNIX"}
    for at, usd in ((12.0, "0.500000"), (8.0, "0.400000"))
]  # fmt: skip


def cloud(stub: Stubber) -> Any:
    return SimpleNamespace(head=lambda: SimpleNamespace(zone="us-east-1a"), client=lambda name: stub.client)


@pytest.fixture
def stub() -> Stubber:
    client = boto3.client("ec2", region_name="us-east-1", aws_access_key_id="x", aws_secret_access_key="x")
    return Stubber(client)


def test_the_price_between_two_times_is_that_of_its_parts(stub: Stubber) -> None:
    asked = {
        "InstanceTypes": ["g5.xlarge"],
        "ProductDescriptions": ["Linux/UNIX"],
        "AvailabilityZone": "us-east-1a",
        "StartTime": datetime.fromtimestamp(10 * HOUR, UTC),
        "EndTime": datetime.fromtimestamp(14 * HOUR, UTC),
    }
    stub.add_response("describe_spot_price_history", {"SpotPriceHistory": ANSWER}, asked)
    with stub:
        found = spot_prices.read(cloud(stub), {"g5.xlarge"}, 10 * HOUR, 14 * HOUR)
    assert found.usd("g5.xlarge", 10 * HOUR, 14 * HOUR) == pytest.approx(2 * 0.40 + 2 * 0.50)
    assert found.usd("g5.xlarge", 13 * HOUR, 13.5 * HOUR) == pytest.approx(0.25)
    assert found.usd("g5.xlarge", 7 * HOUR, 9 * HOUR) is None
    assert found.usd("p5.48xlarge", 10 * HOUR, 14 * HOUR) is None
    stub.assert_no_pending_responses()


def test_a_refusal_is_an_error_with_awss_words(stub: Stubber) -> None:
    stub.add_client_error("describe_spot_price_history", "UnauthorizedOperation", "You are not authorized", 403)
    with stub, pytest.raises(CloudError, match="not authorized"):
        spot_prices.read(cloud(stub), {"g5.xlarge"}, 0.0, HOUR)
