"""What `up` does to a stack before and after the CDK command line, which does not run here. Nothing boots."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Any

import pytest

from gpucluster.cluster import deployment, stack, tagged_instances
from gpucluster.errors import DeployError
from localcloud.testing.place import DLAMI

NAME = "Small"
SERVICES = [each.name for each in fields(deployment.Clients)]


def template(*, volume_gib: int = 1, fails: bool = False, waits: bool = False) -> dict[str, Any]:
    """`fails`: with a last resource that EC2 refuses. `waits`: the head node is replaced, and then never signals."""
    tags = [{"Key": "gpucluster:cluster", "Value": NAME}, {"Key": "gpucluster:role", "Value": "head"}]
    image = {"Type": "AWS::SSM::Parameter::Value<AWS::EC2::Image::Id>", "Default": DLAMI}
    resources: dict[str, dict[str, Any]] = {
        "Vpc": {"Type": "AWS::EC2::VPC", "Properties": {"CidrBlock": "10.9.0.0/16"}},
        "Subnet": _subnet("10.9.1.0/24"),
        "Head": {
            "Type": "AWS::EC2::Instance",
            "Properties": {
                "ImageId": {"Ref": "Image"}, "InstanceType": "m6i.large", "SubnetId": {"Ref": "Subnet"},
                "DisableApiTermination": True, "Tags": tags,
            },
            "DependsOn": ["Home"],
        },
        "Home": {"Type": "AWS::EC2::Volume", "Properties": {"AvailabilityZone": "us-east-1a", "Size": volume_gib}},
    }  # fmt: skip
    if waits:
        resources["Head"]["Properties"]["PrivateIpAddress"] = "10.9.1.77"
        resources["Head"]["CreationPolicy"] = {"ResourceSignal": {"Timeout": "PT15M"}}
        resources["Last"] = {**_subnet("192.168.77.0/24"), "DependsOn": ["Home"]}
    if fails:
        resources["Last"] = {**_subnet("192.168.77.0/24"), "DependsOn": ["Head", "Home"]}
    outputs = {"BundleVersion": {"Value": "ffff"}}
    return {"Parameters": {"Image": image}, "Resources": resources, "Outputs": outputs}


def _subnet(cidr: str) -> dict[str, Any]:
    place = {"VpcId": {"Ref": "Vpc"}, "AvailabilityZone": "us-east-1a"}
    return {"Type": "AWS::EC2::Subnet", "Properties": {**place, "CidrBlock": cidr}}


def another_like(ec2: Any, instance_id: str) -> str:
    """Launches a second instance with the tags and the protection of the first."""
    like = ec2.describe_instances(InstanceIds=[instance_id])["Reservations"][0]["Instances"][0]
    tags = [tag for tag in like["Tags"] if not tag["Key"].startswith("aws:")]
    made = ec2.run_instances(
        ImageId=like["ImageId"], InstanceType=like["InstanceType"], SubnetId=like["SubnetId"],
        SecurityGroupIds=[group["GroupId"] for group in like["SecurityGroups"]],
        TagSpecifications=[{"ResourceType": "instance", "Tags": tags}], DisableApiTermination=True,
        MinCount=1, MaxCount=1,
    )  # fmt: skip
    return str(made["Instances"][0]["InstanceId"])


def heads(ec2: Any, cluster: str) -> dict[str, str]:
    """Instance id -> state, of those that are not terminated."""
    found = tagged_instances.find(ec2, tagged_instances.NOT_TERMINATED, cluster=cluster, role="head")
    return {each["InstanceId"]: each["State"]["Name"] for each in found if each["State"]["Name"] != "shutting-down"}


@dataclass(frozen=True)
class WithoutCdk(deployment.Deployment):
    bundle: str = ""
    """The synthesized version."""

    def _bootstrap(self, *_: object) -> None:
        pass

    def _run(self, *_: object, **__: object) -> list[str]:
        self._assembly.mkdir(exist_ok=True)
        synthesized = {"Outputs": {"BundleVersion": {"Value": self.bundle}}}
        (self._assembly / f"{NAME}.template.json").write_text(json.dumps(synthesized))
        return ["(no changes)"]


@dataclass
class Place:
    clients: deployment.Clients
    said: list[str]

    def here(self, folder: Path) -> WithoutCdk:
        return WithoutCdk(NAME, "us-east-1", folder / "cluster.yaml", folder, dict, self.clients, self.said.append)

    def up(self, folder: Path) -> None:
        here = self.here(folder)
        here.up({}, since=here.last_change())

    def create(self, wanted: str, **changes: Any) -> None:
        create = self.clients.cloudformation.create_stack
        create(StackName=NAME, TemplateBody=json.dumps(template(**changes)), EnableTerminationProtection=True)
        self.ends_in(wanted)

    def update(self, wanted: str, **changes: Any) -> None:
        self.clients.cloudformation.update_stack(StackName=NAME, TemplateBody=json.dumps(template(**changes)))
        self.ends_in(wanted)

    def ends_in(self, wanted: str | None) -> None:
        for _ in stack.follow(self.clients.cloudformation, NAME, interval_s=0.2):
            pass
        assert stack.status(self.clients.cloudformation, NAME) == wanted

    def heads(self) -> dict[str, str]:
        return heads(self.clients.ec2, NAME)


@pytest.fixture
def place(control_plane: Any) -> Iterator[Place]:
    place = Place(deployment.Clients(**{service: control_plane.client(service) for service in SERVICES}), [])
    yield place
    place.clients.cloudformation.update_termination_protection(StackName=NAME, EnableTerminationProtection=False)
    for head in place.heads():
        place.clients.ec2.modify_instance_attribute(InstanceId=head, DisableApiTermination={"Value": False})
    place.clients.cloudformation.delete_stack(StackName=NAME)
    place.ends_in(None)


def test_a_stopped_head_is_started_and_a_replaced_one_terminated(place: Place, tmp_path: Path) -> None:
    place.create("CREATE_COMPLETE")
    (head,) = place.heads()
    place.update("UPDATE_COMPLETE", volume_gib=2)
    left = another_like(place.clients.ec2, head)
    place.clients.ec2.stop_instances(InstanceIds=[head])
    place.up(tmp_path)
    assert f"starting the head node {head}, which is stopped" in place.said
    assert f"terminating {left}, which is no longer the head node" in place.said
    assert list(place.heads()) == [head]


def test_the_protection_of_a_cluster_that_was_never_created_is_lifted(place: Place, tmp_path: Path) -> None:
    place.create("ROLLBACK_FAILED", fails=True)
    assert stack.protected(place.clients.cloudformation, NAME)
    place.up(tmp_path)
    assert f"lifting the termination protection of {NAME}" in place.said
    assert not stack.protected(place.clients.cloudformation, NAME)
    (head,) = place.heads()
    place.clients.ec2.terminate_instances(InstanceIds=[head])  # EC2 no longer refuses it


def test_an_update_that_could_not_be_rolled_back_keeps_what_has_grown(place: Place, tmp_path: Path) -> None:
    place.create("CREATE_COMPLETE")
    place.update("UPDATE_ROLLBACK_FAILED", volume_gib=2, fails=True)
    place.up(tmp_path)
    assert "the last update could not be rolled back: keeping what is stuck, rolling back the rest" in place.said
    assert "kept as the last update left it: Home" in place.said
    assert stack.status(place.clients.cloudformation, NAME) == "UPDATE_ROLLBACK_COMPLETE"


def test_a_cancelled_resource_is_rolled_back_and_not_kept(place: Place, tmp_path: Path) -> None:
    """CloudFormation refuses to skip it, although it is UPDATE_FAILED as well."""
    cloudformation = place.clients.cloudformation
    place.create("CREATE_COMPLETE")
    (head,) = place.heads()
    place.update("UPDATE_ROLLBACK_FAILED", volume_gib=2, waits=True)
    found = cloudformation.describe_stack_resource(StackName=NAME, LogicalResourceId="Head")["StackResourceDetail"]
    assert found["ResourceStatus"] == "UPDATE_FAILED" and "cancelled" in found["ResourceStatusReason"]
    place.up(tmp_path)
    assert "kept as the last update left it: Home" in place.said
    assert stack.status(cloudformation, NAME) == "UPDATE_ROLLBACK_COMPLETE"
    assert head in place.heads()


def test_a_roll_back_that_never_ends_is_reported(place: Place, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    place.create("CREATE_COMPLETE")
    place.update("UPDATE_ROLLBACK_FAILED", volume_gib=2, fails=True)
    cloudformation = place.clients.cloudformation
    again = cloudformation.continue_update_rollback
    monkeypatch.setattr(cloudformation, "continue_update_rollback", lambda StackName, **_: again(StackName=StackName))
    with pytest.raises(DeployError, match="Home") as error:
        place.up(tmp_path)
    assert "cannot be rolled back" in str(error.value)
    monkeypatch.undo()
    place.up(tmp_path)
    assert stack.status(cloudformation, NAME) == "UPDATE_ROLLBACK_COMPLETE"


def test_a_change_by_another_run_since_the_comparison_is_refused(place: Place, tmp_path: Path) -> None:
    place.create("CREATE_COMPLETE")
    here = place.here(tmp_path)
    compared = here.last_change()
    place.update("UPDATE_COMPLETE", volume_gib=2)
    said = "Small: another run has changed the cluster at the same time: the stack is UPDATE_COMPLETE now"
    with pytest.raises(deployment.OvertakenError, match=said):
        here.up({}, since=compared)
    here.up({}, since=here.last_change())


def test_success_is_not_reported_for_a_bundle_that_is_not_deployed(place: Place, tmp_path: Path) -> None:
    place.create("CREATE_COMPLETE")
    here = replace(place.here(tmp_path), bundle="0123")
    with pytest.raises(deployment.OvertakenError, match="the cluster has the bundle ffff, and this run's is 0123"):
        here.up({}, since=here.last_change())
