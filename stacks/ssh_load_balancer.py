"""SSH access for the networks in `ssh_from`: port 22 of a load balancer, which forwards to the head node.

The head node keeps its private address. Only the listed networks reach the load balancer, and only the load balancer
reaches the head node from outside.
"""

from __future__ import annotations

from collections.abc import Sequence

from aws_cdk import aws_ec2 as ec2
from aws_cdk import aws_elasticloadbalancingv2 as elb
from constructs import Construct

from stacks.network import SSH, Network

IDLE_TIMEOUT_S = 6000
"""The longest idle time-out of a network load balancer. The default, 350 s, ends an idle shell after six minutes."""


class SshLoadBalancer(Construct):
    def __init__(
        self,
        scope: Construct,
        id_: str,
        *,
        network: Network,
        public_subnet: ec2.ISubnet,
        instance_id: str,
        sources: Sequence[str],
    ) -> None:
        """`sources`: IPv4 networks."""
        super().__init__(scope, id_)
        self._group = self._security_group(network, sources)
        self._balancer = self._load_balancer(public_subnet)
        target = self._target(network, instance_id)
        elb.CfnListener(
            self,
            "Listener",
            load_balancer_arn=self._balancer.ref,
            protocol="TCP",
            port=22,
            default_actions=[elb.CfnListener.ActionProperty(type="forward", target_group_arn=target.ref)],
            listener_attributes=[
                elb.CfnListener.ListenerAttributeProperty(key="tcp.idle_timeout.seconds", value=str(IDLE_TIMEOUT_S))
            ],
        )

    @property
    def host(self) -> str:
        return self._balancer.attr_dns_name

    def _security_group(self, network: Network, sources: Sequence[str]) -> ec2.SecurityGroup:
        group = ec2.SecurityGroup(
            self, "Group", vpc=network.vpc, description="GpuCluster load balancer for SSH", allow_all_outbound=False
        )
        for source in sources:
            group.add_ingress_rule(ec2.Peer.ipv4(source), SSH, "ssh_from")
        group.add_egress_rule(network.head, SSH, "SSH to the head node")
        network.head.add_ingress_rule(group, SSH, "SSH through the load balancer")
        return group

    def _load_balancer(self, subnet: ec2.ISubnet) -> elb.CfnLoadBalancer:
        balancer = elb.CfnLoadBalancer(
            self,
            "Balancer",
            type="network",
            scheme="internet-facing",
            ip_address_type="ipv4",
            subnets=[subnet.subnet_id],
            security_groups=[self._group.security_group_id],
        )
        # AWS refuses a load balancer in a VPC whose internet gateway is not attached yet.
        balancer.node.add_dependency(subnet.internet_connectivity_established)
        return balancer

    def _target(self, network: Network, instance_id: str) -> elb.CfnTargetGroup:
        attribute = elb.CfnTargetGroup.TargetGroupAttributeProperty
        return elb.CfnTargetGroup(
            self,
            "Head",
            vpc_id=network.vpc.vpc_id,
            protocol="TCP",
            port=22,
            target_type="instance",
            targets=[elb.CfnTargetGroup.TargetDescriptionProperty(id=instance_id, port=22)],
            health_check_protocol="TCP",
            # Keeps the client's address in the head node's log.
            target_group_attributes=[attribute(key="preserve_client_ip.enabled", value="true")],
        )
