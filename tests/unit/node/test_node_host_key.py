"""The head publishes its host key again after an update of the stack has reset the parameter."""

from __future__ import annotations

from pathlib import Path

import boto3
import pytest
from botocore.stub import Stubber
from gpucluster_node import fleet
from gpucluster_node.head import host_key

CLUSTER = fleet.Fleet("c", "c.internal", "/gpucluster/c/", ())
NAME = "/gpucluster/c/host-key"


@pytest.mark.parametrize(("published", "again"), [("pending", True), ("ssh-ed25519 AAAA", False)])
def test_the_host_key_is_published_if_it_is_missing(tmp_path: Path, published: str, again: bool) -> None:
    file = tmp_path / "key.pub"
    file.write_text("ssh-ed25519 BBBB root@head\n")
    ssm = boto3.client("ssm", "us-east-1", aws_access_key_id="x", aws_secret_access_key="x")
    with Stubber(ssm) as stubber:
        stubber.add_response("get_parameter", {"Parameter": {"Value": published}}, {"Name": NAME})
        if again:
            expected = {"Name": NAME, "Value": "ssh-ed25519 BBBB", "Type": "String", "Overwrite": True}
            stubber.add_response("put_parameter", {}, expected)
        host_key.publish_again(ssm, CLUSTER, file)
        stubber.assert_no_pending_responses()
