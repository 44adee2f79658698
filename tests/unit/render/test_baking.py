"""The contents of baked images, the pin of an image, and the nodes that boot from it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from synthesis import ACCOUNT, AMI, lookups

from gpucluster import config
from gpucluster.baking import builder, pins, recipe, roots
from gpucluster.hardware.instances import INSTANCE_TYPES

BAKED = "ami-0bbbbbbbbbbbbbbbb"
REGION = "us-east-1"
TEXT = """
name: Cluster
region: us-east-1
partitions:
  - {name: train, instance_types: [g5.12xlarge], max_nodes: 2}
  - {name: own, instance_types: [g5.12xlarge], max_nodes: 2, image: ami-0fedcba9876543210}
"""


def baking(**changes: str) -> pins.Baking:
    return pins.Baking(**({"account": ACCOUNT, "region": REGION, "base": AMI, "recipe": recipe.recipe()} | changes))


def test_a_recipe_depends_neither_on_the_cluster_nor_on_the_base() -> None:
    one = recipe.bundle("ami-1", INSTANCE_TYPES["m6i.large"])
    two = recipe.bundle("ami-2", INSTANCE_TYPES["m6i.large"])
    assert [name for name in one if one[name] != two[name]] == ["image.sh"]
    assert one["image.sh"].replace("ami-1", "ami-2") == two["image.sh"]
    assert f"RECIPE={recipe.recipe()}" in one["image.sh"]
    assert recipe.recipe() != recipe.render.version({"image.sh": one["image.sh"]})


@pytest.mark.parametrize(
    ("machine", "parts"),
    [
        ("m6i.large", "cpu"),
        ("p3.16xlarge", "proprietary"),
        ("g5.12xlarge", "open-efa"),
        ("p4d.24xlarge", "open-efa-nvswitch-gdrcopy"),
    ],
)
def test_what_a_builder_installs_is_one_word(machine: str, parts: str) -> None:
    assert recipe.parts(INSTANCE_TYPES[machine]) == parts


def test_every_step_that_is_baked_is_in_the_bundle_and_defined() -> None:
    files = recipe.bundle(AMI, INSTANCE_TYPES["m6i.large"])
    text = "\n".join(files.values())
    assert [step for step in (*recipe.INSTALLS, "seal") if f"step_{step}() {{" not in text] == []
    steps = {Path(name).stem for name in files if name.startswith("steps/")}
    assert steps == {*recipe.INSTALLS, "seal"}


def test_containers_change_the_recipe_and_are_baked_if_enabled() -> None:
    wanted = recipe.Extras(containers=True)
    with_ = recipe.bundle(AMI, INSTANCE_TYPES["m6i.large"], wanted)
    assert recipe.recipe(wanted) != recipe.recipe()
    assert "container_runtime)" in with_["image.sh"] and "steps/jobs/container_runtime.sh" in with_


def test_clients_of_the_clusters_file_systems_are_baked() -> None:
    storage = """storage:
  - {mount: /fsx, type: fsx-lustre, efa: true, throughput_mbps_per_tib: 500, capacity_gib: 9600}
  - {mount: /more, type: fsx-lustre, deployment: scratch-2, capacity_gib: 1200}
  - {mount: /efs, type: efs}
