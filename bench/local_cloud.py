"""How quick the local cloud is with a thousand instances: `python -m bench.local_cloud [--code DIR]`. Nothing boots."""

from __future__ import annotations

import argparse
import os
import shlex
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import boto3
from botocore.config import Config

ROOT = Path(__file__).resolve().parents[1]
COUNT = 1000
PARALLEL = 8


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m bench.local_cloud")
    parser.add_argument("--code", type=Path, default=ROOT, help="a checkout of the local cloud (default: this one)")
    parser.add_argument("--port", type=int, default=5866)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        environment = {**os.environ, "LOCALCLOUD_ROOT": folder, "PYTHONPATH": str(options.code)}

        def cloud(*words: str) -> str:
            argv = [sys.executable, "-m", "localcloud", *words]
            return subprocess.run(argv, cwd=options.code, env=environment, capture_output=True, text=True).stdout

        cloud("up", "--no-boot", "--detach", "--port", str(options.port), "--while-pid", str(os.getpid()))
        try:
            measure(_client_of(options.port, cloud("env")))
        finally:
            cloud("down")


def _client_of(port: int, exports: str) -> Callable[[str], Any]:
    """exports: `export NAME=VALUE` lines; none of a cloud that knows no `env` and asks for no secret."""
    given = dict(word.split("=", 1) for word in shlex.split(exports) if "=" in word)
    config = Config(max_pool_connections=2 * PARALLEL, retries={"total_max_attempts": 1}, read_timeout=300)

    def client(service: str) -> Any:
        return boto3.client(
            service,
            region_name="us-east-1",
            endpoint_url=f"http://127.0.0.1:{port}",
            aws_access_key_id=given.get("AWS_ACCESS_KEY_ID", "localcloud"),
            aws_secret_access_key=given.get("AWS_SECRET_ACCESS_KEY", "localcloud"),
            config=config,
        )

    return client


def measure(client: Callable[[str], Any]) -> None:
    ec2, sts = client("ec2"), client("sts")
    ids = _timed(f"RunInstances of {COUNT}", lambda: _launch(ec2))
    named = [{"Name": "tag:node", "Values": ["yes"]}]
    pages = ec2.get_paginator("describe_instances")
    _timed("DescribeInstances of all, filtered by a tag, in pages", lambda: list(pages.paginate(Filters=named)))
    _timed("DescribeInstances of 100 ids", lambda: ec2.describe_instances(InstanceIds=ids[:100]))
    _timed("CreateTags of 100 instances, one by one", lambda: [_tag(ec2, each) for each in ids[:100]])
    with ThreadPoolExecutor(PARALLEL + 1) as pool:
        started = time.monotonic()
        asked = [pool.submit(ec2.describe_instances, Filters=named) for _ in range(PARALLEL)]
        time.sleep(0.2)
        _timed("GetCallerIdentity meanwhile", sts.get_caller_identity)
        for each in asked:
            each.result()
        _say(f"{PARALLEL} DescribeInstances of all, side by side", time.monotonic() - started)
    _timed(f"TerminateInstances of {COUNT}", lambda: ec2.terminate_instances(InstanceIds=ids))


def _launch(ec2: Any) -> list[str]:
    image_id = ec2.describe_images(Owners=["amazon"])["Images"][0]["ImageId"]
    vpc_id = ec2.create_vpc(CidrBlock="10.0.0.0/16")["Vpc"]["VpcId"]
    subnet_id = ec2.create_subnet(VpcId=vpc_id, CidrBlock="10.0.0.0/18")["Subnet"]["SubnetId"]
    tags = [{"Key": key, "Value": "yes"} for key in ("node", "cluster", "role")]
    made = ec2.run_instances(
        ImageId=image_id, InstanceType="g5.12xlarge", SubnetId=subnet_id, MinCount=COUNT, MaxCount=COUNT,
        TagSpecifications=[{"ResourceType": "instance", "Tags": tags}],
    )  # fmt: skip
    return [each["InstanceId"] for each in made["Instances"]]


def _tag(ec2: Any, instance_id: str) -> None:
    ec2.create_tags(Resources=[instance_id], Tags=[{"Key": "Name", "Value": instance_id}])


def _timed(what: str, act: Callable[[], Any]) -> Any:
    started = time.monotonic()
    found = act()
    _say(what, time.monotonic() - started)
    return found


def _say(what: str, seconds: float) -> None:
    print(f"| {what} | {seconds:.2f} s |", flush=True)


if __name__ == "__main__":
    main()
