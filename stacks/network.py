"""The network: one private subnet in one availability zone, its routes, and the security groups."""

from __future__ import annotations

from ipaddress import IPv4Network

import aws_cdk as cdk
from aws_cdk import aws_ec2 as ec2
from aws_cdk import aws_route53 as route53
from constructs import Construct

from gpucluster import ports
from gpucluster.config import ClusterConfig
from gpucluster.config.door import Door
from stacks.endpoints import Endpoints

SLURM = ec2.Port.tcp_range(ports.SLURMCTLD, ports.SLURMDBD)
NFS = ec2.Port.tcp(ports.NFS)
SAMPLES = ec2.Port.tcp(ports.NODE_EXPORTER)
SSH = ec2.Port.tcp(22)
SRUN = ec2.Port.tcp_range(*ports.SRUN)
EVERYTHING = ec2.Port.all_traffic()
ANYWHERE = ("0.0.0.0/1", "128.0.0.0/1")
"""All of IPv4, as two halves. CloudFormation removes the rule 0.0.0.0/0, which EC2 gives each new group, as soon as an
AWS::EC2::SecurityGroupEgress is added to the group, even if the template states the rule."""


class Network(Construct):
    """Nodes have only private addresses. They reach the internet through NAT or endpoints; users reach them through the
    Instance Connect Endpoint.

    In an existing VPC only security groups, the private zone and that endpoint are created. If the VPC has
    an endpoint, that one is used: AWS allows one for each VPC. The VPC's owner provides the subnet's route and the
    endpoints of AWS's APIs: AWS refuses a second endpoint with private DNS for a service.
    """

    def __init__(
        self,
        scope: Construct,
        id_: str,
        *,
        config: ClusterConfig,
        availability_zone: str,
        door: Door | None = None,
    ) -> None:
        """`door`: the endpoint that the VPC has, if the file does not name it."""
        super().__init__(scope, id_)
        self.availability_zone = availability_zone
        self.exists = config.network.vpc_id is not None
        self.public_subnet: ec2.ISubnet | None = None
        """For a new VPC with a route to the internet."""
        self.vpc, self.subnet = self._existing(config) if self.exists else self._new(config)
        self.zone = route53.PrivateHostedZone(self, "Zone", vpc=self.vpc, zone_name=config.zone)
        self.head = self._security_group("Head", "GpuCluster head node")
        self.compute = self._security_group("Compute", "GpuCluster compute nodes", allow_all_outbound=False)
        self._between_nodes()
        if config.monitoring.scrape_from:
            self._accept_scrapes(config.monitoring.scrape_from)
        endpoint_id, group_id = door or (config.network.connect_endpoint_id, config.network.connect_security_group_id)
        self.endpoint_id = endpoint_id or self._instance_connect_endpoint()
        if group_id:
            self._accept_ssh(group_id)
        if config.network.internet == "none" and not self.exists:
            self.endpoints = Endpoints(
                self,
                "Endpoints",
                vpc=self.vpc,
                subnet=self.subnet,
                callers=[self.head, self.compute],
                job_roles=config.jobs_have_role,
                file_systems=config.asks_fsx,
                notices=config.monitoring.alarm_email is not None,
            )

    def _existing(self, config: ClusterConfig) -> tuple[ec2.IVpc, ec2.ISubnet]:
        """Uses only what the file says and looks nothing up, so `availability_zone` must be the subnet's."""
        vpc = ec2.Vpc.from_vpc_attributes(
            self, "Vpc", vpc_id=str(config.network.vpc_id), availability_zones=[self.availability_zone]
        )
        subnet = ec2.Subnet.from_subnet_attributes(
            self, "Subnet", subnet_id=str(config.network.subnet_id), availability_zone=self.availability_zone
        )
        # CDK asks for a route table, which nothing here uses.
        cdk.Annotations.of(subnet).acknowledge_warning("@aws-cdk/aws-ec2:noSubnetRouteTableId")
        return vpc, subnet

    def _new(self, config: ClusterConfig) -> tuple[ec2.IVpc, ec2.ISubnet]:
        nat = config.network.internet == "nat"
        vpc = self._vpc(IPv4Network(config.network.vpc_cidr), nat=nat)
        if nat:
            self.public_subnet = vpc.public_subnets[0]
        return vpc, vpc.private_subnets[0] if nat else vpc.isolated_subnets[0]

    def _vpc(self, network: IPv4Network, *, nat: bool) -> ec2.Vpc:
        # The public subnet holds the NAT gateway and the load balancer of `ssh_from`; a VPC has no smaller subnet than
        # /28. Without NAT its addresses are only reserved, so that nodes are in the upper half in both cases.
        public = ec2.SubnetConfiguration(
            name="Public",
            subnet_type=ec2.SubnetType.PUBLIC,
            cidr_mask=min(network.prefixlen + 4, 28),
            reserved=not nat,
            map_public_ip_on_launch=False if nat else None,  # nothing in it needs one: the NAT gateway has its own
        )
        private = ec2.SubnetConfiguration(
            name="Private",
            subnet_type=ec2.SubnetType.PRIVATE_WITH_EGRESS if nat else ec2.SubnetType.PRIVATE_ISOLATED,
            cidr_mask=network.prefixlen + 1,
        )
        return ec2.Vpc(
            self,
            "Vpc",
            ip_addresses=ec2.IpAddresses.cidr(str(network)),
            availability_zones=[self.availability_zone],
            nat_gateways=1 if nat else 0,
            subnet_configuration=[public, private],
            gateway_endpoints={"S3": ec2.GatewayVpcEndpointOptions(service=ec2.GatewayVpcEndpointAwsService.S3)},
            restrict_default_security_group=False,  # it would take a Lambda function, and nothing uses that group
        )

    def _security_group(self, id_: str, description: str, *, allow_all_outbound: bool = True) -> ec2.SecurityGroup:
        return ec2.SecurityGroup(
            self, id_, vpc=self.vpc, description=description, allow_all_outbound=allow_all_outbound
        )

    def _between_nodes(self) -> None:
        self.head.add_ingress_rule(self.compute, SLURM, "Slurm")
        self.head.add_ingress_rule(self.compute, NFS, "home directories")
        self.head.add_ingress_rule(self.compute, SRUN, "ranks that answer an srun on the head node")
        self.compute.add_ingress_rule(self.head, ec2.Port.all_tcp(), "Slurm, and ranks that srun starts")
        for half in ANYWHERE:
            self.compute.add_egress_rule(ec2.Peer.ipv4(half), EVERYTHING, "all outbound traffic")
        # EFA's traffic is not IP: it needs a rule that names the group itself, in both directions; rules with addresses
        # do not cover it.
        self.compute.add_ingress_rule(self.compute, EVERYTHING, "EFA, NCCL and MPI between nodes")
        ec2.CfnSecurityGroupEgress(
            self,
            "EfaEgress",
            group_id=self.compute.security_group_id,
            destination_security_group_id=self.compute.security_group_id,
            ip_protocol="-1",
            description="EFA between nodes",
        )

    def _accept_ssh(self, group_id: str) -> None:
        """From an existing endpoint. Its group is not changed: CloudFormation would take its rule 0.0.0.0/0 away."""
        group = ec2.SecurityGroup.from_security_group_id(self, "Endpoint", group_id, mutable=False)
        for nodes in (self.head, self.compute):
            nodes.add_ingress_rule(group, SSH, "SSH through the endpoint")

    def _accept_scrapes(self, group_id: str) -> None:
        """From the user's own Prometheus, whose group is not changed."""
        group = ec2.SecurityGroup.from_security_group_id(self, "Scraper", group_id, mutable=False)
        for nodes in (self.head, self.compute):
            nodes.add_ingress_rule(group, SAMPLES, "samples for another Prometheus")

    def _instance_connect_endpoint(self) -> str:
        """The id of a new one."""
        group = self._security_group("Endpoint", "GpuCluster Instance Connect Endpoint", allow_all_outbound=False)
        for nodes in (self.head, self.compute):
            group.add_egress_rule(nodes, SSH, "SSH to nodes")
            nodes.add_ingress_rule(group, SSH, "SSH through the endpoint")
        endpoint = ec2.CfnInstanceConnectEndpoint(
            self,
            "InstanceConnect",
            subnet_id=self.subnet.subnet_id,
            security_group_ids=[group.security_group_id],
            preserve_client_ip=False,
            tags=[cdk.CfnTag(key="Name", value=self.zone.zone_name)],
        )
        return endpoint.ref
