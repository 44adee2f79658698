"""`gpucluster types`."""

from __future__ import annotations

import json

import pytest

from gpucluster.cli import main

Captured = pytest.CaptureFixture[str]


def test_a_family_and_a_type_are_listed(capsys: Captured) -> None:
    assert main(["types", "p5", "g5.12xlarge"]) == 0
    rows = [line.split()[0] for line in capsys.readouterr().out.splitlines()]
    assert rows == ["type", "p5.4xlarge", "p5.48xlarge", "g5.12xlarge"]


def test_types_are_chosen_by_gpus_and_efa(capsys: Captured) -> None:
    assert main(["types", "--gpus", "8", "--efa", "--json"]) == 0
    types = json.loads(capsys.readouterr().out)["types"]
    names = {each["name"] for each in types}
    assert {"p4d.24xlarge", "p5.48xlarge"} <= names and "p3.16xlarge" not in names
    assert all(each["gpus"] == 8 and each["efa_interfaces"] for each in types)


def test_no_type_that_fits_is_said(capsys: Captured) -> None:
    assert main(["types", "--gpus", "3"]) == 0
    assert capsys.readouterr() == ("", "no instance type with 3 GPUs\n")
    assert main(["types", "g5.xlarge", "p3", "--gpus", "1", "--efa"]) == 0
    assert capsys.readouterr() == ("", "no instance type with 1 GPU and EFA among g5.xlarge, p3\n")
    assert main(["types", "p3.2xlarge", "--efa", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["types"] == []


def test_an_unknown_type_is_refused_with_a_hint(capsys: Captured) -> None:
    assert main(["types", "p5.48xlrge"]) == 2
    assert "did you mean 'p5.48xlarge'" in capsys.readouterr().err
    assert main(["types", "g5xlarge"]) == 2
    assert "did you mean 'g5.xlarge'" in capsys.readouterr().err
    assert main(["types", "z9"]) == 2
    assert "`gpucluster types --all` lists all" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("name", "why"),
    [
        ("g5g.xlarge", "Arm"),
        ("p6e-gb200.36xlarge", "Arm"),
        ("trn1", "not GPUs"),
        ("trn1.32xlarge", "not GPUs"),
        ("g7e", "no drivers"),
        ("mac2-m2.metal", "macOS"),
        ("t3.nano", "less than 4; the smallest of its family that GpuCluster supports is t3.medium"),
    ],
)
def test_an_unsupported_type_is_named_as_such(capsys: Captured, name: str, why: str) -> None:
    """It exists on AWS, so a similar name is no help."""
    assert main(["types", name]) == 2
    message = capsys.readouterr().err
    assert f"{name}: GpuCluster does not support" in message
    assert why in message
    assert "did you mean" not in message


def test_the_newest_gpus_come_first(capsys: Captured) -> None:
    assert main(["types"]) == 0
    names = [line.split()[0] for line in capsys.readouterr().out.splitlines()]
    families = list(dict.fromkeys(name.partition(".")[0] for name in names[1:]))
    assert families[:9] == ["p6-b300", "p6-b200", "p5en", "p5e", "p5", "p4de", "p4d", "p3dn", "p3"]
    assert families[9:] == ["gr6", "g6e", "g6", "g5", "g4dn"]


def test_types_without_gpus_are_listed_when_they_are_asked_for(capsys: Captured) -> None:
    assert main(["types"]) == 0
    out, err = capsys.readouterr()
    assert "c7i" not in out and "types without GPUs: `gpucluster types --all`" in err
    for words in (["--all"], ["c7i"], ["--gpus", "0"]):
        assert main(["types", *words]) == 0
        out, err = capsys.readouterr()
        assert "c7i.xlarge" in out and "--all" not in err
    names = [line.split()[0] for line in out.splitlines()[1:]]
    assert "g5.xlarge" not in names and names.index("c8i.large") < names.index("c7i.large") < names.index("m8i.large")