"""
    wanted = recipe.Extras.of(config.loads(TEXT + storage))
    assert wanted == recipe.Extras(storage=("efs", "fsx", "fsx-efa"))
    files = recipe.bundle(AMI, INSTANCE_TYPES["m6i.large"], wanted)
    assert "readonly FILE_SYSTEMS=(efs fsx fsx-efa)" in files["image.sh"] and "storage_clients)" in files["image.sh"]
    assert {"lib/lustre.sh", "lib/kernel.sh", "steps/storage/efs.sh", "steps/storage/fsx.sh"} <= set(files)
    assert recipe.Extras.of(config.loads(TEXT)) == recipe.NO_EXTRAS


def test_a_pin_replaces_only_older_ones_of_its_base(tmp_path: Path) -> None:
    file = tmp_path / "cluster.yaml"
    kept = {
        baking(recipe="0", base="ami-2").key: "ami-a",
        baking(recipe="0", region="us-west-2").key: "ami-b",
        baking(recipe="0", account="210987654321").key: "ami-c",
        f"availability-zones:account={ACCOUNT}:region={REGION}": [f"{REGION}a"],
    }
    (tmp_path / "cdk.context.json").write_text(json.dumps(kept | {baking(recipe="0").key: "ami-old"}))
    path = pins.pin(file, baking(), BAKED)
    assert json.loads(path.read_text()) == kept | {baking().key: BAKED}
    assert pins.find(pins.read(file), baking()) == BAKED
    assert pins.find(pins.read(file), baking(recipe="1")) is None
    assert pins.current(pins.read(file), account=ACCOUNT, region=REGION, recipe=recipe.recipe()) == [BAKED]
    assert sorted(pins.forget(file, account=ACCOUNT, region=REGION)) == sorted(["ami-a", BAKED])
    assert pins.forget(file, account=ACCOUNT, region=REGION) == []
    assert len(json.loads(path.read_text())) == 3


@pytest.mark.parametrize(
    ("image", "expected"), [("ami-1", "ami-1"), ("dlami-ubuntu-24.04", AMI)], ids=["its id", "what CDK has pinned"]
)
def test_the_base_is_the_image_that_cdk_uses(image: str, expected: str) -> None:
    assert pins.looked_up(lookups(REGION), image, account=ACCOUNT, region=REGION) == expected
    if image != expected:
        assert pins.looked_up({}, image, account=ACCOUNT, region=REGION) is None


def template_of(folder: Path, *, bake: bool = False) -> dict[str, Any]:
    from stacks.builder import ImageBuilder
    from stacks.cluster import GpuCluster, cdk

    file = folder / "cluster.yaml"
    file.write_text(TEXT)
    cluster, app = config.load(file), cdk.App(context=lookups(REGION))
    if bake:
        cluster, machine = builder(cluster), INSTANCE_TYPES["m6i.large"]
        ImageBuilder(app, cluster.name, config=cluster, account=ACCOUNT, base="dlami-ubuntu-24.04", machine=machine)
    else:
        GpuCluster(app, cluster.name, config=cluster, account=ACCOUNT)
    assembly = Path(app.synth().directory)
    found: dict[str, Any] = json.loads((assembly / f"{cluster.name}.template.json").read_text())
    return found


def of_type(template: dict[str, Any], kind: str) -> list[dict[str, Any]]:
    return [each["Properties"] for each in template["Resources"].values() if each["Type"] == kind]


def images_of_nodes(template: dict[str, Any]) -> list[str]:
    return [each["LaunchTemplateData"]["ImageId"] for each in of_type(template, "AWS::EC2::LaunchTemplate")]


def test_nodes_of_the_base_boot_from_the_baked_image_and_the_head_keeps_its_own(tmp_path: Path) -> None:
    pins.pin(tmp_path / "cluster.yaml", baking(), BAKED)
    template = template_of(tmp_path)
    assert images_of_nodes(template) == [BAKED, "ami-0fedcba9876543210"]
    (head,) = of_type(template, "AWS::EC2::Instance")
    assert head["ImageId"] == AMI
    policies = json.dumps(of_type(template, "AWS::IAM::Policy") + of_type(template, "AWS::IAM::ManagedPolicy"))
    assert f"image/{BAKED}" in policies and f"image/{AMI}" not in policies


def test_an_image_of_other_steps_is_not_booted(tmp_path: Path) -> None:
    pins.pin(tmp_path / "cluster.yaml", baking(recipe="0123456789abcdef"), BAKED)
    nodes = [
        each["LaunchTemplateData"]["ImageId"] for each in of_type(template_of(tmp_path), "AWS::EC2::LaunchTemplate")
    ]
    assert nodes == [AMI, "ami-0fedcba9876543210"]


def test_the_builder_has_no_ingress_and_may_read_only_its_bundle(tmp_path: Path) -> None:
    template = template_of(tmp_path, bake=True)
    assert [each for each in of_type(template, "AWS::EC2::SecurityGroup") if each.get("SecurityGroupIngress")] == []
    assert of_type(template, "AWS::EC2::SecurityGroupIngress") == []
    (policy,) = of_type(template, "AWS::IAM::Policy")
    allowed = {each["Action"]: json.dumps(each["Resource"]) for each in policy["PolicyDocument"]["Statement"]}
    assert set(allowed) == {"s3:GetObject", "kms:Decrypt", "ssm:GetParameter"}
    del allowed["kms:Decrypt"]  # of the bundle: its condition names it
    assert all("Cluster-image-builder/*" in resource for resource in allowed.values())
    (instance,) = of_type(template, "AWS::EC2::Instance")
    assert instance["BlockDeviceMappings"][0]["Ebs"]["Encrypted"]
    assert len(of_type(template, "AWS::CloudFormation::WaitCondition")) == 1


class Images:
    """EC2, which knows one image."""

    def __init__(self, ami: str, gib: int) -> None:
        self.image = {
            "ImageId": ami,
            "BlockDeviceMappings": [{"DeviceName": "/dev/sda1", "Ebs": {"VolumeSize": gib}}],
        }

    def describe_images(self, *, ImageIds: list[str], IncludeDeprecated: bool) -> dict[str, Any]:  # noqa: N803
        return {"Images": [self.image] if self.image["ImageId"] in ImageIds else []}


@pytest.mark.parametrize(("size", "wanted", "gib"), [(300, None, 300), (300, 400, 400), (75, None, 100), (75, 80, 80)])
def test_a_root_disk_is_as_large_as_its_image(tmp_path: Path, size: int, wanted: int | None, gib: int) -> None:
    file, ami = tmp_path / "cluster.yaml", "ami-0fedcba9876543210"
    cluster, ec2 = config.loads(TEXT), Images(ami, size)
    assert (roots.pin(file, cluster, ec2) is None) is (size <= 100)
    assert roots.gib(pins.read(file), ami, wanted) == gib
    assert roots.pin(file, cluster, ec2) is None, "it is known, or no larger than the default"


def test_the_nodes_of_a_larger_image_get_its_disk_and_those_of_a_baked_one_its_builders(tmp_path: Path) -> None:
    roots.pin(tmp_path / "cluster.yaml", config.loads(TEXT), Images("ami-0fedcba9876543210", 300))
    pins.pin(tmp_path / "cluster.yaml", baking(), BAKED)
    templates = of_type(template_of(tmp_path), "AWS::EC2::LaunchTemplate")
    disks = [each["LaunchTemplateData"]["BlockDeviceMappings"][0]["Ebs"]["VolumeSize"] for each in templates]
    assert disks == [100, 300]
