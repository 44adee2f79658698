"""What README and the pages show is what the code has and prints."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from gpucluster.cli import main
from gpucluster.cluster import plan
from gpucluster.config import load
from gpucluster.hardware import prices
from gpucluster.layout import expand

ROOT = Path(__file__).resolve().parents[3]
TEXT = (ROOT / "README.md").read_text()
PRICES = re.findall(r"^\| \[[^]]+\]\(([^)]+\.yaml)\) \|[^|]*\| ([^|]+) \| ([^|]+) \|$", TEXT, re.MULTILINE)


@pytest.mark.parametrize(("file", "always", "at_most"), PRICES)
def test_an_hour_of_an_example_costs_what_readme_says(file: str, always: str, at_most: str) -> None:
    cluster = load(ROOT / file)
    bill = plan.bill(expand(cluster))
    more = " + FSx" if cluster.lustre else ""  # its price depends on its size, and is no instance type's
    assert (f"{bill.usd_per_hour_min:.2f}{more}", f"{bill.usd_per_hour_max:.2f}{more}") == (always, at_most)
    assert all(each.mount in bill.not_included for each in cluster.lustre)


def test_every_example_but_the_reference_has_its_price() -> None:
    files = {"cluster.yaml", *(f"examples/{path.name}" for path in (ROOT / "examples").glob("*.yaml"))}
    assert {file for file, *_ in PRICES} == files - {"examples/reference.yaml"}
    price = prices.of("p5.48xlarge", "us-east-1")
    assert price and price.as_of in TEXT


def test_every_file_that_readme_points_at_is_there() -> None:
    targets = re.findall(r"\]\(([^)#:]+?)(?:#[^)]*)?\)", TEXT)
    assert [target for target in targets if not (ROOT / target).exists()] == []


@pytest.mark.parametrize("file", ["train.py", "job.yaml"])
def test_the_first_job_is_shown_whole(file: str) -> None:
    assert (
        f"```{file.rpartition('.')[2].replace('py', 'python')}\n{(ROOT / 'examples/hello' / file).read_text()}```"
        in TEXT
    )


@pytest.mark.parametrize("page", ["proof.md", "security.md"])
def test_every_test_that_a_page_names_exists(page: str) -> None:
    known = {path.name for folder in ("tests", "localcloud/tests") for path in (ROOT / folder).rglob("test_*.py")}
    named = set(re.findall(r"test_[a-z0-9_]+\.py", (ROOT / "docs" / page).read_text()))
    assert named and named <= known


def test_validate_prints_what_readme_shows(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    shown = TEXT.partition("$ gpucluster validate\n")[2].partition("```")[0]
    lines = ["name: GpuCluster", "region: us-east-1", "# one mistake", "partitions:"]
    lines += ["  - name: train", "    instance_types: [g5.12xlrge]", "    max_nodes: 4"]
    (tmp_path / "cluster.yaml").write_text("\n".join(lines))
    monkeypatch.chdir(tmp_path)
    assert main(["validate"]) == 2
    assert capsys.readouterr().err == shown


PAGES = sorted({*ROOT.glob("*.md"), *ROOT.glob("docs/*.md"), *ROOT.glob("bench/*.md")})


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_every_row_has_the_columns_of_its_table(page: Path) -> None:
    """A row of another table was once pasted over one that began like it."""
    wrong, columns = [], 0
    for line in page.read_text().splitlines():
        cells = len(re.findall(r"(?<!\\)\|", line)) if line.startswith("|") else 0
        columns = columns or cells if cells else 0
        if cells != columns:
            wrong.append(line)
    assert wrong == []
