"""The pages for users name every key, launcher and verb that the code has, and no other, with the code's defaults.

`GOLDEN=rewrite` writes what the tables of a job's keys say (gpucluster/job_keys.py). A row of docs/jobs.md stands where
a person has put it."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

from gpucluster import job_keys
from gpucluster.cli import VERBS
from gpucluster.cli.frame.cluster_file import WITH_CONTEXT
from gpucluster.job import sameness
from gpucluster.job.spec import Channel, JobSpec
from gpucluster.launchers import LAUNCHERS

ROOT = Path(__file__).resolve().parents[3]
DEFAULTS = {True: "yes", False: "no"}


def rows(page: str, heading: str) -> Iterator[tuple[list[str], list[str]]]:
    """The rows of the page's tables with this heading: the words in code of the first cell, and the other cells."""
    inside = False
    for line in (ROOT / page).read_text().splitlines():
        if not line.startswith("|"):
            inside = False
        elif line.startswith(f"| {heading} |"):
            inside = True
        elif inside and not line.startswith("|---"):
            first, *others = (cell.strip() for cell in line.strip("|").split("|"))
            yield re.findall(r"`([^` ]+)[^`]*`", first), others


def keys_of_jobs() -> dict[str, str]:
    return {key: cells[-1] for keys, cells in rows("docs/jobs.md", "key") for key in keys}


def same(page: str, text: str) -> None:
    path = ROOT / page
    if os.environ.get("GOLDEN") == "rewrite":
        path.write_text(text)
    assert path.read_text() == text


def test_the_page_of_jobs_says_what_the_keys_mean() -> None:
    said = {key.name: f"{key.meaning} | {key.default}" for key in job_keys.of_job()}
    text = (ROOT / "docs/jobs.md").read_text()
    for keys, _ in rows("docs/jobs.md", "key"):
        row = f"| {', '.join(f'`{key}`' for key in keys)} |"
        before, after = text.split(row)
        text = f"{before}{row} {said[keys[0]]} |\n" + after.partition("\n")[2]
    same("docs/jobs.md", text)


def test_each_key_has_a_meaning_in_the_row_that_it_begins() -> None:
    begin = {keys[0] for keys, _ in rows("docs/jobs.md", "key")}
    assert begin == {key.name for key in job_keys.of_job() if key.meaning and key.default}


@pytest.mark.parametrize(("heading", "reasons"), [("compared", sameness.COMPARED), ("not compared", sameness.LEFT_OUT)])
def test_the_page_of_tasks_says_which_keys_are_compared(heading: str, reasons: Mapping[str, str]) -> None:
    """A new key comes last."""
    page, top = "docs/state.md", f"| {heading} | why |\n|---|---|\n"
    listed = [key for keys, _ in rows(page, heading) for key in keys if key in reasons]
    before, _, rest = (ROOT / page).read_text().partition(top)
    after = "".join(f"| `{key}` | {reasons[key]} |\n" for key in dict.fromkeys([*listed, *reasons]))
    same(page, before + top + after + re.sub(r"\A(\|.*\n)*", "", rest))


def test_the_page_of_jobs_has_every_key_and_no_other() -> None:
    assert set(keys_of_jobs()) == set(JobSpec.model_fields)


PLAIN = [name for name, field in JobSpec.model_fields.items() if isinstance(field.default, str | int)]


@pytest.mark.parametrize("key", sorted({*PLAIN} - {"workdir"}))
def test_the_page_of_jobs_has_the_default_of_a_key(key: str) -> None:
    default = JobSpec.model_fields[key].default
    assert keys_of_jobs()[key].strip("`") == (DEFAULTS[default] if isinstance(default, bool) else f"{default}")


def test_the_page_of_channels_has_every_key() -> None:
    keys = {key for keys, _ in rows("docs/data.md", "key") for key in keys}
    assert keys == set(Channel.model_fields) - {"task", "output"}  # these are in docs/chains.md
    assert "{task: prepare, output: shards}" in (ROOT / "docs/chains.md").read_text()


def test_the_table_of_launchers_has_them_all() -> None:
    named = {name for names, _ in rows("docs/launchers.md", "launcher") for name in names}
    assert set(LAUNCHERS) <= named


def test_the_page_of_commands_has_every_verb_and_no_other() -> None:
    assert {verb for verbs, _ in rows("docs/commands.md", "verb") for verb in verbs} == set(VERBS)


def test_the_page_of_contexts_names_the_verbs_that_work_with_one() -> None:
    paragraph = (ROOT / "docs/existing-slurm.md").read_text().partition("**These work:**")[2].partition("\n\n")[0]
    assert set(re.findall(r"`([a-z-]+)`", paragraph)) >= WITH_CONTEXT
