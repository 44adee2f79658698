"""The variables with which programs on nodes use the proxy of cluster.yaml."""

from __future__ import annotations

from collections.abc import Mapping

from gpucluster.config import ClusterConfig
from gpucluster.config.regions import domain_of

THIS_MACHINE = ("localhost", "127.0.0.1", "::1", "169.254.169.254", "fd00:ec2::254")
"""With the addresses of the instance metadata service."""


def direct(config: ClusterConfig) -> tuple[str, ...]:
    """What nodes reach without the proxy. A name stands for all names that end in it, too."""
    own = [*THIS_MACHINE, "head", config.zone]
    if config.network.vpc_id is None:  # its stack makes a gateway endpoint of S3
        own += [config.network.vpc_cidr, f"s3.{config.region}.{domain_of(config.region)}"]
    return tuple(dict.fromkeys([*own, *config.network.no_proxy]))


def variables(config: ClusterConfig) -> Mapping[str, str]:
    """Empty without a proxy.

    gRPC, by which TensorFlow's workers talk, takes these variables too, and compares the ends of names (gRPC's
    http_proxy_mapper.cc: no_grpc_proxy). The names of nodes, and addresses, end in a digit.
    """
    proxy = config.network.proxy
    if proxy is None:
        return {}
    around, names = ",".join(direct(config)), ("http_proxy", "https_proxy")
    return {
        **{name: proxy for name in (*names, *(name.upper() for name in names))},
        **{name: around for name in ("no_proxy", "NO_PROXY")},
        "no_grpc_proxy": ",".join([*map(str, range(10)), "localhost", "head", config.zone]),
    }
