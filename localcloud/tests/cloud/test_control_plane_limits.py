"""Answers for validators' calls before a deployment (quotas, offerings, addresses, keys, buckets), and launches beyond
them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from botocore.exceptions import ClientError

from localcloud.testing.place import ZONE, Place, code

P_ON_DEMAND, P_SPOT, STANDARD = "L-417A185B", "L-7212CCBC", "L-1216C47A"


def value(place: Place, quota_code: str) -> float:
    answer = place.cloud.client("service-quotas").get_service_quota(ServiceCode="ec2", QuotaCode=quota_code)
    return float(answer["Quota"]["Value"])


def test_quotas_are_listed_and_read(place: Place) -> None:
    listed = place.cloud.client("service-quotas").list_service_quotas(ServiceCode="ec2")["Quotas"]
    codes = {quota["QuotaCode"] for quota in listed}
    assert {P_ON_DEMAND, P_SPOT, STANDARD, "L-DB2E81BA"} <= codes
    with pytest.raises(ClientError) as error:
        value(place, "L-00000000")
    assert code(error) == "NoSuchResourceException"


@pytest.mark.parametrize(
    ("quota_code", "request_", "refusal"),
    [
        (STANDARD, {"InstanceType": "m5.large", "MinCount": 3, "MaxCount": 3}, "VcpuLimitExceeded"),
        (P_ON_DEMAND, {"InstanceType": "p4d.24xlarge"}, "VcpuLimitExceeded"),
        (P_SPOT, {"InstanceType": "p4d.24xlarge", "InstanceMarketOptions": {"MarketType": "spot"}},
         "MaxSpotInstanceCountExceeded"),
        ("L-DB2E81BA", {"InstanceType": "g5.12xlarge"}, "VcpuLimitExceeded"),
    ],
)  # fmt: skip
def test_a_launch_beyond_its_quota_is_refused(
    place: Place, own: Callable[..., Any], quota_code: str, request_: dict[str, Any], refusal: str
) -> None:
    own("POST", "faults", {"kind": "quota", "quota_code": quota_code, "value": 0})
    own("POST", "faults", {"kind": "quota", "quota_code": quota_code, "value": 4})
    assert value(place, quota_code) == 4
    with pytest.raises(ClientError) as error:
        place.run(**request_)
    assert code(error) == refusal


def test_a_launch_up_to_max_count_uses_the_rest_of_its_quota(place: Place, own: Callable[..., Any]) -> None:
    own("POST", "faults", {"kind": "quota", "quota_code": "L-2C3B7624", "value": 300})
    launched = place.run(InstanceType="trn1.32xlarge", MinCount=1, MaxCount=5)
    assert len(launched) == 2
    place.ec2.terminate_instances(InstanceIds=launched)
    place.await_state("terminated", *launched)


def test_terminated_and_stopped_instances_free_their_quota(place: Place, own: Callable[..., Any]) -> None:
    own("POST", "faults", {"kind": "quota", "quota_code": "L-2C3B7624", "value": 128})
    request = {"InstanceType": "trn1.32xlarge"}
    (first,) = place.run(**request)
    with pytest.raises(ClientError) as error:
        place.run(**request)
    assert code(error) == "VcpuLimitExceeded"
    place.await_state("running", first)
    place.ec2.stop_instances(InstanceIds=[first])
    place.await_state("stopped", first)
    (second,) = place.run(**request)
    with pytest.raises(ClientError) as error:
        place.ec2.start_instances(InstanceIds=[first])
    assert code(error) == "VcpuLimitExceeded"
    place.ec2.terminate_instances(InstanceIds=[first, second])


@pytest.mark.parametrize(("location_type", "location"), [("availability-zone", ZONE), ("availability-zone-id", "")])
def test_a_zone_can_lack_a_type(place: Place, own: Callable[..., Any], location_type: str, location: str) -> None:
    zones = place.ec2.describe_availability_zones()["AvailabilityZones"]
    ids = {zone["ZoneName"]: zone["ZoneId"] for zone in zones}

    def offered() -> set[str]:
        filters = [{"Name": "instance-type", "Values": ["m5.large"]}]
        answer = place.ec2.describe_instance_type_offerings(LocationType=location_type, Filters=filters)
        return {each["Location"] for each in answer["InstanceTypeOfferings"]}

    before = offered()
    own("POST", "faults", {"kind": "not-offered", "instance_type": "m5.large", "availability_zone": ZONE})
    assert before - offered() == {location or ids[ZONE]}
    with pytest.raises(ClientError) as error:
        place.run()
    assert code(error) == "Unsupported"


def test_subnets_show_their_free_addresses(place: Place) -> None:
    made = place.ec2.create_subnet(VpcId=place.vpc_id, CidrBlock="10.0.64.0/24", AvailabilityZone=ZONE)["Subnet"]
    subnet_id = made["SubnetId"]

    def free() -> int:
        (subnet,) = place.ec2.describe_subnets(SubnetIds=[subnet_id])["Subnets"]
        return int(subnet["AvailableIpAddressCount"])

    assert free() == 251
    (instance_id,) = place.run(InstanceType="p4d.24xlarge", NetworkInterfaces=place.efa(4, SubnetId=subnet_id))
    assert free() == 247
    place.ec2.terminate_instances(InstanceIds=[instance_id])
    place.await_state("terminated", instance_id)
    assert free() == 251
    place.ec2.delete_subnet(SubnetId=subnet_id)


def test_keys_and_buckets_can_be_described(place: Place) -> None:
    kms, s3 = place.cloud.client("kms"), place.cloud.client("s3")
    key_id = kms.create_key()["KeyMetadata"]["KeyId"]
    assert kms.describe_key(KeyId=key_id)["KeyMetadata"]["Enabled"] is True
    kms.disable_key(KeyId=key_id)
    assert kms.describe_key(KeyId=key_id)["KeyMetadata"]["KeyState"] == "Disabled"
    s3.create_bucket(Bucket="elsewhere", CreateBucketConfiguration={"LocationConstraint": "eu-central-1"})
    assert s3.get_bucket_location(Bucket="elsewhere")["LocationConstraint"] == "eu-central-1"
    s3.delete_bucket(Bucket="elsewhere")
