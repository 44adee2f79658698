"""Ways to buy an instance: on demand, spot, from a capacity reservation, in a Capacity Block."""

from __future__ import annotations

import datetime
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from botocore.exceptions import ClientError

from localcloud.testing.place import ZONE, Place, code, reserved

BLOCK = {"InstanceMarketOptions": {"MarketType": "capacity-block"}}
OF_BLOCKS = {"InstanceType": "p4d.24xlarge"}  # no small type is sold in blocks
SPOT = {"InstanceMarketOptions": {"MarketType": "spot"}}


def reserve(place: Place, **more: Any) -> str:
    wanted = {
        "InstanceType": "m5.large",
        "InstancePlatform": "Linux/UNIX",
        "AvailabilityZone": ZONE,
        "InstanceCount": 1,
    }
    made = place.ec2.create_capacity_reservation(**(wanted | more))["CapacityReservation"]
    return str(made["CapacityReservationId"])


def block(place: Place, **more: Any) -> str:
    wanted = {"InstanceType": "p4d.24xlarge", "InstanceCount": 1, "CapacityDurationHours": 24}
    (offering,) = place.ec2.describe_capacity_block_offerings(**(wanted | more))["CapacityBlockOfferings"]
    offering_id = offering["CapacityBlockOfferingId"]
    bought = place.ec2.purchase_capacity_block(CapacityBlockOfferingId=offering_id, InstancePlatform="Linux/UNIX")
    return str(bought["CapacityReservation"]["CapacityReservationId"])


def found(place: Place, reservation_id: str) -> dict[str, Any]:
    ids = [reservation_id]
    (one,) = place.ec2.describe_capacity_reservations(CapacityReservationIds=ids)["CapacityReservations"]
    return dict(one)


@pytest.fixture
def group(place: Place) -> Iterator[str]:
    place.ec2.create_placement_group(GroupName="apart", Strategy="cluster")
    yield "apart"
    place.ec2.delete_placement_group(GroupName="apart")


def test_spot_instances_are_shown_as_spot(place: Place) -> None:
    (instance_id,) = place.run(**SPOT)
    assert place.describe(instance_id)[0]["InstanceLifecycle"] == "spot"
    place.ec2.terminate_instances(InstanceIds=[instance_id])


def test_a_reservation_has_room_for_its_instance_count(place: Place) -> None:
    reservation_id = reserve(place)
    assert found(place, reservation_id) | {"State": "active", "AvailableInstanceCount": 1} == found(
        place, reservation_id
    )
    (instance_id,) = place.run(**reserved(reservation_id))
    assert found(place, reservation_id)["AvailableInstanceCount"] == 0
    assert place.describe(instance_id)[0]["CapacityReservationId"] == reservation_id
    with pytest.raises(ClientError) as error:
        place.run(**reserved(reservation_id))
    assert code(error) == "ReservationCapacityExceeded"
    place.ec2.terminate_instances(InstanceIds=[instance_id])
    place.await_state("terminated", instance_id)
    assert found(place, reservation_id)["AvailableInstanceCount"] == 1
    place.ec2.cancel_capacity_reservation(CapacityReservationId=reservation_id)
    assert found(place, reservation_id)["State"] == "cancelled"


def test_a_launch_up_to_max_count_uses_the_rest_of_its_reservation(place: Place) -> None:
    """MaxCount: EC2 launches as many as it can above MinCount."""
    reservation_id = reserve(place, InstanceCount=2)
    launched = place.run(MinCount=1, MaxCount=5, **reserved(reservation_id))
    assert len(launched) == 2
    assert found(place, reservation_id)["AvailableInstanceCount"] == 0
    place.ec2.terminate_instances(InstanceIds=launched)


def test_a_stopped_instance_frees_its_place_in_a_reservation(place: Place) -> None:
    reservation_id = reserve(place)
    (first,) = place.run(**reserved(reservation_id))
    place.await_state("running", first)
    place.ec2.stop_instances(InstanceIds=[first])
    place.await_state("stopped", first)
    (second,) = place.run(**reserved(reservation_id))
    with pytest.raises(ClientError) as error:
        place.ec2.start_instances(InstanceIds=[first])
    assert code(error) == "ReservationCapacityExceeded"
    place.ec2.terminate_instances(InstanceIds=[first, second])


