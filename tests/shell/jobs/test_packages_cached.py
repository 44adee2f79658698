"""A job's own packages are stored by one cluster and restored by the next: the real pip, tar and zstd, and moto's S3.

The next cluster has an index without wheels, so its packages can only come from the cache.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from moto.core import set_initial_no_auth_action_count
from test_packages_from_s3 import bucket, served
from test_packages_overlay import SHOW, Jobs

from tests.wheels import wheel

CACHE = "s3://bucket/gpucluster/packages"


class Cluster(Jobs):
    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        wheel(self.wheels, "greeting", "1.5", "torch>=2")
        self.keep(CACHE)

    def keep(self, prefix: str) -> None:
        file = self.base.parent / ".recipe" / "environments" / "packages"
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(f"{prefix}\n")

    def replace(self) -> None:
        """Another cluster in the same place, without wheels."""
        shutil.rmtree(self.folder)
        shutil.rmtree(self.wheels)
        self.wheels.mkdir()

    def build(self, name: str, *, setup: str = "", key: str = "0123") -> subprocess.CompletedProcess[str]:
        return self.overlay("build", self.ask(name, "greeting", setup=setup, key=key))

    def tar(self, does: str) -> None:
        self.squeue("true")
        program = self.folder.parent / "bin" / "tar"
        program.write_text(f"#!/bin/sh\n{does}\n")
        program.chmod(0o755)
        self.env["PATH"] = f"{program.parent}:{Path(sys.executable).parent}:{os.environ['PATH']}"

    def shown(self) -> str:
        python = str(self.place() / "bin" / "python")
        return subprocess.run([python, "-c", SHOW], capture_output=True, text=True, check=True).stdout

    def content(self) -> dict[str, tuple[int, bytes]]:
        """Path -> the mode, and the content or the link."""
        found = {}
        for path in self.place().rglob("*"):
            text = str(path.readlink()).encode() if path.is_symlink() else b"" if path.is_dir() else path.read_bytes()
            found[str(path.relative_to(self.place()))] = (path.lstat().st_mode, text)
        return found


@pytest.fixture
def jobs(tmp_path: Path) -> Iterator[Cluster]:
    yield from served(Cluster(tmp_path))


@pytest.fixture
def s3(jobs: Cluster) -> Any:
    return bucket(jobs)


def only(s3: Any) -> Any:
    (found,) = s3.objects.all()
    return found


def test_the_next_cluster_restores_what_was_installed(jobs: Cluster, s3: Any) -> None:
    first = jobs.build("first", setup="echo made >fruit; chmod 0750 fruit\n")
    assert "Successfully installed greeting-1.5" in first.stdout, first.stdout + first.stderr
    stored = f"s3://bucket/{only(s3).key}"
    assert stored.startswith(f"{CACHE}/torch-0123/0123-") and f"stored to {stored}" in first.stdout
    before = jobs.content()
    jobs.replace()
    asked = jobs.ask("checked", "greeting")
    assert jobs.overlay("check", asked).stdout == "stored\n"
    built = jobs.overlay("build", asked)
    assert (built.returncode, built.stderr) == (0, "") and f"restored from {stored}" in built.stdout, built.stdout
    assert "installed" not in built.stdout and "stored to" not in built.stdout
    assert jobs.shown() == "1.5 2.13.0+cpu 1.0\n"
    assert jobs.content() == before
    assert jobs.overlay("check", jobs.ask("again", "greeting")).stdout == "ready\n"
    jobs.squeue("true")
    (listed,) = json.loads(jobs.overlay("list", jobs.folder).stdout)
    assert (listed["state"], listed["requirements"]) == ("ready", ["greeting"])
    jobs.overlay("prune", jobs.folder)
    assert not jobs.place().exists() and only(s3).key in stored


def test_a_cut_archive_is_replaced_by_an_installation(jobs: Cluster, s3: Any) -> None:
    replaced_by_an_installation(jobs, s3, lambda whole: whole[:-200000])


def replaced_by_an_installation(jobs: Cluster, s3: Any, broken: Callable[[bytes], bytes]) -> None:
    """`broken`: whole archive -> broken archive."""
    jobs.build("first", setup="head -c 300000 /dev/urandom >noise\n")
    only(s3).put(Body=broken(only(s3).get()["Body"].read()))
    shutil.rmtree(jobs.folder)
    built = jobs.build("second", setup="! [ -e noise ]\n")
    assert built.returncode == 0 and "could not be restored: the archive is broken" in built.stdout, built.stdout
    assert "Successfully installed greeting-1.5" in built.stdout
    assert not (jobs.place() / "code" / "noise").exists() and jobs.shown() == "1.5 2.13.0+cpu 1.0\n"
    jobs.replace()
    assert "restored from" in jobs.build("third").stdout  # the installation replaced the broken archive


@pytest.mark.parametrize(("denied", "why"), [(True, "InvalidAccessKeyId"), (False, "NoSuchBucket")])
def test_packages_that_cannot_be_stored_are_used(jobs: Cluster, denied: bool, why: str) -> None:
    if denied:
        bucket(jobs)
    calls = set_initial_no_auth_action_count(0 if denied else 1000)  # after them S3 knows no keys
    built = calls(jobs.build)("first")
    assert built.returncode == 0 and why in built.stdout, built.stdout
    assert f"warning: {CACHE}/torch-0123/0123-" in built.stdout and "could not be stored: " in built.stdout
    assert built.stdout.splitlines()[-1].endswith("; this cluster uses the packages all the same")
    assert jobs.overlay("check", jobs.ask("second", "greeting")).stdout == "ready\n"


def test_nothing_is_stored_of_a_failed_installation(jobs: Cluster, s3: Any) -> None:
    assert jobs.build("first", setup="false\n").returncode == 1
    assert list(s3.objects.all()) == []


@pytest.mark.parametrize("prefix", ["", None], ids=["users", "a cluster that we did not build"])
def test_a_cluster_that_keeps_none_says_nothing(jobs: Cluster, s3: Any, prefix: str | None) -> None:
    file = jobs.base.parent / ".recipe" / "environments" / "packages"
    file.unlink() if prefix is None else jobs.keep(prefix)
    built = jobs.build("first")
    assert built.returncode == 0 and built.stdout.splitlines()[-1] == "Successfully installed greeting-1.5"
    assert "s3://" not in built.stdout and list(s3.objects.all()) == []


def test_a_job_on_its_nodes_does_not_wait_for_storing(jobs: Cluster, s3: Any) -> None:
    """The head node, which comes after it, stores what the node installed."""
    jobs.env["SLURM_JOB_ID"] = "7"
    job = jobs.ask("job", "greeting")
    assert jobs.overlay("build", job).returncode == 0
    assert list(s3.objects.all()) == []
    del jobs.env["SLURM_JOB_ID"]
    assert "stored to" in jobs.overlay("build", job).stdout
    assert jobs.overlay("build", job).stdout == ""  # it is there
