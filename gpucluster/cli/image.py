"""`gpucluster image build|list`: machine images that contain everything that nodes would install at boot."""

from __future__ import annotations

import dataclasses
import json
import os
import re
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from gpucluster.cli.frame import local_options
from gpucluster.cli.frame.columns import columns
from gpucluster.cli.frame.context import CliContext
from gpucluster.cluster import local_cloud
from gpucluster.errors import UsageError

if TYPE_CHECKING:
    from gpucluster.baking.pins import Baking
    from gpucluster.cluster.aws import Aws
    from gpucluster.cluster.deployment import Deployment
    from gpucluster.config import ClusterConfig

_AMI = re.compile(r"ami-[0-9a-f]{8,17}")


@click.group(name="image")
def command() -> None:
    """Build machine images (AMIs). Nodes that boot from one install no software and need no internet."""


@command.command(short_help="Build an image, and make new nodes boot from it.")
@click.option(
    "--from",
    "base",
    metavar="IMAGE",
    help="Base image: an AMI ID, or a name that software.image may have.  [default: that of the cluster file]",
)
@click.option(
    "--on",
    "machine",
    metavar="TYPE",
    help="Instance type of the instance that installs the software.  [default: that of the head node]",
)
@click.option(
    "--local", is_flag=True, help="Build the image on this machine in a local cloud. If none runs, start one."
)
@local_options.port
@local_options.image
@click.pass_obj
def build(
    context: CliContext, base: str | None, machine: str | None, local: bool, port: int | None, image: Path | None
) -> int:
    """Build an AMI with everything that nodes would install at boot, and write its ID to cdk.context.json.

    After the next `up` or `cdk deploy`, new compute nodes boot from it, as long as the boot steps and the base image
    stay the same. If the account already has this image, none is built. GPU drivers and EFA's software are installed
    only on an instance type that has GPUs and EFA: name one with --on, unless the base image is a Deep Learning AMI,
    which has both. With --on, only an image with the parts of that type counts as the same.

    The last line on stdout is a JSON object: image_id, base, recipe, built, pinned_in, seconds.
    """
    from gpucluster.baking import pins
    from gpucluster.cli.up import start_local_cloud, stopwatch
    from gpucluster.cluster.aws import aws_errors

    config = context.load()
    if not local and (port or image):
        raise UsageError("--port and --image need --local", "add --local, or leave them out")
    wanted, on = _image(base or config.software.image), _type(machine or config.head_node.instance_type)
    began, tell = time.monotonic(), stopwatch()
    if local:
        wheels = local_cloud.DEFAULT_WHEELS
        start_local_cloud(context.config_path, config, port=port, image=image, wheels=wheels, tell=tell)
    with aws_errors():
        baking = _baking(context, config, wanted)
        image_id, built = _found_or_built(context, config, baking, wanted, on, any_type=machine is None)
    file = pins.pin(context.config_path, baking, image_id)
    click.echo(_next_words(image_id, file), err=True)
    result = {"image_id": image_id, "base": baking.base, "recipe": baking.recipe, "built": built}
    click.echo(json.dumps({**result, "pinned_in": str(file), "seconds": round(time.monotonic() - began, 1)}))
    return 0


@command.command("list", short_help="List the images that were built in the account.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON list to stdout.")
@click.pass_obj
def list_(context: CliContext, as_json: bool) -> int:
    """List the images that `image build` built in the cluster's region, newest first, and which one is in use."""
    from gpucluster.baking import bake, pins
    from gpucluster.baking.recipe import Extras, recipe
    from gpucluster.cluster.aws import aws_errors

    config = context.load()
    with aws_errors():
        images = bake.made(_cloud(context, config).client("ec2"))
    pinned = set(map(str, pins.read(context.config_path).values()))
    rows = [_row(image, pinned, recipe(Extras.of(config))) for image in images]
    if as_json:
        click.echo(json.dumps(rows))
    elif rows:
        click.echo("\n".join(columns([list(rows[0]), *([str(cell) for cell in row.values()] for row in rows)])))
    else:
        click.echo(f"no baked images in {config.region}: `gpucluster image build` builds one", err=True)
    return 0


