"""The stack with a role and a bucket for SageMaker, deployed, and judged by the checks of `plan`."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from gpucluster.sagemaker import online
from gpucluster.sagemaker.target import Target

REGION, ACCOUNT = "us-east-1", "123456789012"


@pytest.fixture
def outputs(control_plane: Any, tmp_path: Path) -> Iterator[dict[str, str]]:
    os.environ["CDK_VALIDATION"] = "false"
    import aws_cdk as cdk

    import stacks  # noqa: F401  before aws_cdk
    from stacks.training import NAME, Training

    app = cdk.App(outdir=str(tmp_path))
    Training(app, region=REGION, account=ACCOUNT, reads=["s3://data/imagenet"], vpc=False)
    app.synth()
    template = json.loads((tmp_path / f"{NAME}.template.json").read_text())
    for part in ("Parameters", "Rules"):  # CDK's check of the bootstrapped account, which has a test of its own
        template.pop(part, None)
    cloudformation = control_plane.client("cloudformation")
    request = {"StackName": NAME, "TemplateBody": json.dumps(template), "Capabilities": ["CAPABILITY_IAM"]}
    cloudformation.create_stack(**request)
    cloudformation.get_waiter("stack_create_complete").wait(StackName=NAME, WaiterConfig={"Delay": 1})
    (found,) = cloudformation.describe_stacks(StackName=NAME)["Stacks"]
    yield {each["OutputKey"]: each["OutputValue"] for each in found["Outputs"]}
    cloudformation.delete_stack(StackName=NAME)


def test_plan_has_nothing_to_say_about_them(outputs: dict[str, str], control_plane: Any) -> None:
    target = Target.model_validate(
        {
            "region": REGION,
            "role_arn": outputs["RoleArn"],
            "bucket": outputs["BucketName"],
            "instance_type": "ml.g5.xlarge",
        }
    )
    faults = online.ask(control_plane, target)
    assert [fault for fault in faults if fault.key in ("role_arn", "bucket")] == []
