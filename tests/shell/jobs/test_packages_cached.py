"""A job's own packages are stored by one cluster and restored by the next: the real pip, tar and zstd, and moto's S3.

The next cluster has an index without wheels, so its packages can only come from the cache.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from moto.core import set_initial_no_auth_action_count
from stubbed_jobs import wait_for
from test_packages_from_s3 import bucket, served
from test_packages_overlay import OVERLAY, SHOW, Jobs

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


@pytest.mark.parametrize("broken", ["cut", "nonsense", "empty"])
def test_a_broken_archive_is_replaced_by_an_installation(jobs: Cluster, s3: Any, broken: str) -> None:
    jobs.build("first", setup="head -c 300000 /dev/urandom >noise\n")
    whole = only(s3).get()["Body"].read()
    only(s3).put(Body={"cut": whole[:-200000], "nonsense": b"no archive", "empty": b""}[broken])
    shutil.rmtree(jobs.folder)
    built = jobs.build("second", setup="! [ -e noise ]\n")
    assert built.returncode == 0 and "could not be restored: the archive is broken" in built.stdout, built.stdout
    assert "Successfully installed greeting-1.5" in built.stdout
    assert not (jobs.place() / "code" / "noise").exists() and jobs.shown() == "1.5 2.13.0+cpu 1.0\n"
    jobs.replace()
    assert "restored from" in jobs.build("third").stdout  # the installation replaced the broken archive


def test_packages_of_another_folder_are_installed_anew(jobs: Cluster, s3: Any) -> None:
    """Their programs would start that folder's Python."""
    jobs.build("first")
    jobs.folder = jobs.folder.with_name("elsewhere")
    built = jobs.build("first")
    assert built.returncode == 0 and "it was installed in another folder, or with another Python" in built.stdout
    assert "Successfully installed greeting-1.5" in built.stdout


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


def test_a_folder_that_cannot_be_packed_is_not_stored(jobs: Cluster, s3: Any) -> None:
    """tar fails after most of the archive is written; S3 must not get that part."""
    jobs.tar('/bin/tar "$@" || exit\ncase " $* " in *" -cf "*) exit 2 ;; esac')
    built = jobs.build("first")
    assert built.returncode == 0 and "could not be stored: the folder cannot be packed" in built.stdout, built.stdout
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
