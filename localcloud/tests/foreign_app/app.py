"""Somebody else's CDK app: a VPC and a web server that signals once it serves its page.

Context values vary it: page (its text), broken (the reason that it signals instead of success), wait_seconds,
note (value of a parameter), extra (one more parameter), size (of the data volume), fail (one more resource,
which AWS refuses).
"""

from __future__ import annotations

import os

import aws_cdk as cdk
from aws_cdk import aws_ec2 as ec2
from aws_cdk import aws_iam as iam
from aws_cdk import aws_ssm as ssm
from constructs import Construct

IMAGE = "/aws/service/canonical/ubuntu/server/24.04/stable/current/amd64/hvm/ebs-gp3/ami-id"

USER_DATA = """\
#!/bin/bash
mkdir -p /srv/page
echo '{page}' > /srv/page/index.html
cd /srv/page
nohup python3 -m http.server 80 > /var/log/page.log 2>&1 &
for _ in $(seq 50); do curl -sf http://127.0.0.1/ && break; sleep 0.2; done
{check}
status=$([ "$reason" = ok ] && echo SUCCESS || echo FAILURE)
signal='{{"Status": "%s", "Reason": "%s", "UniqueId": "web", "Data": "%s"}}'
printf "$signal" "$status" "$reason" "$(hostname)" > /tmp/signal
curl -sS -X PUT -H 'Content-Type:' --data-binary @/tmp/signal '{handle}'
"""


class WebStack(cdk.Stack):
    def __init__(self, scope: Construct, name: str, **settings: object) -> None:
        super().__init__(scope, name, **settings)  # type: ignore[arg-type]
        page = self.node.try_get_context("page") or "hello from the foreign app"
        note = self.node.try_get_context("note") or "first"
        vpc = self._network()
        handle = cdk.CfnWaitConditionHandle(self, "Served")
        server = self._server(vpc, page, handle)
        timeout = str(self.node.try_get_context("wait_seconds") or 300)
        served = cdk.CfnWaitCondition(self, "ServedCondition", handle=handle.ref, timeout=timeout, count=1)
        served.node.add_dependency(server)
        volume = ec2.CfnVolume(
            self,
            "Data",
            availability_zone=server.attr_availability_zone,
            size=int(self.node.try_get_context("size") or 1),
            volume_type="gp3",
            encrypted=True,
        )
        ec2.CfnVolumeAttachment(self, "DataAttached", instance_id=server.ref, volume_id=volume.ref, device="/dev/sdf")
        ssm.StringParameter(self, "Note", parameter_name=f"/{name}/note", string_value=note)
        if self.node.try_get_context("extra"):
            ssm.StringParameter(self, "Extra", parameter_name=f"/{name}/extra", string_value="extra")
        if self.node.try_get_context("fail"):
            # EC2 refuses a subnet outside the VPC's range; nothing before deployment notices.
            ec2.CfnSubnet(self, "Refused", vpc_id=vpc.vpc_id, cidr_block="192.168.77.0/24")
        cdk.CfnOutput(self, "ServerId", value=server.ref)
        cdk.CfnOutput(self, "ServerAddress", value=server.attr_private_ip)
        cdk.CfnOutput(self, "VolumeId", value=volume.ref)
        cdk.CfnOutput(self, "WaitData", value=cdk.Fn.join("", [served.attr_data.to_string()]))

    def _network(self) -> ec2.Vpc:
        return ec2.Vpc(
            self,
            "Net",
            ip_addresses=ec2.IpAddresses.cidr("10.20.0.0/16"),
            availability_zones=[f"{self.region}a"],
            nat_gateways=1,
            restrict_default_security_group=False,
            subnet_configuration=[
                ec2.SubnetConfiguration(name="public", subnet_type=ec2.SubnetType.PUBLIC, cidr_mask=24),
                ec2.SubnetConfiguration(name="private", subnet_type=ec2.SubnetType.PRIVATE_WITH_EGRESS, cidr_mask=24),
            ],
        )

    def _server(self, vpc: ec2.Vpc, page: str, handle: cdk.CfnWaitConditionHandle) -> ec2.CfnInstance:
        group = ec2.SecurityGroup(self, "Web", vpc=vpc, description="the page", allow_all_outbound=True)
        group.add_ingress_rule(ec2.Peer.ipv4(vpc.vpc_cidr_block), ec2.Port.tcp(80), "http from the VPC")
        role = iam.Role(self, "ServerRole", assumed_by=iam.ServicePrincipal("ec2.amazonaws.com"))
        profile = iam.CfnInstanceProfile(self, "ServerProfile", roles=[role.role_name])
        broken = self.node.try_get_context("broken")
        check = f"reason='{broken}'" if broken else "reason=ok"
        user_data = USER_DATA.format(page=page, handle=handle.ref, check=check)
        server = ec2.CfnInstance(
            self,
            "Server",
            image_id=ec2.MachineImage.from_ssm_parameter(IMAGE).get_image(self).image_id,
            instance_type="m6i.large",
            subnet_id=vpc.private_subnets[0].subnet_id,
            security_group_ids=[group.security_group_id],
            iam_instance_profile=profile.ref,
            user_data=cdk.Fn.base64(user_data),
            tags=[cdk.CfnTag(key="Name", value="web")],
        )
        server.node.add_dependency(vpc.private_subnets[0].internet_connectivity_established)
        return server


app = cdk.App()
WebStack(
    app,
    os.environ.get("FOREIGN_STACK", "ForeignWeb"),
    env=cdk.Environment(account="123456789012", region=os.environ.get("AWS_REGION", "us-east-1")),
)
app.synth()
