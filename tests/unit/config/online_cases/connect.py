from __future__ import annotations

from typing import Any

from validator_cases.case import cluster

from online_cases.case import Answers, Online
from online_cases.network import NETWORK, THERE, subnet

GROUP = "sg-0123456789abcdef0"
ENDPOINT = "eice-0123456789abcdef0"
USED = cluster(
    availability_zone="us-east-1a",
    network={**NETWORK, "connect_endpoint_id": ENDPOINT, "connect_security_group_id": GROUP},
)
NONE: Answers = {"ec2 describe_instance_connect_endpoints": {"InstanceConnectEndpoints": []}}


def endpoint(**keys: Any) -> Answers:
    found = {
        "InstanceConnectEndpointId": ENDPOINT,
        "VpcId": "vpc-11111111",
        "State": "create-complete",
        "PreserveClientIp": False,
        "SecurityGroupIds": [GROUP],
        "Tags": [],
        **keys,
    }
    return {"ec2 describe_instance_connect_endpoints": {"InstanceConnectEndpoints": [found]}}


def of_cluster(name: str) -> Answers:
    return endpoint(Tags=[{"Key": "gpucluster:cluster", "Value": name}])


def out(*rules: dict[str, Any]) -> Answers:
    found = {"GroupId": GROUP, "IpPermissionsEgress": list(rules)}
    return {**subnet(), **endpoint(), "ec2 describe_security_groups": {"SecurityGroups": [found]}}


def to(*cidrs: str, **keys: Any) -> dict[str, Any]:
    return {"IpProtocol": "-1", "IpRanges": [{"CidrIp": cidr} for cidr in cidrs], **keys}


SSH = {"IpProtocol": "tcp", "FromPort": 22, "ToPort": 22}
FITS = f"{ENDPOINT} "

CASES: dict[str, Online | list[Online]] = {
    "connect-endpoint-of-another": [
        Online(
            keys,
            key=f"network.{key}",
            says=f"{ENDPOINT}, through which SSH comes, belongs to the cluster Other",
            fails=of_cluster("Other"),
            passes=passes,
        )
        for keys, key in ((THERE, "vpc_id"), (USED, "connect_endpoint_id"))
        for passes in (endpoint(), of_cluster("GpuCluster"), endpoint(State="create-failed"))
    ],
    "connect-endpoint-exists": Online(
        USED,
        key="network.connect_endpoint_id",
        says=f"the account sees no {ENDPOINT} in us-east-1",
        fails={"ec2 describe_instance_connect_endpoints": "InvalidInstanceConnectEndpointId.NotFound"},
        passes=endpoint(),
    ),
    "connect-endpoint-fits": [
        Online(
            THERE,
            key="network.vpc_id",
            says=f"{ENDPOINT} keeps the addresses of clients (preserveClientIp), from which nodes accept no SSH",
            fails=endpoint(PreserveClientIp=True),
            passes=passes,
        )
        for passes in (NONE, endpoint(), endpoint(State="delete-complete"))
    ]
    + [
        Online(USED, key=f"network.{key}", says=f"{ENDPOINT} {says}", fails=fails, passes=of_cluster("Other"))
        for key, says, fails in (
            ("connect_endpoint_id", "is in vpc-22222222, not in vpc-11111111", endpoint(VpcId="vpc-22222222")),
            ("connect_endpoint_id", "is delete-in-progress", endpoint(State="delete-in-progress")),
            (
                "connect_endpoint_id",
                "keeps the addresses of clients (preserveClientIp), from which nodes accept no SSH",
                endpoint(PreserveClientIp=True),
            ),
            (
                "connect_security_group_id",
                f"has the security group sg-1, sg-2, not {GROUP}",
                endpoint(SecurityGroupIds=["sg-1", "sg-2"]),
            ),
        )
    ],
    "connect-endpoint-reaches-nodes": [
        Online(
            THERE,
            key="network.vpc_id",
            says=f"{GROUP} of {ENDPOINT} lets no SSH out to 10.0.16.0/20, the addresses of subnet-11111111",
            fails=out(),
            passes=out(to("0.0.0.0/0")),
        ),
    ]
    + [
        Online(
            USED,
            key="network.connect_endpoint_id",
            says=f"{GROUP} of {ENDPOINT} lets no SSH out to 10.0.16.0/20, the addresses of subnet-11111111",
            fails=out(*fails),
            passes=out(*passes),
        )
        for fails, passes in (
            ([], [to("0.0.0.0/0")]),
            ([to("10.0.16.0/21")], [to("10.0.16.0/21", "10.0.24.0/21")]),
            ([to("10.0.0.0/8", IpProtocol="tcp", FromPort=443, ToPort=443)], [to("10.0.0.0/8", **SSH)]),
            ([{**SSH, "UserIdGroupPairs": [{"GroupId": "sg-2"}]}], [to("0.0.0.0/1", **SSH)]),
        )
    ],
}
