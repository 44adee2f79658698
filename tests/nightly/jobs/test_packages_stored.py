"""Which jobs, nodes, folders and versions of CUDA get stored packages, with the real pip, tar and zstd."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from typing import Any

import pytest
from stubbed_jobs import wait_for
from test_packages_cached import Cluster, jobs, only, replaced_by_an_installation, s3
from test_packages_overlay import OVERLAY

SUBJECTS = [
    "gpucluster_job/packages/*",
    "gpucluster/submission/packages.py",
]
COVERED_BY = (
    "test_packages_cached.py: packages are restored, a cut archive, packages that cannot be stored; "
    "test_packages_overlay.py"
)
__all__ = ["jobs", "s3"]


def test_other_packages_and_other_environments_are_not_restored(jobs: Cluster, s3: Any) -> None:
    assert jobs.build("first").returncode == 0
    jobs.replace()
    other = jobs.build("other", key="4567")
    assert other.returncode == 1 and "4567-" in other.stdout and "is not in the cache" in other.stdout
    (jobs.base.parent / "torch").unlink()
    newer = jobs.base.rename(jobs.base.parent / "torch-4567")
    (jobs.base.parent / "torch").symlink_to(newer)
    (jobs.base.parent / ".wanted" / "torch").unlink()
    (jobs.base.parent / ".wanted" / "torch").symlink_to(newer)
    assert jobs.build("first", key="0123").returncode == 1


def test_packages_that_may_be_compiled_for_another_cuda_are_not_restored(jobs: Cluster, s3: Any) -> None:
    cuda = jobs.folder.parent / "cuda"
    jobs.env["CUDA_ROOT"] = str(cuda)
    for name in ("cuda", "cuda-12", "cuda-12.8"):
        (cuda / name).mkdir(parents=True)
    assert jobs.build("first").returncode == 0
    assert "-cuda-12-cuda-12.8.tar." in only(s3).key
    (cuda / "cuda-12.8").rename(cuda / "cuda-13.0")
    jobs.replace()
    assert jobs.overlay("check", jobs.ask("checked", "greeting")).stdout != "stored\n"


def test_a_node_restores_with_the_systems_python(jobs: Cluster, s3: Any) -> None:
    """In a job, python3 is that of the jobs' environment, which has no boto3."""
    assert jobs.build("first").returncode == 0
    jobs.replace()
    program = jobs.folder.parent / "bin" / "python3"
    program.parent.mkdir()
    program.write_text("#!/bin/sh\necho no boto3 >&2; exit 1\n")
    program.chmod(0o755)
    jobs.env["PATH"] = f"{program.parent}:{jobs.env.get('PATH', os.environ['PATH'])}"
    built = jobs.build("second")
    assert built.returncode == 0 and "restored from" in built.stdout, built.stdout + built.stderr


def test_a_file_that_changes_while_packages_are_stored_does_no_harm(jobs: Cluster, s3: Any) -> None:
    """GNU tar: "file changed as we read it", exit code 1. Any other failure stores nothing."""
    jobs.tar(f'{shutil.which("tar")} "$@"; exit 1')
    assert "stored to" in jobs.build("first").stdout
    assert only(s3).size > 0


def test_packages_of_another_folder_are_installed_anew(jobs: Cluster, s3: Any) -> None:
    """Their programs would start that folder's Python."""
    jobs.build("first")
    jobs.folder = jobs.folder.with_name("elsewhere")
    built = jobs.build("first")
    assert built.returncode == 0 and "it was installed in another folder, or with another Python" in built.stdout
    assert "Successfully installed greeting-1.5" in built.stdout


def test_a_folder_that_cannot_be_packed_is_not_stored(jobs: Cluster, s3: Any) -> None:
    """tar fails after most of the archive is written; S3 must not get that part."""
    jobs.tar('/bin/tar "$@" || exit\ncase " $* " in *" -cf "*) exit 2 ;; esac')
    built = jobs.build("first")
    assert built.returncode == 0 and "could not be stored: the folder cannot be packed" in built.stdout, built.stdout
    assert list(s3.objects.all()) == []


def test_jobs_use_packages_while_they_are_stored_and_prune_keeps_them(jobs: Cluster, s3: Any) -> None:
    wait = f"touch {jobs.folder}/storing; while [ ! -e {jobs.folder}/go ]; do sleep 0.05; done"
    jobs.tar(f'case " $* " in *" -cf "*) {wait} ;; esac\nexec /bin/tar "$@"')
    job = jobs.ask("first", "greeting")
    argv = [sys.executable, "-IS", str(OVERLAY), "build", str(job)]
    with subprocess.Popen(argv, env=jobs.env, stdout=subprocess.PIPE, text=True) as storing:
        try:
            wait_for((jobs.folder / "storing").exists)
            assert jobs.overlay("check", jobs.ask("second", "greeting")).stdout == "ready\n"
            jobs.env["SLURM_JOB_ID"] = "7"
            assert jobs.overlay("build", job).returncode == 0
            assert json.loads(jobs.overlay("prune", jobs.folder).stdout) == [] and jobs.place().exists()
            assert storing.poll() is None
        finally:
            (jobs.folder / "go").touch()
        assert storing.wait(30) == 0
    assert only(s3)
    assert json.loads(jobs.overlay("prune", jobs.folder).stdout) == [str(jobs.place())]


@pytest.mark.parametrize("content", [b"no archive", b""])
def test_a_file_that_is_no_archive_is_replaced_by_an_installation(jobs: Cluster, s3: Any, content: bytes) -> None:
    replaced_by_an_installation(jobs, s3, lambda _: content)
