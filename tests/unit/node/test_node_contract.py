"""Requirements of the node programs: a fleet.json that they can read, and no more than Python and boto3."""

from __future__ import annotations

import ast
import dataclasses
import io
import json
import sys
import zipfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from gpucluster_node import aws, fleet, locations
from gpucluster_node.head import update
from gpucluster_node.jobs import credentials

from gpucluster import config, render
from gpucluster.config.models import JOB_CREDENTIALS_URL

ROOT = Path(__file__).resolve().parents[3]
PROGRAMS = sorted((ROOT / "bootstrap/gpucluster_node").rglob("*.py"))
CLUSTERS = sorted([ROOT / "cluster.yaml", *(ROOT / "examples").glob("*.yaml")])
ALLOWED = {*sys.stdlib_module_names, "boto3", "botocore", "gpucluster_node"}


@pytest.mark.parametrize("path", PROGRAMS, ids=lambda path: f"{path.parent.name}/{path.name}")
def test_imports_only_what_nodes_have(path: Path) -> None:
    tree = ast.parse(path.read_text())
    imported = {alias.name for node in ast.walk(tree) if isinstance(node, ast.Import) for alias in node.names}
    imported |= {node.module or "." for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)}
    assert {name.partition(".")[0] for name in imported} <= ALLOWED


@pytest.mark.parametrize("path", CLUSTERS, ids=lambda path: path.stem)
def test_every_examples_fleet_is_read_by_the_nodes_code(path: Path) -> None:
    cluster = config.load(path)
    loaded = fleet.parse(json.loads(render.bundle(cluster)["fleet.json"]))
    assert (loaded.cluster, loaded.zone, loaded.ssm_path) == (cluster.name, cluster.zone, cluster.ssm_path)
    assert [partition.name for partition in loaded.partitions][: len(cluster.partitions)] == [
        partition.name for partition in cluster.partitions
    ]
    for partition in cluster.partitions:
        last = loaded.partition_of(f"{partition.name}-{partition.max_nodes}")
        assert last is not None
        assert last.purchase == partition.purchase
        assert loaded.partition_of(f"{partition.name}-{partition.max_nodes + 1}") is None
        assert loaded.is_node_record(f"{partition.name}-1.{cluster.zone}.")
    assert not loaded.is_node_record(f"head.{cluster.zone}.")


def reads(path: Path) -> Iterator[tuple[str, str]]:
    """What a program reads of objects: `cluster.zone` and `self._cluster.zone` are (cluster, zone)."""
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Attribute):
            yield ast.unparse(node.value).rpartition(".")[2].lstrip("_"), node.attr


@pytest.mark.parametrize(
    ("kind", "called"),
    [(fleet.Fleet, {"cluster", "fleet", "load()"}), (fleet.Partition, {"partition", "found"})],
    ids=["Fleet", "Partition"],
)
def test_each_field_of_the_fleet_is_read_by_some_program(kind: type, called: set[str]) -> None:
    """An unused field would change the bundle and make the head node run its steps again without need."""
    others = [path for path in PROGRAMS if path.name != "fleet.py"]
    read = {field for path in others for of, field in reads(path) if of in called}
    in_fleet = {field for of, field in reads(Path(fleet.__file__)) if of in {"self", "partition", "fleet"}}
    assert {field.name for field in dataclasses.fields(kind)} - read - in_fleet == set()


def test_a_new_bundle_is_installed_as_a_whole(tmp_path: Path) -> None:
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w") as archive:
        archive.writestr("head.sh", "echo new")
    for version in ("a", "b"):
        wanted = {"version": version, "s3_uri": "s3://x/y.zip", "wait_handle_url": "http://z"}
        folder = update.unpack(packed.getvalue(), wanted, tmp_path)
        assert folder == tmp_path / f"bundle-{version}"
        assert (tmp_path / "bundle/head.sh").read_text() == "echo new"
        assert update.applied(tmp_path) == wanted


def test_location_of_an_object() -> None:
    assert locations.bucket_and_key("s3://bucket/a/b.zip") == ("bucket", "a/b.zip")


def test_jobs_use_the_address_that_nodes_serve() -> None:
    assert aws.JOB_CREDENTIALS_URL == JOB_CREDENTIALS_URL
    assert (credentials.ADDRESS, credentials.PATH) == (("127.0.0.1", 9911), "/credentials")
