"""Interface endpoints for AWS's APIs in a network without a route to the internet; the APIs' names resolve to them.

S3 is not in the list: every new VPC has a gateway endpoint for it (bundles, and the wait condition, whose URL is in
S3). KMS is not in it either: nodes never call it, but the services that encrypt for them do.
"""

from __future__ import annotations

from collections.abc import Sequence

from aws_cdk import Stack
from aws_cdk import aws_ec2 as ec2
from constructs import Construct

HTTPS = ec2.Port.tcp(443)
Services = ec2.InterfaceVpcEndpointAwsService

ROUTE_53 = "com.amazonaws.route53"
"""Route 53 is one service for all regions, so its name has no region; other regions reach it across regions."""
ROUTE_53_REGION = "us-east-1"


class Endpoints(Construct):
    def __init__(
        self,
        scope: Construct,
        id_: str,
        *,
        vpc: ec2.IVpc,
        subnet: ec2.ISubnet,
        callers: Sequence[ec2.ISecurityGroup],
        job_roles: bool,
        file_systems: bool,
        notices: bool,
    ) -> None:
        """`job_roles`: jobs assume their own role, with STS. `file_systems`: the head node asks FSx for some.
        `notices`: it sends e-mails about jobs, with SNS."""
        super().__init__(scope, id_)
        self._vpc = vpc
        self._subnet = subnet
        self._group = ec2.SecurityGroup(
            self, "Group", vpc=vpc, description="GpuCluster API endpoints", allow_all_outbound=False
        )
        for caller in callers:
            self._group.add_ingress_rule(caller, HTTPS, "calls from nodes")
        services = {
            "Ec2": Services.EC2,
            "Ssm": Services.SSM,
            "SecretsManager": Services.SECRETS_MANAGER,
            "Logs": Services.CLOUDWATCH_LOGS,
            "Monitoring": Services.CLOUDWATCH_MONITORING,
        }
        if job_roles:
            services["Sts"] = Services.STS
        if file_systems:
            services["Fsx"] = Services.FSX
        if notices:
            services["Sns"] = Services.SNS
        for name, service in services.items():
            self._endpoint(name, service)
        elsewhere = Stack.of(self).region != ROUTE_53_REGION
        self._endpoint(
            "Route53", ec2.InterfaceVpcEndpointService(ROUTE_53, 443), ROUTE_53_REGION if elsewhere else None
        )

    def _endpoint(self, id_: str, service: ec2.IInterfaceVpcEndpointService, region: str | None = None) -> None:
        ec2.InterfaceVpcEndpoint(
            self,
            id_,
            vpc=self._vpc,
            subnets=ec2.SubnetSelection(subnets=[self._subnet]),
            service=service,
            service_region=region,
            private_dns_enabled=True,
            security_groups=[self._group],
            open=False,
        )
