"""A CDK app that was not written for the local cloud, deployed by the unmodified CDK command line. The test sends the
instance's signal."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Protocol

import pytest

from localcloud.testing import cdk_project
from localcloud.testing.cdk_project import Project
from localcloud.testing.census import census

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
    cloudformation = bootstrapped.client("cloudformation")
    cloudformation.delete_stack(StackName="ForeignWeb")
    cloudformation.get_waiter("stack_delete_complete").wait(StackName="ForeignWeb", WaiterConfig={"Delay": 1})


def deploy_and_signal(cloud: ControlPlane, project: Project, signal: str, reason: str) -> tuple[int, str]:
    process: subprocess.Popen[str] = project.start_deploy()
    try:
        handle = cdk_project.wait_for_handle(cloud.client("cloudformation"), project.stack)
        message = {"Status": signal, "Reason": reason, "UniqueId": "web", "Data": "10.20.1.4"}
        assert cdk_project.send_signal(project.endpoint_url, handle, message) == 200
        output, _ = process.communicate(timeout=60)
    finally:
        process.kill()
    return process.returncode, output


def status(cloud: ControlPlane, project: Project) -> str:
    stacks = cloud.client("cloudformation").describe_stacks(StackName=project.stack)["Stacks"]
    return str(stacks[0]["StackStatus"])


def test_a_failed_boot_rolls_back_with_its_reason_and_the_next_works(bootstrapped: ControlPlane, web: Project) -> None:
    before = census(bootstrapped.client)
    reason = "step=page line=7: python3: not found (log /var/log/page.log)"
    exit_code, output = deploy_and_signal(bootstrapped, web, "FAILURE", reason)
    assert exit_code == 1, output
    said = " ".join(output.split())  # the CLI folds long lines
    assert f"WaitCondition received failed message: '{reason}' for uniqueId: web" in said
    assert census(bootstrapped.client) == before
    assert status(bootstrapped, web) == "ROLLBACK_COMPLETE"
    exit_code, output = deploy_and_signal(bootstrapped, web, "SUCCESS", "serving")  # the CLI deletes the remains
    assert exit_code == 0, output
