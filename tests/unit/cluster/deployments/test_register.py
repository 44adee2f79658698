"""The clusters that `up` created from the files of a folder."""

from __future__ import annotations

from pathlib import Path

import pytest

from gpucluster.cluster import local_cloud, register
from gpucluster.errors import UsageError

HERE = {"name": "A", "region": "us-east-1", "account": "111111111111"}


@pytest.fixture
def file(tmp_path: Path) -> Path:
    found = tmp_path / "cluster.yaml"
    found.touch()
    register.add(found, **HERE)
    return found


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({}, None),
        ({"name": "B"}, None),  # another cluster, which may be created
        ({"region": "us-west-2"}, "region: A is in us-east-1, and cannot move to us-west-2"),
        ({"account": "222222222222"}, "account 111111111111, and your AWS credentials are of account 222222222222"),
        ({"region": "eu-west-1", "account": "222222222222"}, "your AWS credentials are of account 222222222222"),
    ],
)
def test_a_cluster_elsewhere_is_not_this_one(file: Path, changed: dict[str, str], message: str | None) -> None:
    if message is None:
        return register.refuse_another(file, **(HERE | changed))
    with pytest.raises(UsageError) as refused:
        register.refuse_another(file, **(HERE | changed))
    assert message in refused.value.message and str(register.path(file)) in str(refused.value.hint)


def test_a_local_cluster_of_the_same_name_needs_another_folder(file: Path) -> None:
    with pytest.raises(UsageError) as refused:
        register.refuse_local(file, name="A", region="us-east-1")
    said = f"{refused.value.message} {refused.value.hint}"
    assert "account 111111111111, and commands would no longer reach it" in said and "in another folder" in said
    assert "credentials" not in said
    register.add(file, name="L", region="us-east-1", account=local_cloud.ACCOUNT)
    register.refuse_local(file, name="L", region="us-east-1")


def test_without_an_entry_nothing_is_refused(tmp_path: Path) -> None:
    register.refuse_another(tmp_path / "cluster.yaml", **HERE)


def test_clusters_of_other_files_do_not_count_unless_the_file_is_gone(file: Path) -> None:
    other = file.with_name("other.yaml")
    other.touch()
    assert register.read(other) == []
    file.rename(file.with_name("renamed.yaml"))
    assert [entry.name for entry in register.read(other)] == ["A"]


def test_one_cluster_is_one_entry_until_it_is_deleted(file: Path) -> None:
    register.add(file, **HERE)
    register.add(file, **(HERE | {"name": "B"}))
    assert [entry.name for entry in register.read(file)] == ["A", "B"]
    register.remove(file, **HERE)
    assert [entry.name for entry in register.read(file)] == ["B"]


@pytest.mark.parametrize("text", ["", "{", "[1]", '[{"file": "x"}]', "{}x"])
def test_a_broken_register_is_named(file: Path, text: str) -> None:
    register.path(file).write_text(text)
    with pytest.raises(UsageError, match="clusters.json: cannot be read"):
        register.read(file)
