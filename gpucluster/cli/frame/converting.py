"""What `gpucluster init --from` asks of the machine: the file, the environment's region, and AWS about subnets."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import click

from gpucluster.errors import AwsError, UsageError
from gpucluster.parallelcluster import Converted, Subnet, convert, read, region_of, subnets_of

STDIN = "<stdin>"


def converted(name: str) -> Converted:
    """`name`: of the file, or - for stdin. Raises UsageError, ConfigError."""
    file = STDIN if name == "-" else name
    data = read(_text(name, file), file)
    region = region_of(data, _region(), file)
    return convert(data, file, region, look_up(region, subnets_of(data)))


def _text(name: str, file: str) -> str:
    try:
        found = sys.stdin.buffer.read() if file == STDIN else Path(name).read_bytes()
        return found.decode("utf-8")
    except FileNotFoundError:
        raise UsageError(f"{file}: no such file", "name a file of ParallelCluster 3, or - for stdin") from None
    except UnicodeDecodeError as error:
        raise UsageError(f"{file} is not UTF-8 text: byte {error.start} is 0x{found[error.start]:02x}") from None
    except OSError as error:
        raise UsageError(f"{file} cannot be read: {error.strerror}") from None


def _region() -> str | None:
    """As ParallelCluster finds it: https://docs.aws.amazon.com/parallelcluster/latest/ug/cluster-configuration-file-v3.html:
    Region."""
    import boto3

    from gpucluster.cluster.api_errors import aws_errors

    with aws_errors():
        return os.environ.get("AWS_REGION") or boto3.Session().region_name


def look_up(region: str, ids: Sequence[str]) -> dict[str, Subnet]:
    """The subnets that the account has. Without credentials or permission there are none, and stderr says why."""
    from botocore.config import Config

    from gpucluster.cluster import credentials
    from gpucluster.cluster.api_errors import aws_errors

    if not ids:
        return {}
    try:
        with aws_errors():
            session = credentials.session(region)
            soon = Config(connect_timeout=5, read_timeout=10, retries={"max_attempts": 2})
            return known(session.client("ec2", config=soon), ids)
    except AwsError as error:
        click.echo(f"subnets not looked up: {error.message}", err=True)
        return {}


def known(client: Any, ids: Sequence[str]) -> dict[str, Subnet]:
    """`client`: of EC2. A filter finds those that exist; asked by their ids, one that does not exist is an error."""
    found = client.describe_subnets(Filters=[{"Name": "subnet-id", "Values": list(ids)}])["Subnets"]
    return {each["SubnetId"]: Subnet(each["VpcId"], each["AvailabilityZone"]) for each in found}
