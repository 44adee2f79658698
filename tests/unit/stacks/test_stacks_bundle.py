"""The archive that nodes unpack, as the CDK command line finds it in the assembly."""

from __future__ import annotations

import json
import zipfile
from pathlib import Path

import pytest

FILES = {"lib/names.sh": "name=Zoë\n", "head.sh": "exit 0\n", "environments/cache": ""}


@pytest.fixture(scope="module")
def assembly(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return synthesized(tmp_path_factory.mktemp("assembly"))


def synthesized(folder: Path) -> Path:
    import aws_cdk as cdk

    from stacks.bundle import Bundle

    app = cdk.App(outdir=str(folder))
    synthesizer = cdk.DefaultStackSynthesizer(bucket_prefix="one/")
    stack = cdk.Stack(app, "One", synthesizer=synthesizer)
    Bundle(stack, "Bundle", files=FILES, version="0f", head_generation="1", synthesizer=synthesizer)
    app.synth()
    return folder


def archive(assembly: Path) -> tuple[Path, str]:
    """The archive, and its key in CDK's bucket."""
    assets = json.loads((assembly / "One.assets.json").read_text())["files"].values()
    (asset,) = (each for each in assets if each["displayName"] == "Bundle/Archive")
    assert asset["source"]["packaging"] == "file"
    (place,) = asset["destinations"].values()
    return assembly / asset["source"]["path"], place["objectKey"]


def test_the_archive_has_every_file_as_it_was_rendered(assembly: Path) -> None:
    with zipfile.ZipFile(archive(assembly)[0]) as packed:
        assert {name: packed.read(name).decode() for name in packed.namelist()} == FILES
        assert {entry.external_attr >> 16 for entry in packed.infolist()} == {0o644}


def test_its_key_is_that_of_its_content_below_the_clusters_prefix(assembly: Path) -> None:
    file, key = archive(assembly)
    assert key == f"one/{file.stem.removeprefix('asset.')}.zip"


def test_the_same_files_make_the_same_archive(assembly: Path, tmp_path: Path) -> None:
    first, again = archive(assembly)[0], archive(synthesized(tmp_path))[0]
    assert (first.name, first.read_bytes()) == (again.name, again.read_bytes())
