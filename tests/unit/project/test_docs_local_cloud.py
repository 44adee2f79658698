"""localcloud/docs/local-cloud.md against the image and the faults; and every path that the documents name."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from localcloud.faults import KINDS

ROOT = Path(__file__).resolve().parents[3]
PAGE = ROOT / "localcloud/docs/local-cloud.md"
MACHINES = ROOT / "localcloud" / "machines"
DOCUMENTS = [
    *(path for path in (ROOT / "README.md", ROOT / "CONTRIBUTING.md") if path.exists()),
    *sorted((ROOT / "docs").rglob("*.md")),
    *sorted((ROOT / "localcloud/docs").glob("*.md")),
    *sorted((ROOT / "bench").glob("*.md")),
    ROOT / "localcloud/README.md",
]
# In backquotes, relative, and with a folder or an ending of this repository: `stacks/network.py`, `cdk.json`.
_PATH = re.compile(r"`((?:[\w.-]+/)*[\w.-]+(?:/|\.(?:py|sh|j2|yaml|json|md|toml|txt|lock)))`")
_LINK = re.compile(r"\]\(([^)#:]+)(?:#[^)]*)?\)")
_ANCHOR = re.compile(r"\]\(([^)#:\s]*)#([^)\s]+)\)")
# Files of users, of the cluster and of the local cloud, which are not in the repository.
ELSEWHERE = {
    ".gpucluster/clusters.json",
    "api.jsonl",
    "cdk.context.json",
    "cloud.json",
    "cluster.sh",
    "compute.sh",
    "dist/",
    "exports.json",
    "fleet.json",
    "head.sh",
    "job.yaml",
    "log-29.txt",
    "log.txt",
    "manifest.json",
    "train_keras.py",
    "train_mxnet.py",
    "train_torch.py",
    "parameters.json",
    "result.json",
    "nodes-now.json",
    "proof-report.md",
    "setup.sh",
    "spending.json",
    "train.py",
    "uv.lock",
}


def rows(heading: str) -> list[str]:
    """The first cell of each row of the table below a heading, without backquotes."""
    section = PAGE.read_text().partition(f"## {heading}\n")[2].partition("\n## ")[0]
    return re.findall(r"^\| `([^`]+)` \|", section, re.MULTILINE)


def test_every_stand_in_of_the_image_is_listed() -> None:
    links = re.findall(
        r'ln -sf \S+ "\$root/usr/(?:s?bin|lib/systemd/system)/(\S+)"', (MACHINES / "customize.sh").read_text()
    )
    folders = (MACHINES / "guest" / "usr", MACHINES / "guest" / "opt")
    files = [
        path.name
        for folder in folders
        for path in folder.rglob("*")
        if path.is_file() and not {"records", "__pycache__"} & {*path.parts, path.stem}
    ]
    assert sorted(rows("Commands and units of the image that stand in")) == sorted(files + links)


def test_every_fault_is_listed() -> None:
    assert sorted(rows("Faults")) == sorted([*KINDS, "death"])


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: path.name)
def test_paths_in_documents_exist(document: Path) -> None:
    text = document.read_text()
    named = {path for path in _PATH.findall(text) if path not in ELSEWHERE}
    linked = set(_LINK.findall(text))
    folders = (ROOT / "tests", ROOT / "localcloud/tests")
    tests = {path.name for folder in folders for path in folder.rglob("test_*.py")}  # no two have one name
    named = {path for path in named if not re.search(r"(^|/)[A-Z]{3,}/", path)}  # JOB/output/ is a pattern
    missing = [path for path in sorted(named - tests) if not (ROOT / path).exists()]
    missing += [path for path in sorted(linked) if not (document.parent / path).exists()]
    assert not missing, f"{document.relative_to(ROOT)} names what is not there"


def headings(document: Path) -> list[str]:
    """Their anchors, as GitHub makes them."""
    found, in_code = [], False
    for line in document.read_text().splitlines():
        in_code ^= line.lstrip().startswith("```")
        if not in_code and (heading := re.match(r"#+ (.*)", line)):
            words = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", re.sub(r"[`*]", "", heading[1])).lower()
            found.append(re.sub(r"[^\w\- ]", "", words).replace(" ", "-"))
    return found


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: path.name)
def test_a_link_to_a_heading_finds_it(document: Path) -> None:
    linked = {
        (document.parent / path if path else document, name) for path, name in _ANCHOR.findall(document.read_text())
    }
    assert [(path.name, name) for path, name in sorted(linked) if name not in headings(path)] == []
    assert sorted(set(headings(document))) == sorted(headings(document)), "two headings have one anchor"


def test_there_are_at_most_30_pages() -> None:
    assert len([*(ROOT / "docs").rglob("*.md")]) <= 30
