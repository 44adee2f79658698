"""/etc/environment of an image: its lines reach the steps and the node programs, and no line ends the boot."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from test_steps import BOOTSTRAP, source_of

from gpucluster import config, render
from gpucluster.baking import recipe
from gpucluster.hardware.instances import INSTANCE_TYPES

ROLES = ("head", "compute", "image", "beegfs")
SYSTEM_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"


def exported(folder: Path, text: str) -> dict[str, str]:
    """Raises CalledProcessError if the function ends the script around it."""
    (folder / "environment").write_text(text)
    library = source_of("machine_environment").read_text().replace("/etc/environment", str(folder / "environment"))
    dump = f"{sys.executable} -c 'import json, os; print(json.dumps(dict(os.environ)))'"
    script = f"set -euo pipefail\nreadonly ROLE=head\n{library}\nmachine_environment\n{dump}\n"
    done = subprocess.run(["bash", "-c", script], env={"PATH": os.environ["PATH"]}, capture_output=True, check=True)
    assert done.stderr == b""
    return dict(json.loads(done.stdout.splitlines()[-1]))


@pytest.mark.parametrize(
    ("line", "variable", "value"),
    [
        ("LD_LIBRARY_PATH=/x:$LD_LIBRARY_PATH", "LD_LIBRARY_PATH", "/x:$LD_LIBRARY_PATH"),
        ("A=b c", "A", "b c"),
        ("A=$(touch /tmp/x) `id`", "A", "$(touch /tmp/x) `id`"),
        ('A="two words"', "A", "two words"),
        ("A='it's'", "A", "it's"),
        ("export A=1", "A", "1"),
        ("  A=1  \r", "A", "1"),
        ("A=1 # a comment", "A", "1"),
        ("A=", "A", ""),
        ("A==", "A", "="),
        ("# A=1", "A", None),
        ("a-b=1", "a-b", None),
        ("if [ -e /x ]; then", "if", None),
        ("exit 3", "exit", None),
        ("A=(1 2", "A", "(1 2"),
        ("ROLE=compute", "ROLE", None),
        ("UID=7", "UID", None),
        ("SHELLOPTS=xtrace", "SHELLOPTS", None),
        ("A=\\", "A", "\\"),
    ],
)  # fmt: skip
def test_a_line_is_read_as_pam_reads_it(tmp_path: Path, line: str, variable: str, value: str | None) -> None:
    """linux-pam, modules/pam_env/pam_env.c: _parse_env_file."""
    found = exported(tmp_path, f"B=before\n{line}\nC=last, without a line break")
    assert found.get(variable) == value
    assert (found["B"], found["C"]) == ("before", "last, without a line break")
    assert not {"line", "name"} & found.keys()


@pytest.mark.parametrize("path", ["/opt/amazon/bin:$PATH", "/opt/amazon/bin", '"/opt/amazon/bin"'])
def test_the_systems_commands_are_found_whatever_the_path_is(tmp_path: Path, path: str) -> None:
    found = exported(tmp_path, f"PATH={path}\n")["PATH"]
    assert found.split(":")[0] == "/opt/amazon/bin" and found.endswith(f":{SYSTEM_PATH}")


def test_an_image_without_the_file_boots(tmp_path: Path) -> None:
    library = source_of("machine_environment").read_text().replace("/etc/environment", str(tmp_path / "none"))
    subprocess.run(["bash", "-euc", f"{library}\nmachine_environment"], check=True)


@pytest.mark.parametrize("role", ROLES)
def test_a_role_reads_it_when_a_failure_can_be_reported_and_its_own_values_win(role: str) -> None:
    lines = (BOOTSTRAP / f"{role}.sh.j2").read_text().splitlines()
    read = lines.index("machine_environment")
    assert any(line.startswith("report_failure()") for line in lines[:read])
    assert not [line for line in lines[:read] if line.startswith("export ")]
    assert not [line for line in lines[read:] if line.startswith(("source ", "for library"))]


def test_every_bundle_has_the_function() -> None:
    text = "name: c\nregion: us-east-1\npartitions: [{name: train, instance_types: [g5.xlarge], max_nodes: 1}]\n"
    assert "lib/machine_environment.sh" in render.bundle(config.loads(text))
    assert "lib/machine_environment.sh" in recipe.bundle("ami-0123456789abcdef0", INSTANCE_TYPES["m6i.large"])


def test_no_program_sources_the_file() -> None:
    scripts = [path for path in BOOTSTRAP.rglob("*") if path.is_file() and path.suffix not in (".py", ".txt", ".pyc")]
    assert not [path for path in scripts if "source /etc/environment" in path.read_text()]
    assert not [path for path in scripts if ". /etc/environment" in path.read_text()]


def test_node_programs_get_it(tmp_path: Path) -> None:
    (tmp_path / "lib").mkdir()
    (tmp_path / "environment").write_text("AWS_ENDPOINT_URL=http://x/?a b\nHOME=$HOME/y\n")
    library = source_of("machine_environment").read_text().replace("/etc/environment", str(tmp_path / "environment"))
    (tmp_path / "lib/machine_environment.sh").write_text(library)
    (tmp_path / "cluster.sh").write_text("readonly REGION=eu-west-1\n")
    (tmp_path / "gpucluster_node").mkdir()
    (tmp_path / "gpucluster_node/say.py").write_text(
        "import os, sys; print(os.environ['AWS_ENDPOINT_URL'], os.environ['AWS_DEFAULT_REGION'], sys.argv[1:])\n"
    )
    program = (BOOTSTRAP / "programs/bin/node-program").read_text().replace("/opt/gpucluster/bundle", str(tmp_path))
    done = subprocess.run(["bash", "-c", program, "node-program", "say", "a b"], capture_output=True, text=True)
    assert done.stdout == "http://x/?a b eu-west-1 ['a b']\n", done.stderr
