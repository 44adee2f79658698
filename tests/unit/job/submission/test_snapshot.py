"""Which files travel with a job: with real git repositories, submodules and links."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from gpucluster.cli import main
from gpucluster.cli.reach.claimed import claim
from gpucluster.errors import UsageError
from gpucluster.submission.snapshot import code_files, leading_out
from gpucluster.submission.task import code_key

CLUSTER = "name: Test\nregion: us-east-1\npartitions: [{name: train, instance_types: [g5.12xlarge], max_nodes: 4}]\n"
AS_NOBODY = {
    "GIT_CONFIG_GLOBAL": os.devnull,
    "GIT_CONFIG_SYSTEM": os.devnull,
    **{f"GIT_{who}_{what}": "a@b" for who in ("AUTHOR", "COMMITTER") for what in ("NAME", "EMAIL")},
}


@pytest.fixture(autouse=True)
def own_git(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in AS_NOBODY.items():
        monkeypatch.setenv(name, value)


def git(folder: Path, *words: str) -> None:
    allow = ("-c", "protocol.file.allow=always")
    subprocess.run(["git", "-C", str(folder), *allow, *words], check=True, capture_output=True)


def repository(folder: Path, **files: str) -> Path:
    folder.mkdir()
    git(folder, "init", "-q")
    for name, text in files.items():
        (folder / name).write_text(text)
    git(folder, "add", ".")
    git(folder, "commit", "-qm", "x", "--allow-empty")
    return folder


@pytest.fixture
def workdir(tmp_path: Path) -> Path:
    third = repository(tmp_path / "third", lib="x")
    folder = repository(tmp_path / "work", train="x")
    git(folder, "submodule", "add", "-q", str(third), "third")
    return folder


def taken(workdir: Path) -> set[str]:
    return set(map(str, code_files(workdir)))


def test_files_of_submodules_travel(workdir: Path) -> None:
    (workdir / "third" / "new").write_text("not committed")
    assert taken(workdir) == {".gitmodules", "train", "third/lib", "third/new"}


def test_a_submodule_that_is_not_checked_out_is_refused(workdir: Path) -> None:
    git(workdir, "submodule", "deinit", "--force", "third")
    with pytest.raises(UsageError, match="the submodule third is not checked out") as caught:
        code_files(workdir)
    assert caught.value.hint == f"git -C {workdir} submodule update --init --recursive"


def test_a_repository_in_it_that_is_no_submodule_travels_too(tmp_path: Path) -> None:
    repository(tmp_path / "work")
    repository(tmp_path / "work" / "inner", a="x")
    assert taken(tmp_path / "work") == {"inner/a"}


@pytest.mark.parametrize("tracked", [True, False])
def test_our_own_records_are_not_uploaded(tmp_path: Path, tracked: bool) -> None:
    folder = repository(tmp_path / "work", train="x") if tracked else tmp_path
    (folder / "train").write_text("x")
    (folder / ".gpucluster").mkdir()
    (folder / ".gpucluster" / "GpuCluster.json").write_text("a key")
    assert taken(folder) == {"train"}


@pytest.mark.parametrize("tracked", [True, False])
def test_a_fetched_folder_neither_travels_nor_changes_the_codes_key(tmp_path: Path, tracked: bool) -> None:
    folder = repository(tmp_path / "work", train="x") if tracked else tmp_path
    (folder / "train").write_text("x")
    before = code_key(folder)
    fetched = folder / "runs" / "small-20261123-010203-4f1a"
    claim(fetched, "/home/ubuntu/jobs/small-20261123-010203-4f1a")
    (fetched / "code").mkdir()
    (fetched / "code" / "train").write_text("older")
    assert (taken(folder), code_key(folder)) == ({"train"}, before)
    # A job may be submitted again from what was fetched.
    assert taken(fetched / "code") == {"train"}
    assert taken(fetched) == {".gitignore", "code/train"}
    git(fetched / "code", "init", "-q")
    (fetched / "code" / ".gitignore").write_text("train\n")
    assert taken(fetched / "code") == {".gitignore"}


def test_a_folder_whose_own_list_hides_everything_travels_without_git(tmp_path: Path) -> None:
    (tmp_path / "cache").mkdir()
    (tmp_path / "cache" / ".gitignore").write_text("*\n")
    assert taken(tmp_path) == {"cache/.gitignore"}


def test_a_repository_of_another_user_is_not_treated_as_a_folder_without_git(
    workdir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GIT_TEST_ASSUME_DIFFERENT_OWNER", "1")
    with pytest.raises(UsageError, match="dubious ownership") as caught:
        code_files(workdir)
    assert caught.value.hint == f"git config --global --add safe.directory {workdir}"


@pytest.mark.parametrize("tracked", [True, False])
def test_links_that_lead_out_are_named_and_travel_as_links(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tracked: bool
) -> None:
    folder = repository(tmp_path / "work") if tracked else tmp_path / "work"
    folder.mkdir(exist_ok=True)
    (folder / "train.py").write_text("x")
    (folder / "cluster.yaml").write_text(CLUSTER)
    (tmp_path / "big").mkdir()
    (folder / "data").symlink_to(tmp_path / "big")
    (folder / "same").symlink_to("train.py")
    assert list(leading_out(folder)) == [f"data -> {tmp_path}/big"]
    monkeypatch.chdir(folder)
    assert main(["submit", "--emit-only", str(tmp_path / "job"), "--", "python", "train.py"]) == 0
    assert f"warning: the link data -> {tmp_path}/big points outside the workdir" in capsys.readouterr().err
    assert os.readlink(tmp_path / "job" / "code" / "data") == str(tmp_path / "big")


def test_a_job_folder_that_cannot_be_written_leaves_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "cluster.yaml").write_text(CLUSTER)
    (tmp_path / "train.py").write_text("x")
    (tmp_path / "file").write_text("in the way")
    monkeypatch.chdir(tmp_path)
    assert main(["submit", "--emit-only", "file/job", "--", "python", "train.py"]) == 2
    assert capsys.readouterr().err.startswith("error: --emit-only file/job: cannot be written: Not a directory")
