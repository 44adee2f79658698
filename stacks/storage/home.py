"""The volume with /home, Slurm's state and the accounting database: it outlives head nodes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

import aws_cdk as cdk
from aws_cdk import aws_dlm as dlm
from aws_cdk import aws_ec2 as ec2
from aws_cdk import aws_iam as iam
from aws_cdk import aws_kms as kms
from constructs import Construct

from stacks import deletion, encryption, roles
from stacks.arns import arn

HOME_TAG = "gpucluster:home"
SNAPSHOT_TIME_UTC = "03:00"
AT_END: Mapping[str, cdk.CfnDeletionPolicy] = {
    "delete": cdk.CfnDeletionPolicy.DELETE,
    "snapshot": cdk.CfnDeletionPolicy.SNAPSHOT,
    "retain": deletion.STAYS,
}


class HomeVolume(Construct):
    """The head node attaches the volume itself when it boots. CloudFormation could not move an attachment to a new head
    node while the old one has the volume."""

    device = "/dev/sdf"

    def __init__(
        self,
        scope: Construct,
        id_: str,
        *,
        cluster: str,
        availability_zone: str,
        size_gib: int,
        on_delete: Literal["delete", "snapshot", "retain"],
        snapshot_days: int,
        snapshot_id: str | None = None,
        key: kms.IKey | None = None,
    ) -> None:
        super().__init__(scope, id_)
        self._cluster = cluster
        self.volume = ec2.Volume(
            self,
            "Volume",
            availability_zone=availability_zone,
            size=cdk.Size.gibibytes(size_gib),
            volume_type=ec2.EbsDeviceVolumeType.GP3,
            encrypted=True,
            encryption_key=key,
            snapshot_id=snapshot_id,
        )
        resource = self._resource()
        deletion.set_policy(resource, AT_END[on_delete])
        # A replacement would be empty, so the old volume is retained.
        resource.cfn_options.update_replace_policy = cdk.CfnDeletionPolicy.RETAIN
        tags = cdk.Tags.of(self.volume)
        for tag, value in (("Name", f"{cluster}-home"), ("gpucluster:cluster", cluster), (HOME_TAG, cluster)):
            tags.add(tag, value)
        if snapshot_days:
            self._daily_snapshots(snapshot_days, key)

    def _resource(self) -> ec2.CfnVolume:
        resource = self.volume.node.default_child
        assert isinstance(resource, ec2.CfnVolume)
        return resource

    @property
    def arn(self) -> str:
        return arn(self, "ec2", f"volume/{self.volume.volume_id}")

    def grant_attach(self, role: iam.Role) -> None:
        """Allows the head node to attach the volume. If another head node of this cluster has it or still runs, this
        one stops that node first."""
        roles.allow(role, ["ec2:DescribeVolumes"], ["*"])  # AWS has no scope for it
        heads = arn(self, "ec2", "instance/*")
        ours = {"aws:ResourceTag/gpucluster:cluster": self._cluster, "aws:ResourceTag/gpucluster:role": "head"}
        # By its tag, which the volumes in `storage` have too: the head node detaches one that the file no longer names.
        volumes = {"StringEquals": {"aws:ResourceTag/gpucluster:cluster": self._cluster}}
        roles.allow(role, ["ec2:AttachVolume", "ec2:DetachVolume"], [arn(self, "ec2", "volume/*")], volumes)
        roles.allow(
            role, ["ec2:AttachVolume", "ec2:DetachVolume", "ec2:StopInstances"], [heads], {"StringEquals": ours}
        )

    def _daily_snapshots(self, days: int, key: kms.IKey | None) -> None:
        Policy = dlm.CfnLifecyclePolicy
        # As the EBS guide recommends, with a wildcard where the policy's id is not known yet:
        # https://docs.aws.amazon.com/ebs/latest/userguide/service-role.html
        policies = arn(self, "dlm", "policy/*")
        ours = {
            "StringEquals": {"aws:SourceAccount": cdk.Stack.of(self).account},
            "ArnLike": {"aws:SourceArn": policies},
        }
        principal = iam.ServicePrincipal("dlm.amazonaws.com", conditions=ours)
        role = iam.Role(self, "SnapshotRole", assumed_by=principal)
        self._grant_snapshots(role)
        encryption.grant_volumes(role, key)  # DLM requires it if the volume is encrypted
        schedule = Policy.ScheduleProperty(
            name="daily",
            copy_tags=True,
            create_rule=Policy.CreateRuleProperty(interval=24, interval_unit="HOURS", times=[SNAPSHOT_TIME_UTC]),
            retain_rule=Policy.RetainRuleProperty(interval=days, interval_unit="DAYS"),
        )
        policy = Policy(
            self,
            "Snapshots",
            description=f"{self._cluster} home volume each day",
            execution_role_arn=role.role_arn,
            state="ENABLED",
            policy_details=Policy.PolicyDetailsProperty(
                policy_type="EBS_SNAPSHOT_MANAGEMENT",
                resource_types=["VOLUME"],
                target_tags=[cdk.CfnTag(key=HOME_TAG, value=self._cluster)],
                schedules=[schedule],
            ),
        )
        policy.node.add_dependency(role)

    def _grant_snapshots(self, role: iam.Role) -> None:
        """The permissions of AWS's own policy for this role, limited by tags to this volume and its snapshots."""
        snapshots = arn(self, "ec2", "snapshot/*", account="")
        describe = ["ec2:DescribeInstances", "ec2:DescribeSnapshots", "ec2:DescribeVolumes"]
        roles.allow(role, describe, ["*"])  # AWS has no scope for them
        roles.allow(role, ["ec2:CreateSnapshot"], [self.arn, snapshots])
        # Without a condition, as in AWS's policy: DLM does not document that it tags a snapshot in the call that
        # creates it.
        roles.allow(role, ["ec2:CreateTags"], [snapshots])
        ours = {"StringEquals": {f"aws:ResourceTag/{HOME_TAG}": self._cluster}}
        roles.allow(role, ["ec2:DeleteSnapshot"], [snapshots], ours)
