"""The syntax of S3 addresses, whether one contains another, and whether a folder contains a path."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from gpucluster.addresses import S3Uri, in_s3, within

ROOT = Path(__file__).resolve().parents[3]
HOMES = {"gpucluster/addresses.py", "bootstrap/gpucluster_node/locations.py", "gpucluster_train/channels.py"}
"""One for each place where code runs: the user's machine, nodes, jobs."""
ALONE = {"gpucluster_job/packages/cache.py", "gpucluster_job/packages/wheels.py"}
"""Programs that overlay.py runs with `python -I`: they cannot import modules beside them."""


@pytest.mark.parametrize(
    ("uri", "bucket", "prefix", "folder"),
    [
        ("s3://b", "b", "", ""),
        ("s3://b/", "b", "", ""),
        ("s3://b/a/c", "b", "a/c", "a/c/"),
        ("s3://b/a/c/", "b", "a/c", "a/c/"),
        ("s3://b//a", "b", "/a", "/a/"),  # another prefix than a, to S3
    ],
)
def test_bucket_and_prefix(uri: str, bucket: str, prefix: str, folder: str) -> None:
    found = S3Uri.of(uri)
    assert (found.bucket, found.prefix, found.folder) == (bucket, prefix, folder)
    assert str(found) == uri.rstrip("/")


def test_whether_a_place_contains_another() -> None:
    whole, outer, inner, beside = map(S3Uri.of, ("s3://b", "s3://b/a/", "s3://b/a/c", "s3://b/ab"))
    assert whole.holds(outer) and outer.holds(inner) and outer.holds(outer)
    assert not outer.holds(beside) and not inner.holds(outer) and not whole.holds(S3Uri.of("s3://other/a"))


@pytest.mark.parametrize(
    ("path", "inside"),
    [
        ("/fsx", True),
        ("/fsx/", True),
        ("/fsx/a/b", True),
        ("/fsx/..a", True),
        ("/fsx2", False),
        ("/fsx/../x", False),
        ("/fsx/a/../b", False),  # a may be a link to another file system
        ("/home/../fsx/a", False),
        ("fsx/a", False),
        ("", False),
    ],
)
def test_whether_a_folder_contains_a_path(path: str, inside: bool) -> None:
    assert within(path, "/fsx") == within(path, "/fsx/") == inside


def test_folders_are_not_in_s3() -> None:
    assert in_s3("s3://b") and not in_s3("/fsx/s3://b") and not in_s3(None)


def test_only_one_module_parses_addresses() -> None:
    for folder in ("gpucluster", "gpucluster_job", "gpucluster_train", "stacks", "bootstrap"):
        for path in (ROOT / folder).rglob("*.py"):
            if str(path.relative_to(ROOT)) not in HOMES | ALONE:
                assert not re.search(r"""((startswith|removeprefix)\(f?|len\()["']s3://["']""", path.read_text()), path
