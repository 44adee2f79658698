"""The pages for users name every key, launcher and verb that the code has, and no other, with the code's defaults."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from gpucluster.cli import VERBS
from gpucluster.cli.frame.cluster_file import WITH_CONTEXT
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


def test_the_page_of_jobs_has_every_key_and_no_other() -> None:
    assert set(keys_of_jobs()) == set(JobSpec.model_fields)


PLAIN = [name for name, field in JobSpec.model_fields.items() if isinstance(field.default, str | int)]


@pytest.mark.parametrize("key", sorted({*PLAIN} - {"workdir"}))
def test_the_page_of_jobs_has_the_default_of_a_key(key: str) -> None:
    default = JobSpec.model_fields[key].default
    assert keys_of_jobs()[key].strip("`") == (DEFAULTS[default] if isinstance(default, bool) else f"{default}")


def test_the_page_of_channels_has_every_key() -> None:
    keys = {key for keys, _ in rows("docs/channels.md", "key") for key in keys}
    assert keys == set(Channel.model_fields) - {"task", "output"}  # these are in docs/chains.md
    assert "{task: prepare, output: shards}" in (ROOT / "docs/chains.md").read_text()


@pytest.mark.parametrize("page", ["README.md", "docs/launchers.md"])
def test_a_table_of_launchers_has_them_all(page: str) -> None:
    named = {name for names, _ in rows(page, "launcher") for name in names}
    assert set(LAUNCHERS) <= named


def test_the_page_of_commands_has_every_verb_and_no_other() -> None:
    assert {verb for verbs, _ in rows("docs/commands.md", "verb") for verb in verbs} == set(VERBS)


def test_the_page_of_contexts_names_the_verbs_that_work_with_one() -> None:
    paragraph = (ROOT / "docs/contexts.md").read_text().partition("**These work:**")[2].partition("\n\n")[0]
    assert set(re.findall(r"`([a-z-]+)`", paragraph)) >= WITH_CONTEXT
