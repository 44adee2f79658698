"""What root can do with the role of a node: on AWS, whoever becomes root on a node has its credentials."""

from __future__ import annotations

import json
from typing import Any

import pytest
from bed import Bed

REFUSED = ("AccessDeniedException", "UnauthorizedOperation", "AccessDenied")
AS_ROOT = """cd /opt/gpucluster/bundle
source lib/machine_environment.sh
machine_environment
source ./cluster.sh
AWS_DEFAULT_REGION=$REGION python3 -c "$0"
"""
TRIED = """
import json, boto3
from botocore.exceptions import ClientError
answers = {{}}
def tried(what, service, method, **parameters):
    try:
        getattr(boto3.client(service), method)(**parameters)
        answers[what] = "allowed"
    except ClientError as error:
        answers[what] = error.response["Error"]["Code"]
{}
print(json.dumps(answers))
"""
FROM_A_NODE = """
for name in ("bundle", "network", "partitions/train", "host-key"):
    tried(name, "ssm", "get_parameter", Name="/gpucluster/GpuCluster/" + name)
tried("its own bundle", "ssm", "get_parameter", Name="/gpucluster/GpuCluster/nodes/bundle")
tried("write", "ssm", "put_parameter", Name="/gpucluster/GpuCluster/host-key", Value="x", Overwrite=True)
tried("terminate", "ec2", "terminate_instances", InstanceIds=["{head}"])
tried("launch", "ec2", "run_instances", LaunchTemplate=dict(LaunchTemplateId="{template}"), MinCount=1, MaxCount=1)
"""
FROM_THE_HEAD = """
ours = dict(LaunchTemplate=dict(LaunchTemplateId="{template}"), MinCount=1, MaxCount=1)
tried("dear", "ec2", "run_instances", InstanceType="p5.48xlarge", **ours)
tried("imdsv1", "ec2", "run_instances", MetadataOptions=dict(HttpTokens="optional"), **ours)
tried("image", "ec2", "run_instances", ImageId="{image}", **ours)
tried("terminate", "ec2", "terminate_instances", InstanceIds=["{head}"])
tried("stack", "cloudformation", "delete_stack", StackName="GpuCluster")
"""


@pytest.fixture(scope="module")
def known(people: Bed) -> dict[str, str]:
    """Ids that an attacker would use."""
    value = people.client("ssm").get_parameter(Name="/gpucluster/GpuCluster/partitions/train")["Parameter"]["Value"]
    image = people.client("ec2").describe_images(Owners=["amazon"])["Images"][0]["ImageId"]
    (head,) = people.instances("head")
    template = json.loads(value)["instance_types"][0]["launch_template_id"]
    return {"template": template, "image": image, "head": head}


def answers(printed: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(printed.splitlines()[-1])
    return found


def test_the_role_of_a_compute_node_ends_no_update_and_starts_and_ends_no_node(
    people: Bed, known: dict[str, str]
) -> None:
    program = TRIED.format(FROM_A_NODE.format(**known))
    srun = ("sudo", "srun", "--partition=train", "--nodes=1", "bash", "-c", AS_ROOT, program)
    found = answers(people.ssh(*srun, timeout_s=240))
    assert found.pop("its own bundle") == "allowed"  # with it the node has booted
    assert found and {what for what, code in found.items() if code not in REFUSED} == set()


def test_the_role_of_the_head_node_launches_only_what_the_cluster_has(people: Bed, known: dict[str, str]) -> None:
    program = TRIED.format(FROM_THE_HEAD.format(**known))
    found = answers(people.ssh("sudo", "bash", "-c", AS_ROOT, program))
    assert found and {what for what, code in found.items() if code not in REFUSED} == set()
    assert people.status()["partitions"]
