"""What README and the pages show is what the code has and prints.

No test can compare README's table of other tools. Its sources, as of August 2026: docs.aws.amazon.com/parallelcluster
(EFA, FSx), docs.aws.amazon.com/sagemaker/latest/dg/sagemaker-hyperpod-resiliency-slurm-auto-resume.html and
sagemaker-hyperpod-scaling-slurm.html, docs.aws.amazon.com/pcs/latest/userguide/working-with_clusters.html,
github.com/skypilot-org/skypilot/releases (0.12.0: Slurm), github.com/dstackai/dstack/pull/2271 (EFA),
github.com/facebookincubator/submitit.
"""

from __future__ import annotations

import re
import runpy
import shlex
from pathlib import Path

import click
import pytest

from gpucluster.cli import cli, main
from gpucluster.cli.frame import money
from gpucluster.cluster import plan
from gpucluster.config import load
from gpucluster.hardware import prices
from gpucluster.job.spec import JobSpec
from gpucluster.layout import expand

ROOT = Path(__file__).resolve().parents[3]
TEXT = (ROOT / "README.md").read_text()
QUICKSTART = (ROOT / "docs/quickstart.md").read_text()
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


def test_the_first_job_is_shown_whole() -> None:
    program = (ROOT / "examples/hello/train.py").read_text()
    assert f"```python\n{program}```" in TEXT
    assert f"```yaml\n{(ROOT / 'examples/hello/job.yaml').read_text()}```" in QUICKSTART
    imports = ("import ", "#")
    assert len([line for line in program.splitlines() if line and not line.startswith(imports)]) <= 10


def test_readme_stays_short() -> None:
    assert len(TEXT.splitlines()) <= 160


def test_the_picture_is_the_one_that_its_script_draws() -> None:
    drawn = runpy.run_path(str(ROOT / "docs/pictures/overview.py"))
    assert drawn["FILE"].read_text() == drawn["picture"]()


def test_plan_prints_what_readme_shows(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("AWS_PROFILE", "AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", "/nonexistent")
    assert main(["-c", str(ROOT / "cluster.yaml"), "plan"]) == 0
    assert f"```\n{capsys.readouterr().out}```" in TEXT


def test_money_on_the_first_pages_is_what_the_prices_give() -> None:
    layout = expand(load(ROOT / "cluster.yaml"))
    always = plan.bill(layout).usd_per_hour_min or 0
    assert f"${always:.2f} an hour" in TEXT and f"${24 * always:.2f} a day" in TEXT
    hello = JobSpec(command=("true",), partition="train", nodes=2, time="1:00:00")
    said = (money.of_job(layout, hello, 0) or "").removeprefix("price: at most ").partition(" while")[0]
    assert said.startswith("$") and said in TEXT and said in QUICKSTART
    p5 = prices.of("p5.48xlarge", "us-east-1")
    assert p5 and f"4 × p5.48xlarge cost ${4 * 63 * p5.usd:,.0f}" in TEXT
    waits = 2e12 / 0.5e9 / 3600 * 4 * p5.usd
    assert f"cost ${waits:.0f} on 4 × p5.48xlarge" in (ROOT / "docs/your-repo.md").read_text()
    assert f"p5.48xlarge costs ${24 * p5.usd:,.0f} a day" in (ROOT / "docs/notebooks.md").read_text()


def test_the_job_of_your_own_repository_is_accepted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    cluster = (ROOT / "cluster.yaml").read_text() + "s3_access:\n  - uri: s3://my-bucket/train\n"
    (tmp_path / "cluster.yaml").write_text(cluster)
    (tmp_path / "job.yaml").write_text(TEXT.partition("```yaml\n")[2].partition("```")[0])
    (tmp_path / "train.py").write_text("")
    (tmp_path / "requirements.txt").write_text("hydra-core\n")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("WANDB_API_KEY", "x")
    assert main(["submit", "job.yaml", "--dry-run"]) == 0
    assert "'hydra.run.dir=${oc.env:GPUCLUSTER_STATE}'" in capsys.readouterr().out


def commands() -> list[list[str]]:
    """Those of the first pages, as a shell splits them."""
    found = []
    for page in ("README.md", *(f"docs/{name}.md" for name in ("quickstart", "your-repo", "notebooks", "slow"))):
        text = (ROOT / page).read_text().replace("\\\n", " ")
        blocks = "\n".join(re.findall(r"^```\n(.*?)^```", text, re.MULTILINE | re.DOTALL))
        lines = [*re.findall(r"^gpucluster .*", blocks, re.MULTILINE), *re.findall(r"`(gpucluster [^`]+)`", text)]
        found += [words for line in lines if (words := shlex.split(line, comments=True)[1:])]
    return found


@pytest.mark.parametrize("words", commands(), ids=" ".join)
def test_a_command_of_the_first_pages_is_one(words: list[str]) -> None:
    """Its verb takes these options and arguments; tests/cluster/test_first_pages.py runs those that need a cluster."""
    context = click.Context(cli, info_name="gpucluster")
    verb = cli.get_command(context, words[0])
    assert verb, f"no verb {words[0]}"
    verb.make_parser(click.Context(verb, parent=context)).parse_args(words[1:])


def test_validate_prints_what_the_quickstart_shows(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    shown = QUICKSTART.partition("$ gpucluster validate\n")[2].partition("```")[0]
    lines = ["name: GpuCluster", "region: us-east-1", "# one mistake", "partitions:"]
    lines += ["  - name: train", "    instance_types: [g5.12xlrge]", "    max_nodes: 4"]
    (tmp_path / "cluster.yaml").write_text("\n".join(lines))
    monkeypatch.chdir(tmp_path)
    assert main(["validate"]) == 2
    assert capsys.readouterr().err == shown


PAGES = sorted(
    {*ROOT.glob("*.md"), *ROOT.glob("docs/*.md"), *ROOT.glob("bench/*.md"), *ROOT.glob("localcloud/docs/*.md")}
)


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