def test_launches_that_do_not_match_their_reservation(place: Place, group: str) -> None:
    here, elsewhere = reserve(place), reserve(place, AvailabilityZone="us-east-1b")
    other, gone = reserve(place, InstanceType="m5.xlarge"), reserve(place)
    place.ec2.cancel_capacity_reservation(CapacityReservationId=gone)
    refused = [
        (reserved(elsewhere), "ReservationCapacityExceeded"),
        (reserved(other), "ReservationCapacityExceeded"),
        (reserved(gone), "ReservationCapacityExceeded"),
        (reserved(here) | {"Placement": {"GroupName": group}}, "ReservationCapacityExceeded"),
        (reserved(here) | {"MinCount": 2, "MaxCount": 2}, "ReservationCapacityExceeded"),
        (reserved(here) | SPOT, "InvalidParameterCombination"),
        (reserved(here) | BLOCK, "InvalidParameterCombination"),
        (BLOCK, "InvalidParameterCombination"),
        (reserved("cr-0123456789abcdef0"), "InvalidCapacityReservationId.NotFound"),
    ]
    for request, expected in refused:
        with pytest.raises(ClientError) as error:
            place.run(**request)
        assert (code(error), request) == (expected, request)


def test_a_reservation_of_a_placement_group_is_launched_into_with_it(place: Place, group: str) -> None:
    arn = place.ec2.describe_placement_groups(GroupNames=[group])["PlacementGroups"][0]["GroupArn"]
    reservation_id = reserve(place, PlacementGroupArn=arn)
    (instance_id,) = place.run(**reserved(reservation_id), Placement={"GroupName": group})
    place.ec2.terminate_instances(InstanceIds=[instance_id])
    place.await_state("terminated", instance_id)


def test_a_capacity_block_takes_launches_of_its_market_type(place: Place) -> None:
    reservation_id = block(place)
    assert found(place, reservation_id)["ReservationType"] == "capacity-block"
    with pytest.raises(ClientError) as error:
        place.run(**reserved(reservation_id), **OF_BLOCKS)
    assert code(error) == "InvalidParameterValue"
    (instance_id,) = place.run(**reserved(reservation_id), **BLOCK, **OF_BLOCKS)
    assert place.describe(instance_id)[0]["InstanceLifecycle"] == "capacity-block"
    place.ec2.terminate_instances(InstanceIds=[instance_id])
    with pytest.raises(ClientError) as error:
        place.ec2.cancel_capacity_reservation(CapacityReservationId=reservation_id)
    assert code(error) == "UnsupportedOperation"


def test_a_capacity_block_that_has_not_begun_accepts_no_launch(place: Place) -> None:
    tomorrow = datetime.datetime.now(datetime.UTC) + datetime.timedelta(days=1)
    reservation_id = block(place, StartDateRange=tomorrow)
    assert found(place, reservation_id)["State"] == "scheduled"
    with pytest.raises(ClientError) as error:
        place.run(**reserved(reservation_id), **BLOCK, **OF_BLOCKS)
    assert code(error) == "ReservationCapacityExceeded"


def test_ec2_terminates_the_instances_of_a_capacity_block_half_an_hour_before_its_end(
    place: Place, own: Callable[..., Any]
) -> None:
    ending, other = block(place), block(place)
    ids = [place.run(**reserved(each), **BLOCK, **OF_BLOCKS)[0] for each in (ending, other)]
    place.await_state("running", *ids)
    own("POST", "faults", {"kind": "block-end", "reservation_id": ending, "delay_s": 2})
    left = found(place, ending)["EndDate"] - datetime.datetime.now(datetime.UTC)
    assert datetime.timedelta(minutes=29) < left < datetime.timedelta(minutes=31)
    place.await_state("terminated", ids[0])
    assert place.describe(ids[1])[0]["State"]["Name"] == "running"
    place.ec2.terminate_instances(InstanceIds=ids[1:])
