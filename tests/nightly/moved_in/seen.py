"""What a cluster is in EC2 and IAM and on its head node, for tests that change it and change it back."""

from __future__ import annotations

import json
from typing import Any

from bed import Bed

MOUNTS = ("/lustre", "/efs", "/zfs", "/ontap", "/own", "/disk", "/old")
MOUNTED = f"for each in {' '.join(MOUNTS)}; do if mountpoint -q $each; then echo $each; fi; done"
LEFT_ON_HEAD = f"""
cat /etc/fstab /etc/slurm/slurm.conf
{MOUNTED}
find /etc/exports.d /etc/gpucluster/tunnels /var/lib/gpucluster/mounts /var/lib/gpucluster/disks /etc/profile.d \
    -type f 2>/dev/null | sort
ls /etc/systemd/system | grep gpucluster
"""
HASH = 8
"""Characters of CDK's hash at the end of a logical id."""


class Seen:
    def __init__(self, bed: Bed, name: str) -> None:
        self.bed, self.name, self.iam = bed, name, bed.client("iam")

    def on_head(self, command: str) -> str:
        return self.bed.ssh("sudo", "bash", "-c", command)

    def state(self) -> dict[str, Any]:
        """All that these keys change, without what is another one each time: ids, and versions of templates."""
        return {
            "roles": self.roles(),
            "templates": self.templates(),
            "groups": self.groups(),
            "tags": self.tags(),
            "head": self.on_head(LEFT_ON_HEAD).splitlines(),
        }

    def roles(self) -> dict[str, Any]:
        """By the construct's id: the policies, the boundary and the tags of each role of the cluster."""
        found = self.bed.client("cloudformation").list_stack_resources(StackName=self.name)["StackResourceSummaries"]
        roles = (each for each in found if each["ResourceType"] == "AWS::IAM::Role")
        return {each["LogicalResourceId"][:-HASH]: self._role(each["PhysicalResourceId"]) for each in roles}

    def attached(self, role: str) -> list[str]:
        """The ARNs of its managed policies."""
        return list(self.roles()[role]["attached"])

    def _role(self, name: str) -> dict[str, Any]:
        attached = self.iam.list_attached_role_policies(RoleName=name)["AttachedPolicies"]
        inline = self.iam.list_role_policies(RoleName=name)["PolicyNames"]
        found = self.iam.get_role(RoleName=name)["Role"]
        return {
            "attached": [each["PolicyArn"] for each in attached],
            "inline": [self.iam.get_role_policy(RoleName=name, PolicyName=each)["PolicyDocument"] for each in inline],
            "boundary": found.get("PermissionsBoundary", {}).get("PermissionsBoundaryArn"),
            "tags": tags_of(found.get("Tags", [])),
        }

    def templates(self) -> dict[str, Any]:
        """By their instance types: the data of each launch template's newest version."""
        ec2 = self.bed.client("ec2")
        found = [self._newest(ec2, each) for each in ec2.describe_launch_templates()["LaunchTemplates"]]
        return {each["InstanceType"]: each for each in found}

    @staticmethod
    def _newest(ec2: Any, template: dict[str, Any]) -> dict[str, Any]:
        which = {"LaunchTemplateId": template["LaunchTemplateId"], "Versions": ["$Latest"]}
        (newest,) = ec2.describe_launch_template_versions(**which)["LaunchTemplateVersions"]
        return dict(newest["LaunchTemplateData"])

    def groups(self) -> dict[str, Any]:
        """By their descriptions: the rules of the cluster's security groups."""
        ours = [{"Name": "tag:gpucluster:cluster", "Values": [self.name]}]
        found = self.bed.client("ec2").describe_security_groups(Filters=ours)["SecurityGroups"]
        return {each["Description"]: _rules(each) for each in found}

    def tags(self) -> list[dict[str, str]]:
        """Those of the head node and of its data volume."""
        head, ec2 = self.instance(*self.bed.instances("head")), self.bed.client("ec2")
        home = [{"Name": "tag:gpucluster:home", "Values": [self.name]}]
        (volume,) = ec2.describe_volumes(Filters=home)["Volumes"]
        return [tags_of(head["Tags"]), tags_of(volume["Tags"])]

    def instance(self, instance_id: str) -> dict[str, Any]:
        found = self.bed.client("ec2").describe_instances(InstanceIds=[instance_id])
        return dict(found["Reservations"][0]["Instances"][0])

    def head_in_template(self) -> dict[str, Any]:
        """The head node's properties. The local cloud keeps no CpuOptions of instances."""
        body = self.bed.client("cloudformation").get_template(StackName=self.name)["TemplateBody"]
        (head,) = (each for each in body["Resources"].values() if each["Type"] == "AWS::EC2::Instance")
        return dict(head["Properties"])

    def disk(self, instance_id: str) -> tuple[int, int, int]:
        """GiB, IOPS and MiB/s of an instance's root disk."""
        attached = [{"Name": "attachment.instance-id", "Values": [instance_id]}]
        found = self.bed.client("ec2").describe_volumes(Filters=attached)["Volumes"]
        (root,) = (each for each in found if each["Attachments"][0]["Device"] == "/dev/sda1")
        return root["Size"], root["Iops"], root["Throughput"]


def _rules(group: dict[str, Any]) -> list[str]:
    """EC2 lists them in no order."""
    return sorted(json.dumps(each, sort_keys=True) for each in (*group["IpPermissions"], *group["IpPermissionsEgress"]))


def differences(before: Any, after: Any, place: str = "") -> list[str]:
    """The places at which two results of `state` differ, with both values."""
    if isinstance(before, dict) and isinstance(after, dict):
        names = dict.fromkeys([*before, *after])
        return [each for name in names for each in differences(before.get(name), after.get(name), f"{place}.{name}")]
    if isinstance(before, list) and isinstance(after, list):
        gone, new = ([each for each in a if each not in b] for a, b in ((before, after), (after, before)))
        return [f"{place}: {gone} -> {new}"] if before != after else []
    return [f"{place}: {before} -> {after}"] if before != after else []


def tags_of(found: list[dict[str, str]]) -> dict[str, str]:
    return {each["Key"]: each["Value"] for each in found if each["Key"] not in ("gpucluster:generation",)}
