"""Deploys a synthesized assembly in this process, like the CDK command line but without starting it.

The command line itself deploys an example in test_examples.py; here its files go to the bucket that it would put them
into, and CloudFormation gets the template as it would.
"""

from __future__ import annotations

import json
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from gpucluster import config, shipped
from gpucluster.cluster import cdk as command_line
from gpucluster.cluster import stack

ACCOUNT, REGION = "123456789012", "us-east-1"
PLACEHOLDERS = {"${AWS::Partition}": "aws", "${AWS::AccountId}": ACCOUNT, "${AWS::Region}": REGION}


def synthesized(text: str, folder: Path) -> Path:
    """Its assembly, from the same constructs as in app.py, with the values of cdk.context.json."""
    os.environ["CDK_VALIDATION"] = "false"
    from stacks.cluster import GpuCluster, cdk

    cluster = config.loads(text)
    app = cdk.App(context=command_line.pinned(shipped.ROOT / "cdk.context.json"), outdir=str(folder))
    GpuCluster(app, cluster.name, config=cluster, account=ACCOUNT)
    return Path(app.synth().directory)


@dataclass(frozen=True)
class InProcess:
    """A copy of an example. The CDK command line has bootstrapped the account."""

    file: Path
    control_plane: Any
    name: str

    def deploy(self) -> bool:
        """Returns whether anything changed."""
        assembly = synthesized(self.file.read_text(), self.file.parent / "cdk.out")
        self._publish(assembly)
        artifact = json.loads((assembly / "manifest.json").read_text())["artifacts"][self.name]["properties"]
        cloudformation = self.control_plane.client("cloudformation")
        exists = stack.status(cloudformation, self.name) is not None
        request = {
            "StackName": self.name,
            "TemplateURL": _url(artifact["stackTemplateAssetObjectUrl"]),
            "Capabilities": ["CAPABILITY_IAM", "CAPABILITY_NAMED_IAM", "CAPABILITY_AUTO_EXPAND"],
            "RoleARN": _filled(artifact["cloudFormationExecutionRoleArn"]),
            "Tags": [{"Key": key, "Value": value} for key, value in artifact.get("tags", {}).items()],
        }
        try:
            (cloudformation.update_stack if exists else cloudformation.create_stack)(**request)
        except cloudformation.exceptions.ClientError as error:
            if "No updates are to be performed" in str(error):
                return False
            raise
        self._ends_in("UPDATE_COMPLETE" if exists else "CREATE_COMPLETE")
        protected = bool(artifact.get("terminationProtection"))
        cloudformation.update_termination_protection(StackName=self.name, EnableTerminationProtection=protected)
        return True

    def destroy(self) -> None:
        self.control_plane.client("cloudformation").delete_stack(StackName=self.name)
        self._ends_in(None)

    def _ends_in(self, expected: str | None) -> None:
        cloudformation = self.control_plane.client("cloudformation")
        events = filter(None, stack.follow(cloudformation, self.name, interval_s=0.2))
        said = [f"{event.resource}: {event.reason}" for event in events if event.reason]
        assert stack.status(cloudformation, self.name) == expected, said

    def _publish(self, assembly: Path) -> None:
        s3 = self.control_plane.client("s3")
        for asset in json.loads((assembly / f"{self.name}.assets.json").read_text())["files"].values():
            file = assembly / asset["source"]["path"]
            for place in asset["destinations"].values():
                s3.put_object(Bucket=_filled(place["bucketName"]), Key=place["objectKey"], Body=file.read_bytes())


def _url(place: str) -> str:
    """The URL of s3://BUCKET/KEY for CloudFormation."""
    bucket, _, key = _filled(place).removeprefix("s3://").partition("/")
    return f"https://{bucket}.s3.{REGION}.amazonaws.com/{key}"


def _filled(text: str) -> str:
    for name, value in PLACEHOLDERS.items():
        text = text.replace(name, value)
    return text
