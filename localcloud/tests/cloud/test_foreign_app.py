"""A CDK app that was not written for the local cloud, deployed by the unmodified CDK command line. The test sends the
instance's signal."""

from __future__ import annotations

import json
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Protocol

import pytest

from localcloud.tests import cdk_project, patience
from localcloud.tests.cdk_project import Project
from localcloud.tests.census import census

_missing = cdk_project.missing()
pytestmark = [pytest.mark.skipif(_missing is not None, reason=str(_missing))]


class ControlPlane(Protocol):
    endpoint_url: str

    def client(self, service: str) -> Any: ...


@pytest.fixture(scope="module")
def bootstrapped(control_plane: ControlPlane, tmp_path_factory: pytest.TempPathFactory) -> ControlPlane:
    folder = tmp_path_factory.mktemp("bootstrap") / "app"
    done = cdk_project.project(folder, control_plane.endpoint_url, control_plane.secret, "Unused").bootstrap()
    assert done.returncode == 0, done.stdout
    return control_plane


@pytest.fixture
def web(bootstrapped: ControlPlane, tmp_path: Path) -> Iterator[Project]:
    yield cdk_project.project(tmp_path / "app", bootstrapped.endpoint_url, bootstrapped.secret, "ForeignWeb")
    bootstrapped.client("cloudformation").delete_stack(StackName="ForeignWeb")


def _deploy_and_signal(cloud: ControlPlane, project: Project, status: str, reason: str) -> tuple[int, str]:
    process: subprocess.Popen[str] = project.start_deploy()
    try:
        handle = cdk_project.wait_for_handle(cloud.client("cloudformation"), project.stack)
        message = {"Status": status, "Reason": reason, "UniqueId": "web", "Data": "10.20.1.4"}
        assert cdk_project.send_signal(project.endpoint_url, handle, message) == 200
        output, _ = process.communicate(timeout=60)
    finally:
        process.kill()
    return process.returncode, output


def _status(cloud: ControlPlane, project: Project) -> str:
    stacks = cloud.client("cloudformation").describe_stacks(StackName=project.stack)["Stacks"]
    return str(stacks[0]["StackStatus"])


def _leave_a_failed_creation(cloud: ControlPlane, project: Project) -> None:
    """A stack in ROLLBACK_COMPLETE, which the CLI must remove before it can create the stack again."""
    template = {"Resources": {"Refused": {"Type": "AWS::EC2::Subnet", "Properties": {"VpcId": "vpc-0"}}}}
    cloud.client("cloudformation").create_stack(StackName=project.stack, TemplateBody=json.dumps(template))
    deadline = patience.seconds() + 20
    while _status(cloud, project) != "ROLLBACK_COMPLETE":
        assert patience.seconds() < deadline, _status(cloud, project)
        time.sleep(0.1)


def _parameter(cloud: ControlPlane, name: str) -> str:
    return str(cloud.client("ssm").get_parameter(Name=f"/ForeignWeb/{name}")["Parameter"]["Value"])


def test_a_failed_boot_rolls_back_with_its_reason(bootstrapped: ControlPlane, web: Project) -> None:
    before = census(bootstrapped.client)
    reason = "step=page line=7: python3: not found (log /var/log/page.log)"
    exit_code, output = _deploy_and_signal(bootstrapped, web, "FAILURE", reason)
    assert exit_code == 1, output
    said = " ".join(output.split())  # the CLI folds long lines
    assert f"WaitCondition received failed message: '{reason}' for uniqueId: web" in said
    assert census(bootstrapped.client) == before
    assert _status(bootstrapped, web) == "ROLLBACK_COMPLETE"


def test_retry_diff_update_failed_update_and_destroy(bootstrapped: ControlPlane, web: Project) -> None:
    before = census(bootstrapped.client)
    _leave_a_failed_creation(bootstrapped, web)
    exit_code, output = _deploy_and_signal(bootstrapped, web, "SUCCESS", "serving")
    assert exit_code == 0, output
    made = cdk_project.outputs(bootstrapped.client("cloudformation"), web.stack)
    assert made["WaitData"] == '{"web": "10.20.1.4"}'
    ec2 = bootstrapped.client("ec2")
    server = ec2.describe_instances(InstanceIds=[made["ServerId"]])["Reservations"][0]["Instances"][0]
    assert (server["State"]["Name"], server["PrivateIpAddress"]) == ("running", made["ServerAddress"])

    diff = web.diff()
    assert diff.returncode == 0, diff.stdout
    assert "There were no differences" in diff.stdout
    again = web.deploy()
    assert again.returncode == 0, again.stdout
    assert "(no changes)" in again.stdout

    updated = web.deploy(size="2", note="second", extra="yes")
    assert updated.returncode == 0, updated.stdout
    assert (_parameter(bootstrapped, "note"), _parameter(bootstrapped, "extra")) == ("second", "extra")
    assert ec2.describe_volumes(VolumeIds=[made["VolumeId"]])["Volumes"][0]["Size"] == 2

    refused = web.deploy(size="2", note="third", fail="yes")
    assert refused.returncode == 1, refused.stdout
    assert "192.168.77.0/24' is invalid" in refused.stdout
    assert (_parameter(bootstrapped, "note"), _parameter(bootstrapped, "extra")) == ("second", "extra")
    assert _status(bootstrapped, web) == "UPDATE_ROLLBACK_COMPLETE"

    retried = web.deploy(size="2", note="third")
    assert retried.returncode == 0, retried.stdout
    assert _parameter(bootstrapped, "note") == "third"
    assert "/ForeignWeb/extra" not in census(bootstrapped.client)["parameters"]
    assert cdk_project.outputs(bootstrapped.client("cloudformation"), web.stack)["ServerId"] == made["ServerId"]

    destroyed = web.destroy()
    assert destroyed.returncode == 0, destroyed.stdout
    assert census(bootstrapped.client) == before
