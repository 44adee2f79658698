"""`gpucluster plan` and `gpucluster render`: both work offline."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from gpucluster import config
from gpucluster.cli import main
from gpucluster.cli.frame import money
from gpucluster.cluster import plan
from gpucluster.errors import UsageError
from gpucluster.job import JobSpec
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


def test_prices_are_those_of_the_first_type_always_and_of_the_dearest_at_most() -> None:
    head, train = plan.lines(expand(config.loads(CLUSTER)))
    assert (head.usd_per_hour_min, head.usd_per_hour_max) == (0.096, 0.096)
    assert (train.usd_per_hour_min, train.usd_per_hour_max) == (21.957642, pytest.approx(8 * 27.44705))
    assert (train.min_nodes, train.max_nodes, train.gpus) == (1, 8, 64)


def test_an_unknown_price_gives_no_sum() -> None:
    lines = plan.lines(expand(config.loads(CLUSTER.replace("p4d.24xlarge, p4de.24xlarge", "p5e.48xlarge"))))
    assert lines[1].usd_per_hour_max is None
    assert plan.total([line.usd_per_hour_max for line in lines]) is None


def test_a_price_that_is_known_in_another_region_only_says_so() -> None:
    """eu-west-1 has prices of both types; of its network and of p5 only those in us-east-1 are known."""
    text = CLUSTER.replace("us-east-1", "eu-west-1")
    bill = plan.bill(expand(config.loads(text.replace("p4d.24xlarge, p4de.24xlarge", "p4d.24xlarge"))))
    assert [(line.usd_per_node_hour, line.price_region) for line in bill.lines] == [
        (0.107, "eu-west-1"), (23.71569, "eu-west-1"),
    ]  # fmt: skip
    assert {item.name: item.price_region for item in bill.items}["NAT gateway"] == "us-east-1"
    assert bill.where_and_when == (
        "on demand in eu-west-1, 2025-04-04 and 2025-11; "
        "price in us-east-1: NAT gateway, public address of the NAT gateway"
    )
    missing = plan.bill(expand(config.loads(text.replace("p4d.24xlarge, p4de.24xlarge", "p5.48xlarge"))))
    assert "; price in us-east-1: p5.48xlarge, NAT gateway" in missing.where_and_when
    assert (missing.lines[1].usd_per_node_hour, missing.lines[1].price_region) == (55.04, "us-east-1")


def test_a_region_without_prices_has_those_of_us_east_1_and_says_so() -> None:
    bill = plan.bill(expand(config.loads(CLUSTER.replace("us-east-1", "mx-central-1"))))
    assert bill.where_and_when == "on demand in us-east-1, 2026-07-20: the prices in mx-central-1 are not known"
    assert {line.price_region for line in bill.lines} == {"us-east-1"}


def test_a_file_system_costs_by_the_hour_or_is_named_as_not_included() -> None:
    storage = "storage: [{mount: /fsx, type: fsx-lustre, throughput_mbps_per_tib: %s, capacity_gib: 4800}]"
    bill = plan.bill(expand(config.loads(CLUSTER + storage % 125)))
    # https://c3x.dev/resources/aws/aws_fsx_lustre_file_system/: 1.2 TB at 125 MB/s/TiB is about $174 a month
    assert bill.items[-1].usd_per_hour == pytest.approx(4 * 174 / 730, rel=0.01)
    dearer = plan.bill(expand(config.loads(CLUSTER + storage % 250)))
    assert dearer.items[-1].usd_per_hour is None and dearer.not_included.startswith("/fsx: FSx for Lustre")


def test_memory_of_nodes_costs_nothing_more_than_the_nodes() -> None:
    storage = "storage: [{mount: /ram, type: beegfs-ram, partition: train, gib_per_node: 8, scope: job}]"
    bill = plan.bill(expand(config.loads(CLUSTER + storage)))
    assert (bill.items[-1].name, bill.items[-1].usd_per_hour) == (
        "/ram: BeeGFS, 8 GiB of memory of each node of train", 0.0,
    )  # fmt: skip
    assert bill.not_included == plan.NOT_PRICED


def test_a_file_system_for_jobs_counts_only_in_the_highest_price() -> None:
    storage = (
        "storage: [{mount: /fsx, type: fsx-lustre, deployment: scratch-2, lifetime: jobs, data_repositories: [LINK]}]"
    )
    storage = storage.replace("LINK", "{path: /results, s3: 's3://bucket/results', export: [new]}")
    without, with_it = plan.bill(expand(config.loads(CLUSTER))), plan.bill(expand(config.loads(CLUSTER + storage)))
    assert with_it.usd_per_hour_min == without.usd_per_hour_min
    assert with_it.usd_per_hour_max == pytest.approx((without.usd_per_hour_max or 0) + 4800 * 0.14 / 730)


def answered(monkeypatch: pytest.MonkeyPatch, answer: bool) -> list[str]:
    """Simulates a terminal; returns the questions."""
    asked: list[str] = []
    monkeypatch.setattr("sys.stdin.isatty", lambda: True, raising=False)
    monkeypatch.setattr(money.click, "confirm", lambda text, **_: asked.append(text) or answer)
    return asked


def test_up_asks_before_more_money_is_spent(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    asked, new = answered(monkeypatch, False), config.loads(CLUSTER)
    with pytest.raises(UsageError, match="nothing was started"):
        money.tell_price(None, new, ask=True)
    assert asked == ["Start it?"]
    assert "price: $22.11 an hour while GpuCluster exists, at most $219.73" in capsys.readouterr().err
    smaller = config.loads(CLUSTER.replace("min_nodes: 1", "min_nodes: 0"))
    money.tell_price(new, smaller, ask=True)  # cheaper: the price is shown, and nobody is asked
    money.tell_price(new, new, ask=True)
    assert len(asked) == 1 and capsys.readouterr().err.count("price:") == 1
    money.tell_price(None, new, ask=False)
    assert len(asked) == 1


def test_a_job_has_a_price_by_the_hour_and_an_upper_bound_within_its_time() -> None:
    spec = JobSpec(command=("true",), partition="train", nodes=2, time="1:30:00")
    price = money.of_job(expand(config.loads(CLUSTER)), spec, 0) or ""
    assert price.startswith("price: at most $54.89 an hour while it runs, $82.34 within its time limit")
    price = money.of_job(expand(config.loads(CLUSTER)), JobSpec(command=("true",), partition="train", nodes=2), 0) or ""
    assert price.startswith(
        "price: at most $54.89 an hour while it runs; it has no time limit: --time 4:00:00 sets one"
    )
    block = "purchase: capacity-block, reservation_id: cr-0123456789abcdef0, placement_group: none"
    paid = CLUSTER.replace("min_nodes: 1", f"min_nodes: 1, {block}")
    assert money.of_job(expand(config.loads(paid.replace(", p4de.24xlarge", ""))), spec, 0) is None


def test_plan_without_aws(cluster_file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["-c", str(cluster_file), "plan"]) == 0
    shown = capsys.readouterr()
    assert (
        "us-east-1d" in shown.out and "21.96 - 219.58" in shown.out and "p4d.24xlarge, else p4de.24xlarge" in shown.out
    )
    assert "AWS was not called" in shown.err


def test_plan_as_json(cluster_file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["-c", str(cluster_file), "plan", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    beside = {item["name"]: item["usd_per_hour"] for item in found["beside_nodes"]}
    volume = 50 * 0.08 / 730
    assert beside == {
        "50 GiB for /home": pytest.approx(volume),
        "VPC 10.0.0.0/16": 0,
        "NAT gateway": pytest.approx(0.045),
        "public address of the NAT gateway": pytest.approx(0.005),
    }
    assert found["usd_per_hour_max"] == pytest.approx(0.096 + 8 * 27.44705 + volume + 0.05)
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
