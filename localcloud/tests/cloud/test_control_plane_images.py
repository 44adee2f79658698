"""EC2's API for images of instances: names, states, launches."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any

import pytest
from botocore.exceptions import ClientError

from localcloud.testing import patience
from localcloud.testing.place import Place, code


@pytest.fixture(scope="module")
def running(place: Place) -> Iterator[str]:
    (instance_id,) = place.run()
    place.await_state("running", instance_id)
    yield instance_id


def image(place: Place, image_id: str) -> dict[str, Any]:
    found: dict[str, Any] = place.ec2.describe_images(ImageIds=[image_id])["Images"][0]
    return found


def created(place: Place, instance_id: str, name: str, **more: Any) -> str:
    image_id: str = place.ec2.create_image(InstanceId=instance_id, Name=name, **more)["ImageId"]
    deadline = patience.seconds() + 10
    while image(place, image_id)["State"] != "available":
        assert patience.seconds() < deadline, f"{image_id} never became available"
        time.sleep(0.05)
    return image_id


def test_an_image_of_an_instance_is_private_and_like_its_source(place: Place, running: str) -> None:
    tags = [
        {"ResourceType": "image", "Tags": [{"Key": "recipe", "Value": "12ab"}]},
        {"ResourceType": "snapshot", "Tags": [{"Key": "recipe", "Value": "12ab"}]},
    ]
    made = created(place, running, "one", TagSpecifications=tags)
    own = place.ec2.describe_images(Owners=["self"], Filters=[{"Name": "tag:recipe", "Values": ["12ab"]}])["Images"]
    assert [each["ImageId"] for each in own] == [made]
    source = image(place, place.image_id)
    alike = ("Architecture", "VirtualizationType", "RootDeviceName", "RootDeviceType")
    assert {key: own[0][key] for key in alike} == {key: source[key] for key in alike}
    snapshot = own[0]["BlockDeviceMappings"][0]["Ebs"]["SnapshotId"]
    assert place.ec2.describe_snapshots(SnapshotIds=[snapshot])["Snapshots"][0]["Tags"][0]["Key"] == "recipe"
    (launched,) = place.run(ImageId=made)
    assert place.describe(launched)[0]["ImageId"] == made
    place.ec2.deregister_image(ImageId=made)


def test_an_image_name_can_be_used_only_once(place: Place, running: str) -> None:
    made = created(place, running, "taken")
    with pytest.raises(ClientError) as error:
        place.ec2.create_image(InstanceId=running, Name="taken")
    assert code(error) == "InvalidAMIName.Duplicate"
    place.ec2.deregister_image(ImageId=made)
    place.ec2.deregister_image(ImageId=created(place, running, "taken"))


def test_a_deregistered_image_cannot_be_launched(place: Place, running: str) -> None:
    made = created(place, running, "withdrawn", NoReboot=True)
    snapshot = image(place, made)["BlockDeviceMappings"][0]["Ebs"]["SnapshotId"]
    place.ec2.deregister_image(ImageId=made, DeleteAssociatedSnapshots=True)
    with pytest.raises(ClientError) as error:
        place.run(ImageId=made)
    assert code(error) == "InvalidAMIID.Unavailable"
    with pytest.raises(ClientError) as error:
        place.ec2.describe_snapshots(SnapshotIds=[snapshot])
    assert code(error) == "InvalidSnapshot.NotFound"


@pytest.mark.parametrize(
    ("request_", "answer"),
    [
        ({"Name": "a" * 129}, "InvalidAMIName.Malformed"),
        ({"InstanceId": "i-00000000000000000"}, "InvalidInstanceID.NotFound"),
        ({"DryRun": True}, "DryRunOperation"),
    ],
)
def test_create_image_refuses_wrong_requests(place: Place, running: str, request_: dict[str, Any], answer: str) -> None:
    with pytest.raises(ClientError) as error:
        place.ec2.create_image(**({"InstanceId": running, "Name": "refused"} | request_))
    assert code(error) == answer


def test_a_terminated_instance_has_no_disk_to_copy(place: Place) -> None:
    (gone,) = place.run()
    place.ec2.terminate_instances(InstanceIds=[gone])
    place.await_state("terminated", gone)
    with pytest.raises(ClientError) as error:
        place.ec2.create_image(InstanceId=gone, Name="too-late")
    assert code(error) == "IncorrectInstanceState"
