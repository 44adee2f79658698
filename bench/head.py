"""A head node without a machine: slurmctld and our bundle in a container of the local cloud's image, beside a local
cloud that boots nothing. Needs root.

The container shares this machine's network and processors. It runs `bench/on_head.py`, and ends with it.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
PORT = 5870
CLUSTER = "Scale"
SUBNET = "10.0.0.0/18"


class Head:
    def __init__(self, folder: Path, image: Path, variables: Mapping[str, str], settings: Mapping[str, str]) -> None:
        self._folder, self._image, self._variables, self._settings = folder, image, variables, settings
        self._machine = f"bench-{os.getpid()}"

    def run(self, what: str, **settings: object) -> Any:
        """Starts Slurm and measures; returns what `bench/on_head.py` prints."""
        from localcloud.machines import nspawn

        (self._folder / "packages").mkdir(exist_ok=True)
        argv = [
            "systemd-nspawn", "--quiet", "--register=no", "--keep-unit", f"--directory={self._image}",
            "--volatile=overlay", f"--machine={self._machine}", "--hostname=head", "--as-pid2",
            "--console=pipe", "--resolv-conf=off", "--timezone=off", "--link-journal=no",
            f"--bind={self._folder / 'bundle'}:/opt/gpucluster/bundle",
            f"--bind={self._folder / 'packages'}:/opt/packages-of-bench",  # its Python keeps compiled modules there
            f"--bind-ro={ROOT / 'bench'}:/opt/bench",
            *(f"--setenv={name}={value}" for name, value in self._variables.items()),
            "python3", "/opt/bench/on_head.py", what, json.dumps({**self._settings, **settings}),
        ]  # fmt: skip
        environment = {**os.environ, "SYSTEMD_NSPAWN_LOCK": "0"}
        done = subprocess.run(argv, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, env=environment, text=True)
        nspawn.forget(self._machine)
        if done.returncode:
            raise RuntimeError(f"on_head.py {what}: exit code {done.returncode}\n{done.stdout}")
        return json.loads(done.stdout.splitlines()[-1])

    def install(self, *packages: str) -> None:
        """Python packages for the programs of the container."""
        argv = [sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--target"]
        subprocess.run([*argv, str(self._folder / "packages"), *packages], check=True, stdout=sys.stderr)


@contextmanager
def head(partition: str, nodes: int) -> Iterator[Head]:
    from localcloud.machines import image

    with tempfile.TemporaryDirectory(prefix="gpucluster-bench-") as name:
        folder = Path(name)
        zone = _bundle(folder / "bundle", partition, nodes)
        built = image.build(log=lambda line: print(line, file=sys.stderr))
        with _cloud(folder / "cloud") as variables:
            yield Head(folder, built, variables, {"zone": zone, **_account(variables, partition, zone)})


def _bundle(folder: Path, partition: str, nodes: int) -> str:
    """Returns the cluster's zone."""
    from gpucluster import config, render

    text = f"name: {CLUSTER}\nregion: us-east-1\naccounting: off\npartitions:\n"
    cluster = config.loads(f"{text}  - {{name: {partition}, instance_types: [g5.12xlarge], max_nodes: {nodes}}}\n")
    for path, content in render.bundle(cluster).items():
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_text(content)
    return cluster.zone


@contextmanager
def _cloud(folder: Path) -> Iterator[dict[str, str]]:
    """Yields the variables that AWS's clients need."""
    environment = {**os.environ, "LOCALCLOUD_ROOT": str(folder), "PYTHONPATH": str(ROOT)}

    def verb(*words: str) -> str:
        argv = [sys.executable, "-m", "localcloud", *words]
        return subprocess.run(argv, cwd=ROOT, env=environment, stdout=subprocess.PIPE, text=True, check=True).stdout

    verb("up", "--no-boot", "--detach", "--port", str(PORT), "--while-pid", str(os.getpid()))
    try:
        yield json.loads(verb("env", "--json"))
    finally:
        verb("down")


def _account(variables: Mapping[str, str], partition: str, zone: str) -> dict[str, str]:
    """What a deployment of ours makes, as far as the measured programs read it, and ParallelCluster's table. Both
    programs launch from the same template, which has ParallelCluster's name."""
    ec2, ssm, route53, dynamodb = (_client(variables, name) for name in ("ec2", "ssm", "route53", "dynamodb"))
    vpc = ec2.create_vpc(CidrBlock="10.0.0.0/16")["Vpc"]["VpcId"]
    subnet = ec2.create_subnet(VpcId=vpc, CidrBlock=SUBNET)["Subnet"]["SubnetId"]
    made = route53.create_hosted_zone(
        Name=zone, CallerReference="x", VPC={"VPCRegion": "us-east-1", "VPCId": vpc}
    )["HostedZone"]["Id"]  # fmt: skip
    zone_id = made.rpartition("/")[2]
    tags = {"gpucluster:cluster": CLUSTER, "gpucluster:role": "compute"}
    template = ec2.create_launch_template(
        LaunchTemplateName="-".join((CLUSTER.lower(), *partition.split("-dy-"))),
        LaunchTemplateData={
            "ImageId": ec2.describe_images(Owners=["amazon"])["Images"][0]["ImageId"],
            "InstanceType": "g5.12xlarge",
            "NetworkInterfaces": [{"DeviceIndex": 0, "SubnetId": subnet}],
            "TagSpecifications": [{"ResourceType": "instance", "Tags": _pairs(tags)}],
        },
    )["LaunchTemplate"]["LaunchTemplateId"]
    types = [{"instance_type": "g5.12xlarge", "launch_template_id": template, "version": "1"}]
    for name, value in {
        f"partitions/{partition}": {"instance_types": types, "subnet_id": subnet},
        "network": {"hosted_zone_id": zone_id, "subnet_id": subnet},
    }.items():
        ssm.put_parameter(Name=f"/gpucluster/{CLUSTER}/{name}", Value=json.dumps(value), Type="String")
    dynamodb.create_table(
        TableName="nodes", BillingMode="PAY_PER_REQUEST", KeySchema=[{"AttributeName": "Id", "KeyType": "HASH"}],
        AttributeDefinitions=[{"AttributeName": "Id", "AttributeType": "S"}],
    )  # fmt: skip
    return {"template": template, "hosted_zone": zone_id}


def _client(variables: Mapping[str, str], service: str) -> Any:
    import boto3

    return boto3.client(
        service,
        region_name="us-east-1",
        endpoint_url=variables["AWS_ENDPOINT_URL"],
        aws_access_key_id=variables["AWS_ACCESS_KEY_ID"],
        aws_secret_access_key=variables["AWS_SECRET_ACCESS_KEY"],
    )


def _pairs(tags: Mapping[str, str]) -> Sequence[Mapping[str, str]]:
    return [{"Key": key, "Value": value} for key, value in tags.items()]
