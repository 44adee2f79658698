"""The step of the CloudWatch agent: if it fails, the boot continues; a second run changes nothing."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from test_steps import Machine, source_of

RUN = "ROLE=compute REGION={region}\nreport_failure() {{ echo reported; }}\nrun_step cloudwatch_agent\necho booted"
SOURCES = ("runner", "files", "services", "node_program", "agent", "cloudwatch_agent")


class Node(Machine):
    """A machine on which the paths of the agent and of the node's programs are below the scratch folder too."""

    ctl = "opt/aws/amazon-cloudwatch-agent/bin/amazon-cloudwatch-agent-ctl"

    def __init__(self, root: Path) -> None:
        super().__init__(root)
        for name in ("files", "agent", "cloudwatch_agent", "node_program"):
            text = source_of(name).read_text().replace("/var/lib/gpucluster", f"{root}/var")
            self.step(name, self.below(text, "/opt/"))
        self.programs("/opt/")
        (root / "bundle/cluster.sh").write_text("REGION=eu-west-1\n")
        self.command("systemctl")
        self.command("apt-get", f'mkdir -p "{(root / self.ctl).parent}" && cp "{self.bin}/ctl" "{root / self.ctl}"')
        self.command("ctl")
        self.command("curl")
        # Stands for `node-program watch.agent_config ROLE [--without efa]`.
        self.command("python3", """shift 2; echo '{"asked": "'"$*"'"}'""")

    def boot(self, region: str = "eu-west-1") -> str:
        done = self.run(RUN.format(region=region), *SOURCES)
        assert done.returncode == 0, done.stderr
        assert "booted" in done.stdout and "reported" not in done.stdout
        return done.stdout

    def baked(self, body: str = "") -> None:
        path = self.root / self.ctl
        path.parent.mkdir(parents=True)
        self.command("ctl", body)
        (self.bin / "ctl").rename(path)

    def config(self) -> object:
        return json.loads((self.root / "opt/gpucluster/cloudwatch.json").read_text())


@pytest.fixture
def node(tmp_path: Path) -> Node:
    return Node(tmp_path)


def test_a_baked_image_downloads_nothing(node: Node) -> None:
    node.baked()
    assert "WARNING" not in node.boot()
    assert not [call for call in node.calls() if call.startswith(("curl", "apt-get"))]
    assert [call for call in node.calls() if call.startswith("ctl")] == [
        f"ctl -a fetch-config -m ec2 -c file:{node.root}/opt/gpucluster/cloudwatch.json -s"
    ]
    assert node.config() == {"asked": "compute"}


def test_a_second_run_changes_nothing(node: Node) -> None:
    node.baked()
    node.boot()
    before = node.calls()
    node.boot()
    assert [call for call in node.calls()[len(before) :] if call.startswith("ctl")] == []


def test_a_new_configuration_is_applied(node: Node) -> None:
    node.baked()
    node.boot()
    node.command("python3", "echo '{}'")
    node.boot()
    assert len([call for call in node.calls() if call.startswith("ctl")]) == 2


@pytest.mark.parametrize(
    ("region", "host"),
    [
        ("eu-west-1", "amazoncloudwatch-agent-eu-west-1.s3.eu-west-1.amazonaws.com"),
        ("cn-north-1", "amazoncloudwatch-agent-cn-north-1.s3.cn-north-1.amazonaws.com.cn"),
    ],
)
def test_the_agent_comes_from_its_regions_bucket(node: Node, region: str, host: str) -> None:
    assert "WARNING" not in node.boot(region)
    (download,) = [call for call in node.calls() if call.startswith("curl")]
    assert download.endswith(f"https://{host}/ubuntu/amd64/latest/amazon-cloudwatch-agent.deb")


def test_a_boot_continues_without_the_agent(node: Node) -> None:
    node.command("curl", "echo 'could not resolve host' >&2; exit 6")
    said = node.boot()
    assert "WARNING: no CloudWatch agent" in said
    assert not [call for call in node.calls() if call.startswith("ctl")]


def test_an_agent_without_efa_support_measures_the_rest(node: Node) -> None:
    node.baked(f"! grep -q 'compute\\\"' {node.root}/opt/gpucluster/cloudwatch.json")
    assert "WARNING" not in node.boot()
    assert node.config() == {"asked": "compute --without efa"}


def test_an_agent_that_refuses_every_configuration_causes_a_warning(node: Node) -> None:
    node.baked("exit 1")
    assert "WARNING: no CloudWatch agent" in node.boot()
