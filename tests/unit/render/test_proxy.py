"""What goes through the proxy, as the programs on nodes read the variables."""

from __future__ import annotations

import json
import urllib.request

import pytest
from botocore.utils import get_environ_proxies

from gpucluster import config, render
from gpucluster.config import ClusterConfig
from gpucluster.render import proxy

PROXY = "http://proxy.example.com:3128"
CLUSTER = {
    "name": "Mine",
    "region": "us-east-1",
    "partitions": [{"name": "t", "instance_types": ["g5.xlarge"], "max_nodes": 2}],
}
EXISTING = {"vpc_id": "vpc-11111111", "subnet_id": "subnet-11111111"}


def loaded(**network: object) -> ClusterConfig:
    return config.loads(json.dumps({**CLUSTER, "availability_zone": "us-east-1a", "network": network}))


DIRECT = {
    "http://169.254.169.254/latest": True,
    "http://127.0.0.1:9911/credentials": True,
    "http://localhost:6006": True,
    "http://t-1.mine.internal:300": True,
    "http://head:9090": True,
    "https://s3.us-east-1.amazonaws.com/bucket": True,
    "https://bucket.s3.us-east-1.amazonaws.com/key": True,
    "https://mirror.example.com/ubuntu": True,
    "https://ec2.us-east-1.amazonaws.com": False,
    "https://pypi.org/simple": False,
    "https://heads.example.com": False,
}


@pytest.mark.parametrize(("url", "direct"), DIRECT.items())
def test_what_goes_around_the_proxy(url: str, direct: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """In Python's urllib, which boot steps use, and in boto3, which the node programs use."""
    for name in ("http_proxy", "https_proxy", "no_proxy", "HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY"):
        monkeypatch.delenv(name, raising=False)
    for name, value in proxy.variables(loaded(proxy=PROXY, no_proxy=["mirror.example.com"])).items():
        monkeypatch.setenv(name, value)
    assert bool(urllib.request.proxy_bypass(url.split("/")[2])) is direct
    assert get_environ_proxies(url).get(url.partition(":")[0]) == (None if direct else PROXY)


def test_an_existing_vpc_may_have_no_endpoint_of_s3() -> None:
    names = proxy.direct(loaded(proxy=PROXY, **EXISTING))
    assert not [name for name in names if name.startswith("s3.")]


def test_grpc_between_nodes_goes_around_the_proxy() -> None:
    """gRPC compares the ends of names: https://github.com/grpc/grpc/blob/master/src/core/handshaker/http_connect/http_proxy_mapper.cc."""
    ends = proxy.variables(loaded(proxy=PROXY))["no_grpc_proxy"].split(",")
    for host, direct in (("t-12", True), ("10.0.1.7", True), ("t-1.mine.internal", True), ("api.example.com", False)):
        assert any(host.endswith(end) for end in ends) is direct


def test_without_a_proxy_nodes_get_no_variable() -> None:
    assert render.bundle(loaded())["environment"] == ""
    assert "export" not in render.user_data(loaded(), "head")


@pytest.mark.parametrize("role", ["head", "compute"])
def test_the_first_boot_fetches_the_bundle_through_it(role: render.Role) -> None:
    text = render.user_data(loaded(proxy=PROXY), role)
    assert text.index(f"export https_proxy={PROXY}\n") < text.index("python3 -")
    assert "export no_proxy=localhost,127.0.0.1,::1,169.254.169.254," in text
    assert len(text.encode()) < 4096
