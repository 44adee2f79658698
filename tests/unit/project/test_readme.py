"""README's figures and links are the code's."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from gpucluster.cluster import plan
from gpucluster.config import load
from gpucluster.hardware.instances import PRICES_AS_OF
from gpucluster.layout import expand

ROOT = Path(__file__).resolve().parents[3]
TEXT = (ROOT / "README.md").read_text()
PRICES = re.findall(r"^\| \[[^]]+\]\(([^)]+\.yaml)\) \|[^|]*\| ([0-9.]+) \| ([0-9.]+) \|$", TEXT, re.MULTILINE)


@pytest.mark.parametrize(("file", "always", "at_most"), PRICES)
def test_an_hour_of_an_example_costs_what_readme_says(file: str, always: str, at_most: str) -> None:
    lines = plan.lines(expand(load(ROOT / file)))
    low, high = (
        plan.total([line.usd_per_hour_min for line in lines]),
        plan.total([line.usd_per_hour_max for line in lines]),
    )
    assert (f"{low:.2f}", f"{high:.2f}") == (always, at_most)


def test_every_example_but_the_reference_has_its_price() -> None:
    files = {"cluster.yaml", *(f"examples/{path.name}" for path in (ROOT / "examples").glob("*.yaml"))}
    assert {file for file, *_ in PRICES} == files - {"examples/reference.yaml"}
    assert PRICES_AS_OF in TEXT


def test_every_file_that_readme_points_at_is_there() -> None:
    targets = re.findall(r"\]\(([^)#:]+?)(?:#[^)]*)?\)", TEXT)
    assert [target for target in targets if not (ROOT / target).exists()] == []


@pytest.mark.parametrize("file", ["train.py", "job.yaml"])
def test_the_first_job_is_shown_whole(file: str) -> None:
    assert (
        f"```{file.rpartition('.')[2].replace('py', 'python')}\n{(ROOT / 'examples/hello' / file).read_text()}```"
        in TEXT
    )
