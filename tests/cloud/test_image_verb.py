"""Baked images in EC2: found by their tags, listed, and reported as missing after their deletion."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from gpucluster.baking import bake, pins, recipe
from gpucluster.cli import main
from gpucluster.cli.up import refuse_lost_images
from gpucluster.cluster import local_cloud
from gpucluster.config import load
from gpucluster.errors import UsageError
from localcloud.testing.place import Place

ACCOUNT = "123456789012"


@pytest.fixture
def file(control_plane: Any, tmp_path: Path) -> Path:
    """A cluster file whose cluster is in the control plane."""
    path = tmp_path / "cluster.yaml"
    path.write_text(
        "name: C\nregion: us-east-1\npartitions: [{name: train, instance_types: [g5.xlarge], max_nodes: 1}]\n"
    )
    local_cloud.write(path, "C", local_cloud.Record(control_plane.endpoint_url, "default", False, control_plane.secret))
    return path


@pytest.fixture(scope="module")
def stopped(place: Place) -> Iterator[str]:
    (instance_id,) = place.run()
    place.await_state("running", instance_id)
    place.ec2.stop_instances(InstanceIds=[instance_id])
    place.await_state("stopped", instance_id)
    yield instance_id


def test_an_image_is_found_by_recipe_and_base(place: Place, stopped: str) -> None:
    baking = pins.Baking(ACCOUNT, "us-east-1", place.image_id, "00aa")
    assert bake.find(place.ec2, baking) is None
    made = bake.create(place.ec2, stopped, baking, {"team": "vision"})
    bake.wait_for(place.ec2, made)
    found = bake.find(place.ec2, baking) or {}
    assert (found["ImageId"], {"Key": "team", "Value": "vision"} in found["Tags"]) == (made, True)
    assert bake.find(place.ec2, dataclasses.replace(baking, recipe="00ab")) is None
    assert bake.find(place.ec2, dataclasses.replace(baking, base="ami-1")) is None
    with_a_driver = dataclasses.replace(baking, parts="open-efa")
    assert bake.find(place.ec2, with_a_driver) is None
    other = bake.create(place.ec2, stopped, with_a_driver)
    bake.wait_for(place.ec2, other)
    assert (bake.find(place.ec2, with_a_driver) or {})["ImageId"] == other
    place.ec2.deregister_image(ImageId=other)
    place.ec2.deregister_image(ImageId=made)
    assert bake.find(place.ec2, baking) is None


def test_list_says_which_image_nodes_boot_from(
    place: Place, stopped: str, file: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    of_today = pins.Baking(ACCOUNT, "us-east-1", place.image_id, recipe.recipe())
    older = dataclasses.replace(of_today, recipe="00ac")
    made = {baking.recipe: bake.create(place.ec2, stopped, baking) for baking in (of_today, older)}
    pins.pin(file, of_today, made[of_today.recipe])
    assert main(["-c", str(file), "image", "list", "--json"]) == 0
    listed = {row["image_id"]: (row["base"], row["use"]) for row in json.loads(capsys.readouterr().out)}
    assert listed == {
        made[of_today.recipe]: (place.image_id, "pinned"),
        made["00ac"]: (place.image_id, "other steps"),
    }
    for image_id in made.values():
        bake.wait_for(place.ec2, image_id)
        place.ec2.deregister_image(ImageId=image_id)


LUSTRE = "storage: [{mount: /fsx, type: fsx-lustre, capacity_gib: 1200}]\n"


@pytest.mark.parametrize("more", ["", LUSTRE, "software: {containers: true}\n"])
def test_up_refuses_a_pinned_image_that_was_deleted(place: Place, stopped: str, file: Path, more: str) -> None:
    file.write_text(file.read_text() + more)
    wanted = recipe.recipe(recipe.Extras.of(load(file)))
    baking = pins.Baking(ACCOUNT, "us-east-1", place.image_id, wanted)
    made = bake.create(place.ec2, stopped, baking)
    bake.wait_for(place.ec2, made)
    refuse_lost_images(file, load(file))  # no entry at all
    pins.pin(file, baking, made)
    refuse_lost_images(file, load(file))
    place.ec2.deregister_image(ImageId=made)
    with pytest.raises(UsageError, match=f"{made}, pinned in cdk.context.json"):
        refuse_lost_images(file, load(file))
    pins.pin(file, dataclasses.replace(baking, recipe="00ad"), made)  # no cluster boots from that one
    refuse_lost_images(file, load(file))


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["--from", "ubuntu"], "--from: no such image: 'ubuntu'"),
        (["--on", "m6i.larg"], "did you mean 'm6i.large'"),
        (["--port", "1"], "--port and --image need --local"),
    ],
)
def test_build_refuses_wrong_requests(
    file: Path, capsys: pytest.CaptureFixture[str], words: list[str], says: str
) -> None:
    assert main(["-c", str(file), "image", "build", *words]) == 2
    assert says in capsys.readouterr().err
