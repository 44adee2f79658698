"""A deployment that fails on the head node, and one that is interrupted, each in its own local cloud."""

from __future__ import annotations

import subprocess
import sys

from bed import Bed, interrupt
from test_bad_days import refused

SUBJECTS = [
    "gpucluster/cluster/deployment.py",
    "gpucluster/cluster/deletion/*",
    "gpucluster/cluster/local_cloud.py",
    "gpucluster/cluster/cdk.py",
    "gpucluster/cli/up.py",
    "gpucluster/cli/down.py",
    "gpucluster/cli/frame/with_program.py",
    "bootstrap/head.sh.j2",
    "bootstrap/lib/runner.sh",
    "bootstrap/steps/system/signal.sh",
]
COVERED_BY = (
    "test_gpucluster_stack.py: a head node that fails to boot, and an interrupted up; test_steps.py: a step that "
    "fails is named"
)


def test_a_step_that_fails_on_the_head_node_fails_the_deployment_and_is_named(empty_cloud: Bed) -> None:
    message = "munged: Error: the key is not to my taste"
    laid = empty_cloud.localcloud(
        "fault", "add", "broken", "--command", "munged", "--message", message, "--tag", "gpucluster:role=head"
    )
    assert laid.returncode == 0, laid.stderr
    done = empty_cloud.gpucluster("up", "--local", "--port", str(empty_cloud.port), timeout_s=300)
    refused(done, 3, "step=munge", "line=", "boot.log")
    assert not empty_cloud.instances("head")
    argv = [sys.executable, "-c", _STACK_STATUS, empty_cloud.endpoint_url, empty_cloud.secret]
    stacks = subprocess.run(argv, capture_output=True, text=True, check=True)
    assert stacks.stdout.strip() == "ROLLBACK_COMPLETE"


_STACK_STATUS = """
import boto3, sys
keys = {"aws_access_key_id": "localcloud", "aws_secret_access_key": sys.argv[2]}
client = boto3.client("cloudformation", region_name="us-east-1", endpoint_url=sys.argv[1], **keys)
print(client.describe_stacks(StackName="GpuCluster")["Stacks"][0]["StackStatus"])
"""


def test_an_interrupted_up_says_how_to_continue_and_down_may_run_twice(empty_cloud: Bed) -> None:
    process = empty_cloud.start("up", "--local", "--port", str(empty_cloud.port))
    assert process.stdout is not None
    said = []
    while "waiting for the head node" not in (line := process.stdout.readline()):
        assert line, "".join(said)
        said.append(line)
    interrupt(process)
    rest = process.communicate(timeout=60)[0]
    assert process.returncode == 130, rest
    assert "gpucluster up" in rest
    assert "Traceback" not in rest
    assert empty_cloud.up()["outputs"]["HeadInstanceId"]

    down = empty_cloud.gpucluster("down", "--yes", timeout_s=300)
    assert down.returncode == 0, down.stderr
    assert not empty_cloud.instances("head")
    again = empty_cloud.gpucluster("down", "--yes")
    assert again.returncode == 0, again.stderr
    assert "nothing to delete" in again.stderr
