"""When `up` runs `cdk bootstrap`, and when it leaves that to an administrator. Parameters in a region of their own."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from gpucluster.cluster import bootstrapping, cdk
from gpucluster.errors import DeployError, UsageError

REGION = "eu-central-1"
WHERE = f"account 123456789012 in {REGION}"


@pytest.fixture
def clients(control_plane: Any) -> Iterator[tuple[Any, Any]]:
    ssm = control_plane.client("ssm", REGION)
    yield control_plane.client("cloudformation", REGION), ssm
    found = ssm.get_parameters_by_path(Path="/cdk-bootstrap", Recursive=True)["Parameters"]
    for each in found:
        ssm.delete_parameter(Name=each["Name"])


def prepare(ssm: Any, qualifier: str) -> None:
    ssm.put_parameter(Name=f"/cdk-bootstrap/{qualifier}/version", Value="30", Type="String")


def test_an_account_that_nobody_has_prepared_is_bootstrapped_once(clients: tuple[Any, Any]) -> None:
    assert bootstrapping.is_needed(*clients, bootstrapping.DEFAULT, WHERE)
    prepare(clients[1], bootstrapping.DEFAULT)
    assert not bootstrapping.is_needed(*clients, bootstrapping.DEFAULT, WHERE)


def test_an_organizations_own_qualifier_is_used_whatever_its_stack_is_called(clients: tuple[Any, Any]) -> None:
    prepare(clients[1], "orgq")
    assert not bootstrapping.is_needed(*clients, "orgq", WHERE)
    said = f"{WHERE} is prepared for CDK with the qualifier orgq, and this project uses hnb659fds; nothing was deployed"
    with pytest.raises(DeployError, match=said) as refused:
        bootstrapping.is_needed(*clients, bootstrapping.DEFAULT, WHERE)
    assert '"@aws-cdk/core:bootstrapQualifier": "orgq"' in str(refused.value.hint)
    assert "another program's" in str(refused.value.hint) and "run `cdk bootstrap`" in str(refused.value.hint)


def test_an_own_qualifier_is_never_bootstrapped(clients: tuple[Any, Any]) -> None:
    with pytest.raises(DeployError, match="there is no parameter /cdk-bootstrap/orgq/version") as refused:
        bootstrapping.is_needed(*clients, "orgq", WHERE)
    assert "`cdk bootstrap --qualifier orgq`" in str(refused.value.hint)


@pytest.mark.parametrize("status", ["ROLLBACK_COMPLETE"])
def test_a_toolkit_stack_that_was_never_created_does_not_count(clients: tuple[Any, Any], status: str) -> None:
    cloudformation, ssm = clients
    one = {"Type": "AWS::SSM::Parameter", "Properties": {"Type": "NoSuchType", "Value": "1"}}
    cloudformation.create_stack(StackName="CDKToolkit", TemplateBody=json.dumps({"Resources": {"One": one}}))
    assert bootstrapping.is_needed(cloudformation, ssm, bootstrapping.DEFAULT, WHERE)  # waits for its end
    assert cloudformation.describe_stacks(StackName="CDKToolkit")["Stacks"][0]["StackStatus"] == status
    cloudformation.delete_stack(StackName="CDKToolkit")


def test_the_qualifier_is_that_of_the_project_or_of_the_user(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    home, project = tmp_path / "home", tmp_path / "project"
    home.mkdir()
    project.mkdir()
    monkeypatch.setattr(Path, "home", lambda: home)
    monkeypatch.setattr(cdk, "project", lambda _: project)
    file = project / "cluster.yaml"
    assert bootstrapping.qualifier(file) == bootstrapping.DEFAULT
    (home / ".cdk.json").write_text(json.dumps({"context": {bootstrapping.QUALIFIER_KEY: "ours"}}))
    assert bootstrapping.qualifier(file) == "ours"
    (project / "cdk.json").write_text(json.dumps({"context": {bootstrapping.QUALIFIER_KEY: "its"}}))
    assert bootstrapping.qualifier(file) == "its"
    (project / "cdk.json").write_text("[")
    with pytest.raises(UsageError, match="cdk.json: cannot be read"):
        bootstrapping.qualifier(file)
