"""A CDK app that was not written for the local cloud: created after a failure, updated, rolled back and destroyed."""

from __future__ import annotations

import json
import time

import pytest

from localcloud.testing import cdk_project, patience
from localcloud.testing.cdk_project import Project
from localcloud.testing.census import census
from localcloud.tests.cloud.test_foreign_app import ControlPlane, bootstrapped, deploy_and_signal, status, web

_missing = cdk_project.missing()
pytestmark = [pytest.mark.skipif(_missing is not None, reason=str(_missing))]
SUBJECTS = ["localcloud/tests/foreign_app/*", "localcloud/cloudformation/*", "localcloud/ec2/*", "package-lock.json"]
COVERED_BY = (
    "test_foreign_app.py: the same app's creation is rolled back, then succeeds; our own stack is updated in "
    "test_gpucluster_stack.py; test_cfn_engine.py"
)
__all__ = ["bootstrapped", "web"]


def _leave_a_failed_creation(cloud: ControlPlane, project: Project) -> None:
    """A stack in ROLLBACK_COMPLETE, which the CLI must remove before it can create the stack again."""
    template = {"Resources": {"Refused": {"Type": "AWS::EC2::Subnet", "Properties": {"VpcId": "vpc-0"}}}}
    cloud.client("cloudformation").create_stack(StackName=project.stack, TemplateBody=json.dumps(template))
    deadline = patience.seconds() + 20
    while status(cloud, project) != "ROLLBACK_COMPLETE":
        assert patience.seconds() < deadline, status(cloud, project)
        time.sleep(0.1)


def _parameter(cloud: ControlPlane, name: str) -> str:
    return str(cloud.client("ssm").get_parameter(Name=f"/ForeignWeb/{name}")["Parameter"]["Value"])


def test_retry_diff_update_failed_update_and_destroy(bootstrapped: ControlPlane, web: Project) -> None:
    before = census(bootstrapped.client)
    _leave_a_failed_creation(bootstrapped, web)
    exit_code, output = deploy_and_signal(bootstrapped, web, "SUCCESS", "serving")
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
    assert status(bootstrapped, web) == "UPDATE_ROLLBACK_COMPLETE"

    retried = web.deploy(size="2", note="third")
    assert retried.returncode == 0, retried.stdout
    assert _parameter(bootstrapped, "note") == "third"
    assert "/ForeignWeb/extra" not in census(bootstrapped.client)["parameters"]
    assert cdk_project.outputs(bootstrapped.client("cloudformation"), web.stack)["ServerId"] == made["ServerId"]

    destroyed = web.destroy()
    assert destroyed.returncode == 0, destroyed.stdout
    assert census(bootstrapped.client) == before
