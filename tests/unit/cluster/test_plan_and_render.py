"""`gpucluster plan` and `gpucluster render`: both work offline."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from gpucluster import config
from gpucluster.cli import main
from gpucluster.cluster import plan
from gpucluster.layout import expand

CLUSTER = """
name: GpuCluster
region: us-east-1
availability_zone: us-east-1d
head_node: {instance_type: m6i.large, volume_gib: 50}
partitions:
  - {name: train, instance_types: [p4d.24xlarge, p4de.24xlarge], min_nodes: 1, max_nodes: 8}
"""


@pytest.fixture
def cluster_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for name in ("AWS_PROFILE", "AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", str(tmp_path / "none"))
    file = tmp_path / "cluster.yaml"
    file.write_text(CLUSTER)
    return file


def test_prices_are_those_of_the_dearest_type() -> None:
    head, train = plan.lines(expand(config.loads(CLUSTER)))
    assert (head.usd_per_hour_min, head.usd_per_hour_max) == (0.096, 0.096)
    assert (train.usd_per_hour_min, train.usd_per_hour_max) == (27.44705, pytest.approx(8 * 27.44705))
    assert (train.min_nodes, train.max_nodes, train.gpus) == (1, 8, 64)


def test_a_price_that_is_not_known_makes_no_sum() -> None:
    lines = plan.lines(expand(config.loads(CLUSTER.replace("p4d.24xlarge, p4de.24xlarge", "p5e.48xlarge"))))
    assert lines[1].usd_per_hour_max is None
    assert plan.total([line.usd_per_hour_max for line in lines]) is None


def test_plan_without_aws(cluster_file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["-c", str(cluster_file), "plan"]) == 0
    shown = capsys.readouterr()
    assert (
        "us-east-1d" in shown.out and "27.45 - 219.58" in shown.out and "p4d.24xlarge, else p4de.24xlarge" in shown.out
    )
    assert "AWS was not asked" in shown.err


def test_plan_as_json(cluster_file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["-c", str(cluster_file), "plan", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["usd_per_hour_max"] == pytest.approx(0.096 + 8 * 27.44705)
    assert [node["name"] for node in found["nodes"]] == ["head", "train"]
    assert found["cloud"] is None


def test_zones_that_offer_every_type() -> None:
    import boto3
    from botocore.stub import Stubber

    offered = [("p4d.24xlarge", "a"), ("p4d.24xlarge", "b"), ("p4de.24xlarge", "b"), ("p4de.24xlarge", "c")]
    ec2 = boto3.client("ec2", "us-east-1", aws_access_key_id="x", aws_secret_access_key="x")
    with Stubber(ec2) as stubber:
        offerings = [{"InstanceType": type_, "Location": f"us-east-1{zone}"} for type_, zone in offered]
        stubber.add_response("describe_instance_type_offerings", {"InstanceTypeOfferings": offerings})
        assert plan.zones_with(ec2, {"p4d.24xlarge", "p4de.24xlarge"}) == ["us-east-1b"]
        stubber.assert_no_pending_responses()


def test_render_writes_what_nodes_get(cluster_file: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    from gpucluster import render

    folder = tmp_path / "out"
    assert main(["-c", str(cluster_file), "render", str(folder)]) == 0
    assert capsys.readouterr().out.splitlines()[-1] == str(folder)
    cluster = config.load(cluster_file)
    written = {
        file.relative_to(folder / "bundle").as_posix(): file.read_text()
        for file in folder.glob("bundle/**/*")
        if file.is_file()
    }
    assert written == render.bundle(cluster)
    assert (folder / "user-data" / "head.sh").read_text() == render.user_data(cluster, "head")


def test_render_into_a_file_is_refused(cluster_file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["-c", str(cluster_file), "render", str(cluster_file)]) == 2
    assert "error: cannot write" in capsys.readouterr().err