def _row(image: Any, pinned: set[str], wanted: str) -> dict[str, str]:
    from gpucluster.baking.bake import tags

    recipe_, base, parts = tags(image)
    used = "pinned" if image["ImageId"] in pinned else "not pinned"
    return {
        "image_id": image["ImageId"],
        "state": image["State"],
        "base": base,
        "recipe": recipe_,
        "parts": parts,
        "made": str(image["CreationDate"])[:19],
        "use": used if recipe_ == wanted else "other steps",
    }


def _cloud(context: CliContext, config: ClusterConfig) -> Aws:
    from gpucluster.cluster import aws

    return aws.connect(config, context.config_path)


def _image(name: str) -> str:
    from gpucluster.config.checks.online.images import PUBLIC_PARAMETERS

    if name in PUBLIC_PARAMETERS or _AMI.fullmatch(name):
        return name
    raise UsageError(f"--from: no such image: {name!r}", f"give an AMI ID (ami-…), or {', '.join(PUBLIC_PARAMETERS)}")


def _type(name: str) -> str:
    from gpucluster.hardware import instances
    from gpucluster.meant import did_you_mean

    if instances.find(name):
        return name
    hint = did_you_mean(name, instances.INSTANCE_TYPES, "`gpucluster types` lists them")
    raise UsageError(f"--on: no such instance type: {name!r}", hint)


def _baking(context: CliContext, config: ClusterConfig, image: str) -> Baking:
    """The base is the AMI that CDK has pinned for that name, or else the one that it would look up."""
    from gpucluster.baking import pins
    from gpucluster.baking.recipe import Extras, recipe
    from gpucluster.cluster import cdk
    from gpucluster.config.checks.online.images import PUBLIC_PARAMETERS

    cloud = _cloud(context, config)
    account = cloud.client("sts").get_caller_identity()["Account"]
    base = pins.looked_up(
        cdk.pinned(cdk.context_file(context.config_path)), image, account=account, region=config.region
    )
    if base is None:
        name = PUBLIC_PARAMETERS[image]
        base = str(cloud.client("ssm").get_parameter(Name=name)["Parameter"]["Value"])
    return pins.Baking(account, config.region, base, recipe(Extras.of(config)))


def _found_or_built(
    context: CliContext, config: ClusterConfig, baking: Baking, image: str, machine: str, *, any_type: bool
) -> tuple[str, bool]:
    """The AMI, and whether it was built now."""
    from gpucluster.baking import bake
    from gpucluster.baking.recipe import parts
    from gpucluster.cli.up import stopwatch
    from gpucluster.hardware.instances import INSTANCE_TYPES

    tell, ec2 = stopwatch(), _cloud(context, config).client("ec2")
    here = dataclasses.replace(baking, parts=parts(INSTANCE_TYPES[machine]))
    there = bake.find(ec2, baking if any_type else here)
    if there is None:
        deployment = _deployment(context, config, image, machine)
        return bake.build(deployment, here, os.environ, tags=config.tags, tell=tell), True
    tell(f"{there['ImageId']} already has these steps and this base image")
    bake.wait_for(ec2, there["ImageId"])
    return str(there["ImageId"]), False


def _deployment(context: CliContext, config: ClusterConfig, image: str, machine: str) -> Deployment:
    """The deployment of the builder's stack, in the cluster's account and region."""
    from gpucluster.baking import builder
    from gpucluster.cli.up import deployment_of, stopwatch

    cluster = deployment_of(context.config_path, config, tell=stopwatch())
    options = ("--context", f"bake={image}", "--context", f"bake-on={machine}")
    return dataclasses.replace(cluster, name=builder(config).name, options=options, role="image")


def _next_words(image_id: str, file: Path) -> str:
    return (
        f"{image_id} is pinned in {file}: commit that file\n"
        "hint: after `gpucluster up`, new compute nodes boot from it. "
        f"To use it for the head node too, set head_node.image: {image_id}; this replaces the head node"
    )
