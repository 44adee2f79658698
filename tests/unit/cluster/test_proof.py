"""docs/proof.md names existing tests, and the stages of `make test-aws`."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]
sys.path.insert(0, str(ROOT / "examples" / "proof"))

import report  # noqa: E402
from stages import STAGES, Place, bill, capacity_block, cluster_file  # noqa: E402

from gpucluster import config  # noqa: E402
from gpucluster.layout import expand  # noqa: E402

TEXT = (ROOT / "docs" / "proof.md").read_text()


def test_the_page_names_tests_that_there_are() -> None:
    there = {path.name for folder in ("tests", "localcloud/tests") for path in (ROOT / folder).rglob("test_*.py")}
    named = set(re.findall(r"`(test_\w+\.py)`", TEXT))
    assert len(named) > 30 and named - there == set()


def test_the_page_names_stages_that_there_are() -> None:
    cells = [line.split("|")[4].strip() for line in TEXT.splitlines() if line.count("|") == 5]
    named = {word for cell in cells for word in cell.split(", ")} - {"on AWS", "---", "–", "all"}
    assert named == set(STAGES)


def test_every_stage_is_a_cluster_that_validates_and_has_a_price() -> None:
    place = Place("us-east-1")
    stages = [*STAGES.values(), capacity_block("p5.48xlarge", "cr-0123456789abcdef0")]
    for number in range(len(stages)):
        cluster = config.loads(cluster_file(stages[: number + 1], place))
        assert expand(cluster).partition(stages[number].partition["name"])
    cost = bill(list(STAGES.values()), place)
    assert all(usd > 0.5 for _, usd in cost.lines)
    assert cost.where_and_when == "on demand in us-east-1, 2026-07-20"
    away = bill([STAGES["single"]], Place("eu-west-1"))
    assert "on demand in eu-west-1, 2025-04-04; price in us-east-1: NAT gateway" in away.where_and_when
    assert away.usd > bill([STAGES["single"]], place).usd


def test_the_cheapest_proof_costs_about_a_dollar() -> None:
    assert bill([STAGES["single"]], Place("us-east-1")).usd < 1.5


def test_the_report_names_no_account_and_no_secret() -> None:
    text = (
        "arn:aws:iam::123456789012:role/x AKIAIOSFODNN7EXAMPLE someone@example.org 54.1.2.3 at 10.0.0.7 "
        "https://s3/handle?X-Amz-Credential=a%2Fb&X-Amz-Signature=0123abc MUNGE_SECRET='wJalrXUtnFEMI/K7MDENG'"
    )
    text += " https://x/arn%3Aaws%3Acloudformation%3Aus-east-1%3A210987654321%3Astack?AWSAccessKeyId=AK1&Signature=c2ln"
    text += " arn:aws:iam::123456789012:user/john.doe ec2-54-1-2-3.compute-1.amazonaws.com"
    scrubbed = report.scrub(text)
    for secret in ("123456789012", "AKIA", "someone", "54.1.2.3", "0123abc", "a%2Fb", "wJalr"):
        assert secret not in scrubbed
    for secret in ("210987654321", "AK1", "c2ln", "john", "54-1-2-3"):
        assert secret not in scrubbed
    assert "10.0.0.7" in scrubbed and "role/x" in scrubbed


def test_the_proof_continues_when_its_output_is_closed() -> None:
    """Ctrl-C during `make test-aws | tee log` also ends tee; the cluster must still be deleted."""
    script = "import os, command; os.close(1); command.tell('deleting'); command.tell('deleted')"
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "examples" / "proof")}
    assert subprocess.run([sys.executable, "-c", script], env=environment, check=False).returncode in (0, 120)


def test_a_failed_check_or_something_left_fails_the_proof() -> None:
    passed = report.Check("single", "gpucluster up", True, "exit code 0", 1.0)
    assert report.Report({}, [passed], left=[]).ok
    assert not report.Report({}, [passed], left=["vol-1"]).ok
    assert not report.Report({}, [passed], left=None).ok
    assert not report.Report({}, [passed], left=[], unknown=["fsx: AccessDenied"]).ok
    assert not report.Report({}, [passed, report.Check("efa", "x", False, "")], left=[]).ok
    assert "not exercised" in report.Report({}, [report.Check("efa", "x", None, "")], left=[]).text()
