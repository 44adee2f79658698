"""A job's own nodes are not behind the proxy of the nodes' environment (network.proxy of cluster.yaml)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from gpucluster_job.network import addresses_of

PROXIES = ("http_proxy", "HTTP_PROXY", "https_proxy", "HTTPS_PROXY", "all_proxy", "ALL_PROXY")
EXCEPTIONS = ("no_proxy", "NO_PROXY")


def variables(nodes: Sequence[str], environ: Mapping[str, str]) -> dict[str, str]:
    """The exceptions from the proxy, with each node's name and address; nothing without a proxy.

    Programs compare an exception with the end of a name or with the text of an address. A network such as 10.0.0.0/16
    means something to curl from 7.86 on, to Go and to requests, and nothing to wget, to Python's urllib
    (proxy_bypass_environment), to botocore (should_bypass_proxies, by urllib) and to gRPC, which has its own variable.
    """
    if not any(environ.get(name) for name in PROXIES):
        return {}
    own = [*nodes, *addresses_of(nodes)]
    return {name: ",".join(filter(None, [environ.get(name, ""), *own])) for name in EXCEPTIONS}
