"""The step that gives a node the proxy of cluster.yaml, and takes it away again."""

from __future__ import annotations

from pathlib import Path

import pytest
from test_steps import Machine, source_of

WANTED = "http_proxy=http://proxy:3128\nhttps_proxy=http://proxy:3128\nno_proxy=localhost,127.0.0.1,10.0.0.0/16,mine.internal\n"


@pytest.fixture
def node(tmp_path: Path) -> Machine:
    machine = Machine(tmp_path)
    machine.step("proxy", machine.below(source_of("proxy").read_text(), "/etc/"))
    (tmp_path / "etc").mkdir()
    return machine


def boots(node: Machine, wanted: str) -> str:
    """What the node's /etc/environment has then."""
    (node.root / "bundle/environment").write_text(wanted)
    done = node.run("report_failure() { true; }\nrun_step proxy", "runner", "files", "proxy")
    assert done.returncode == 0, done.stdout + done.stderr
    environment = node.root / "etc/environment"
    return environment.read_text() if environment.exists() else ""


def test_the_proxy_is_written_beside_what_the_image_has_and_removed_again(node: Machine) -> None:
    own = 'PATH="/usr/bin"\nLANG=C.UTF-8\n'
    (node.root / "etc/environment").write_text(own)
    with_it = f"{own}# GpuCluster: proxy\n{WANTED}# GpuCluster: end\n"
    assert [boots(node, WANTED), boots(node, WANTED)] == [with_it, with_it]
    other = WANTED.replace("proxy:3128", "other:80")
    assert boots(node, other) == with_it.replace(WANTED, other)
    assert boots(node, "") == own
    assert not [path for path in (node.root / "etc").rglob("*proxy*")]


def test_apt_takes_it_without_the_variables(node: Machine) -> None:
    boots(node, WANTED)
    apt = (node.root / "etc/apt/apt.conf.d/95gpucluster-proxy").read_text().splitlines()
    assert apt == [
        line.format(scheme)
        for scheme in ("http", "https")
        for line in (
            'Acquire::{}::Proxy "http://proxy:3128";',
            'Acquire::{}::Proxy::localhost "DIRECT";',
            'Acquire::{}::Proxy::mine.internal "DIRECT";',
        )
    ]


def test_the_cloudwatch_agent_takes_it(node: Machine) -> None:
    boots(node, WANTED)
    unit = node.root / "etc/systemd/system/amazon-cloudwatch-agent.service.d/gpucluster-proxy.conf"
    assert unit.read_text() == f"[Service]\nEnvironmentFile={node.root}/etc/environment\n"


def test_without_a_proxy_nothing_is_written(node: Machine) -> None:
    assert boots(node, "") == ""
    assert list((node.root / "etc").iterdir()) == []
