"""Builds a baked image: deploys the builder, lets EC2 create an image of its stopped instance, deletes the stack."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterator, Mapping
from types import MappingProxyType
from typing import Any

from gpucluster.baking.pins import Baking
from gpucluster.cluster import instance_states
from gpucluster.cluster.deployment import Deployment
from gpucluster.errors import CloudError

POLL_S = 5.0
PATIENCE_S = 3600.0
"""The first image of a disk copies the whole disk."""
UNFINISHED = ("pending", "transient")
"""Other states than these and `available` are final (EC2 API reference, Image: failed, error, invalid …)."""
_TAGS = ("gpucluster:recipe", "gpucluster:base", "gpucluster:parts")

Image = Mapping[str, Any]


def made(ec2: Any) -> list[Image]:
    """The account's baked images in this region, the newest first."""
    found = ec2.describe_images(Owners=["self"], Filters=[{"Name": "tag-key", "Values": [_TAGS[0]]}])["Images"]
    return sorted(found, key=lambda image: str(image["CreationDate"]), reverse=True)


def find(ec2: Any, baking: Baking) -> Image | None:
    """The newest successful image of this baking, whichever cluster it was built for."""
    ours = (image for image in made(ec2) if _fits(tags(image), baking))
    return next((image for image in ours if image["State"] in ("available", "pending")), None)


def tags(image: Image) -> tuple[str, ...]:
    """Recipe, base, and the builder's parts."""
    found = {tag["Key"]: tag["Value"] for tag in image.get("Tags", [])}
    return tuple(found.get(key, "") for key in _TAGS)


def _values(baking: Baking) -> tuple[str, ...]:
    return (baking.recipe, baking.base, baking.parts)


def _fits(got: tuple[str, ...], baking: Baking) -> bool:
    wanted = _values(baking)
    return got == wanted if baking.parts else got[:2] == wanted[:2]


def build(
    deployment: Deployment,
    baking: Baking,
    inherited: Mapping[str, str],
    *,
    tags: Mapping[str, str],
    tell: Callable[[str], None],
) -> str:
    """The new AMI's id. `tags`: the user's own. Raises DeployError if a step fails, CloudError if EC2 cannot make the
    image."""
    with deployment.turn("image build"), _deployed(deployment, inherited):
        instance_id = deployment.outputs()["InstanceId"]
        ec2 = deployment.clients.ec2
        tell(f"stopping {instance_id}")
        ec2.stop_instances(InstanceIds=[instance_id])
        instance_states.wait(ec2, [instance_id], "stopped")
        image_id = create(ec2, instance_id, baking, tags)
        tell(f"creating {image_id} from its disk")
        wait_for(ec2, image_id)
    return image_id


@contextlib.contextmanager
def _deployed(deployment: Deployment, inherited: Mapping[str, str]) -> Iterator[None]:
    """Deletes the stack of an earlier attempt first, because an instance is baked only once; always deletes its own."""
    deployment.down(inherited)
    try:
        deployment.up(inherited)
        yield
    finally:
        deployment.down(inherited)


def create(ec2: Any, instance_id: str, baking: Baking, tags: Mapping[str, str] = MappingProxyType({})) -> str:
    every = {**tags, **dict(zip(_TAGS, _values(baking), strict=True))}
    own = [{"Key": key, "Value": value} for key, value in every.items()]
    made = ec2.create_image(
        InstanceId=instance_id,
        Name=f"gpucluster-{baking.recipe}-{baking.base}-{baking.parts}",
        Description=f"{baking.base} with what GpuCluster's nodes install",
        TagSpecifications=[{"ResourceType": kind, "Tags": own} for kind in ("image", "snapshot")],
    )
    image_id: str = made["ImageId"]
    return image_id


def wait_for(ec2: Any, image_id: str) -> None:
    """Raises CloudError if the image ends in another state than available."""
    hint, deadline = "`gpucluster image list` shows it", time.monotonic() + PATIENCE_S
    while True:
        found: list[dict[str, Any]] = ec2.describe_images(ImageIds=[image_id])["Images"]
        image: dict[str, Any] = found[0] if found else {"State": "gone"}
        if image["State"] == "available":
            return
        if image["State"] not in UNFINISHED:
            reason = image.get("StateReason", {}).get("Message") or "EC2 gives no reason"
            raise CloudError(f"{image_id} did not become available: it is {image['State']}: {reason}", hint)
        if time.monotonic() > deadline:
            raise CloudError(f"{image_id} is still {image['State']} after {PATIENCE_S / 3600:.0f} hour", hint)
        time.sleep(POLL_S)
