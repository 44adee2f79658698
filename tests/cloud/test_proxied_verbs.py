"""The verbs on a machine whose way to AWS is an HTTP proxy: HTTPS_PROXY and NO_PROXY.

The local cloud answers over TLS here, so that clients ask the proxy for a tunnel (CONNECT), as they do for AWS. The
proxy is our own, because a proxy program needs a package and root; tinyproxy serves test_moved_in_proxy.py.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

from gpucluster.cluster import local_cloud
from localcloud.identity import authority
from localcloud.testing import cdk_project
from localcloud.testing.connect_proxy import ConnectProxy
from localcloud.testing.tls_front import tls_front
from tests import warm
from tests.cloud.played_head import Head

NAME = "Proxied"
CLUSTER = """
name: Proxied
region: us-east-1
head_node: {instance_type: m6i.large, volume_gib: 20}
partitions:
  - {name: train, instance_types: [g5.12xlarge], max_nodes: 2}
"""


@dataclass
class Office:
    """A machine behind the proxy."""

    file: Path
    proxy: ConnectProxy
    environment: dict[str, str]
    api: str
    tunnel: str
    """host:port, as clients name them."""

    def gpucluster(self, *words: str, **more: str) -> tuple[Any, Counter[str]]:
        """What the verb did, and the proxy's requests meanwhile."""
        before = len(self.proxy.requests)
        done = warm.gpucluster("-c", str(self.file), *words, env={**self.environment, **more})
        return done, Counter(self.proxy.requests[before:])


@pytest.fixture(scope="module")
def office(bootstrapped: Any, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Office]:
    folder = tmp_path_factory.mktemp("office")
    (folder / "authority.pem").write_text(authority.web().certificate)
    (folder / "cluster.yaml").write_text(CLUSTER)
    own = authority.server_context(authority.web().issue("localhost", "127.0.0.1"))
    port = int(urlsplit(bootstrapped.endpoint_url).port or 0)
    with (
        tls_front(own, ("127.0.0.1", port)) as api,
        tls_front(own, ("127.0.0.1", port + 1)) as tunnel,
        ConnectProxy(lambda host, asked: (host, tunnel if asked == port + 1 else asked)) as proxy,
    ):
        environment = cdk_project.environment(f"https://127.0.0.1:{api}", bootstrapped.secret)
        for name in ("NO_PROXY", "no_proxy"):
            environment.pop(name)
        trusts = ("AWS_CA_BUNDLE", "SSL_CERT_FILE", "NODE_EXTRA_CA_CERTS")
        environment |= dict.fromkeys(trusts, str(folder / "authority.pem")) | {"HTTPS_PROXY": proxy.url}
        yield Office(folder / "cluster.yaml", proxy, environment, f"127.0.0.1:{api}", f"127.0.0.1:{port + 1}")


def _publish_host_key(control_plane: Any) -> None:
    """As the head node does when it boots. Without it no verb opens a tunnel."""
    line = Ed25519PrivateKey.generate().public_key().public_bytes(Encoding.OpenSSH, PublicFormat.OpenSSH).decode()
    control_plane.client("ssm").put_parameter(Name=f"/gpucluster/{NAME}/host-key", Value=line, Overwrite=True)


@pytest.fixture(scope="module")
def deployed(office: Office, bootstrapped: Any) -> Iterator[Counter[str]]:
    """The proxy's requests of `up`."""
    with Head(bootstrapped, NAME):
        done, asked = office.gpucluster("up")
        assert done.returncode == 0, done.stdout + done.stderr
        _publish_host_key(bootstrapped)
        yield asked
        done, _ = office.gpucluster("down", "--yes")
        assert done.returncode == 0, done.stdout + done.stderr


def test_plan_asks_through_the_proxy(office: Office) -> None:
    done, asked = office.gpucluster("plan")
    assert done.returncode == 0, done.stderr
    assert asked.keys() == {f"CONNECT {office.api}"}


def test_up_and_the_cdk_command_line_go_through_the_proxy(office: Office, deployed: Counter[str]) -> None:
    assert sorted(deployed) == [f"CONNECT {office.api}"], deployed
    assert deployed[f"CONNECT {office.api}"] > 20


def test_the_tunnel_of_ssh_goes_through_the_proxy(office: Office, deployed: Counter[str]) -> None:
    """No instance boots, so the endpoint of Instance Connect closes the tunnel and says so."""
    done, asked = office.gpucluster("jobs")
    assert asked.keys() == {f"CONNECT {office.api}", f"CONNECT {office.tunnel}"}
    assert done.returncode != 0 and "--no-boot" in done.stderr, done.stderr


def test_no_proxy_is_obeyed_by_each_part(office: Office, deployed: Counter[str]) -> None:
    done, asked = office.gpucluster("plan", NO_PROXY="127.0.0.1")
    assert done.returncode == 0 and not asked, asked
    done, asked = office.gpucluster("jobs", NO_PROXY="127.0.0.1")
    assert not asked, asked  # and the port itself speaks no TLS


def test_a_proxy_that_refuses_is_named(office: Office) -> None:
    with ConnectProxy(refuses=True) as closed:
        done, _ = office.gpucluster("list", HTTPS_PROXY=closed.url)
    assert done.returncode != 0 and closed.url.removeprefix("http://") in done.stderr, done.stderr


def test_a_local_cloud_is_reached_without_the_proxy(
    office: Office, deployed: Counter[str], bootstrapped: Any, tmp_path: Path
) -> None:
    """The same cluster, as that of a local cloud."""
    file = tmp_path / "cluster.yaml"
    file.write_text(CLUSTER)
    local_cloud.write(file, NAME, local_cloud.Record(bootstrapped.endpoint_url, "default", False, bootstrapped.secret))
    proxies = {name: office.proxy.url for name in ("HTTP_PROXY", "http_proxy", "HTTPS_PROXY")}
    environment = {name: value for name, value in os.environ.items() if name.lower() != "no_proxy"} | proxies
    here = Office(file, office.proxy, environment, "", "")
    for verb in ("plan", "list", "jobs"):
        done, asked = here.gpucluster(verb)
        assert not asked, (verb, asked)
        assert done.returncode == 0 or "--no-boot" in done.stderr, done.stderr
