"""What somebody who moves in brings along, on booted nodes: scripts, tags, policies, a VPC with its endpoint."""

from __future__ import annotations

import json
from collections.abc import Iterator
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest
from bed import Bed, wait_for
from beds import opened

from tests.cluster.moved_in.there_before import Network

IN_S3 = '#!/bin/sh\necho "$GPUCLUSTER_NODE $(hostname) $*" >/var/tmp/from-s3\n'
SETUP = """#!/bin/bash
set -e
mountpoint -q /home
test ! -e /home/break-scripts || { echo "no licence for ${GPUCLUSTER_PARTITION:-the head}" >&2; exit 3; }
printf '%s|' "$GPUCLUSTER_CLUSTER" "$GPUCLUSTER_NODE_TYPE" "$GPUCLUSTER_PARTITION" "$@" >/var/tmp/from-here
"""
BUCKET = "moved-in"
ONE = ("--nodes", "1", "--ntasks-per-node", "1", "--launcher", "srun", "--preflight", "off")
CLUSTER = """
tags: {{team: vision, cost center: "4711"}}
s3_access: [{{uri: s3://moved-in/jobs}}]
security:
  policies: {{head: ["{policy}"], nodes: ["{policy}"], jobs: ["{policy}"]}}
  role_prefix: /teams/vision-
"""
SCRIPTS = """scripts:
      - {{source: ./setup.sh, args: ["a b", "$HOME", --fast]}}
      - {{source: s3://moved-in/early.sh, sha256: {digest}, when: before, args: [x], time_limit_minutes: 5}}
    security_groups: [{group}]
"""


class MovedIn:
    def __init__(self, bed: Bed, network: Network, policy: str) -> None:
        self.bed, self.network, self.policy = bed, network, policy
        self.group, self.endpoint = network.group("licences"), network.add_endpoint()
        self.told: dict[str, Any] = {}

    def on(self, command: str) -> str:
        """What a job prints on a new node of train."""
        job = self.bed.submit(*ONE, "--follow", "--", "bash", "-ec", command)
        assert job.exit_code == 0, job.told + "\n".join(job.log)
        return "\n".join(line.partition("] ")[2] for line in job.log)


@pytest.fixture(scope="module")
def moved(tmp_path_factory: pytest.TempPathFactory) -> Iterator[MovedIn]:
    bed = Bed.make(tmp_path_factory.mktemp("moved-in"))
    bed = Bed(bed.folder, bed.name, bed.port, python="/home/plain")
    with opened(bed):
        network = Network(bed.client("ec2"))
        bed.client("s3").create_bucket(Bucket=BUCKET)
        bed.client("s3").put_object(Bucket=BUCKET, Key="early.sh", Body=IN_S3.encode())
        bed.client("s3").put_object(Bucket=BUCKET, Key="for-jobs", Body=b"granted by a policy")
        allowed = {"Effect": "Allow", "Action": "s3:GetObject", "Resource": f"arn:aws:s3:::{BUCKET}/for-jobs"}
        document = json.dumps({"Version": "2012-10-17", "Statement": [allowed]})
        made = bed.client("iam").create_policy(PolicyName="team", PolicyDocument=document)
        moved = MovedIn(bed, network, made["Policy"]["Arn"])
        configure(moved)
        moved.told = bed.up()
        bed.ssh("sh", "-c", f"sudo mkdir -p {bed.python}/bin && sudo ln -s /usr/bin/python3 {bed.python}/bin/python")
        yield moved


def configure(moved: MovedIn) -> None:
    bed, network = moved.bed, moved.network
    (bed.folder / "setup.sh").write_text(SETUP)
    scripts = SCRIPTS.format(digest=sha256(IN_S3.encode()).hexdigest(), group=moved.group)
    text = network.config(bed.config.read_text())
    head = scripts.replace("\n    ", "\n  ").replace("\n      -", "\n    -")
    text = text.replace("head_node:\n", f"head_node:\n  {head}", 1)
    text = text.replace("  - name: train ", f"  - {scripts}    name: train ", 1)
    bed.config.write_text(text.rstrip() + "\n" + CLUSTER.format(policy=moved.policy))


def test_scripts_ran_before_and_after_the_set_up_of_every_node(moved: MovedIn) -> None:
    assert moved.bed.ssh("sudo", "cat", "/var/tmp/from-here") == "GpuCluster|head||a b|$HOME|--fast|"
    assert moved.bed.ssh("sudo", "cat", "/var/tmp/from-s3").split()[-1] == "x"
    log = moved.bed.ssh("sudo", "cat", "/var/log/gpucluster/boot.log")
    early, late = (log.index(f"step=scripts/{name} status=ok") for name in ("early.sh", "setup.sh"))
    assert early < log.index("step=home_mount status=started") < late < log.index("step=ready status=started")
    assert moved.on("cat /var/tmp/from-here") == "GpuCluster|compute|train|a b|$HOME|--fast|"
    name, host, argument = moved.on("cat /var/tmp/from-s3").split()
    assert name == host and name.startswith("train-") and argument == "x"


def test_everything_that_was_launched_has_the_tags(moved: MovedIn) -> None:
    moved.on("true")
    ec2, wanted = moved.bed.client("ec2"), {("team", "vision"), ("cost center", "4711")}
    for role in ("head", "compute"):
        for instance_id in moved.bed.instances(role):
            (found,) = ec2.describe_instances(InstanceIds=[instance_id])["Reservations"][0]["Instances"]
            attached = [{"Name": "attachment.instance-id", "Values": [instance_id]}]
            disks = ec2.describe_volumes(Filters=attached)["Volumes"]
            nics = ec2.describe_network_interfaces(Filters=attached)["NetworkInterfaces"]
            assert disks and nics
            tagged = [found["Tags"], *(each["Tags"] for each in disks)]
            tagged += (
                [each["TagSet"] for each in nics] if role == "compute" else []
            )  # CloudFormation cannot tag the head's
            assert all(wanted <= {(tag["Key"], tag["Value"]) for tag in tags} for tags in tagged), (role, tagged)


def test_policies_groups_and_names(moved: MovedIn) -> None:
    moved.on("true")
    iam, ec2 = moved.bed.client("iam"), moved.bed.client("ec2")
    roles = [each for each in iam.list_roles()["Roles"] if each["RoleName"].startswith("vision-GpuCluster-")]
    attached = {
        each["RoleName"].split("-")[2]: [
            policy["PolicyArn"]
            for policy in iam.list_attached_role_policies(RoleName=each["RoleName"])["AttachedPolicies"]
        ]
        for each in roles
    }
    assert {each["Path"] for each in roles} == {"/teams/"}
    assert all(moved.policy in attached[name] for name in ("HeadRole", "ComputeRole", "StorageJobsRole")), attached
    for role in ("head", "compute"):
        for instance_id in moved.bed.instances(role):
            (found,) = ec2.describe_instances(InstanceIds=[instance_id])["Reservations"][0]["Instances"]
            assert moved.group in {group["GroupId"] for group in found["SecurityGroups"]}
    asks = f'import boto3; print(boto3.client("s3").get_object(Bucket="{BUCKET}", Key="for-jobs")["Body"].read())'
    assert "granted by a policy" in moved.on(f"/usr/bin/python3 -c '{asks}'")


def test_ssh_comes_through_the_endpoint_that_was_there(moved: MovedIn) -> None:
    assert moved.told["outputs"]["InstanceConnectEndpointId"] == moved.endpoint


def test_a_script_that_fails_is_the_nodes_reason(moved: MovedIn) -> None:
    """On a node that has not booted yet. The last test: the node stays DOWN for five minutes."""
    bed = moved.bed
    bed.ssh("sudo", "touch", "/home/break-scripts")
    job = bed.submit("--nodes", "4", "--launcher", "srun", "--", "true").last["job_id"]

    def reasons() -> str:
        return bed.ssh("sinfo", "--noheader", "--Node", "--format=%E")

    wait_for("the node's reason", lambda: "step=scripts/setup.sh" in reasons(), 240)
    assert "step=scripts/setup.sh: it exited with status 3: no licence for train" in reasons()
    assert "scripts/setup.sh" in bed.gpucluster("why", job).stdout
    bed.gpucluster("cancel", job)
    bed.ssh("sudo", "rm", "/home/break-scripts")


def test_a_changed_script_is_a_change_that_up_shows(moved: MovedIn) -> None:
    script: Path = moved.bed.folder / "setup.sh"
    script.write_text(SETUP + "touch /var/tmp/changed\n")
    done = moved.bed.gpucluster("plan")
    assert "partitions[train].scripts" in done.stdout + done.stderr, done.stdout + done.stderr
    script.write_text(SETUP)
