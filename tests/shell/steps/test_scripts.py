"""Every shell script as nodes get it: it passes shellcheck, bash parses it, and it contains no template or program."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from gpucluster import config, render
from gpucluster.baking import recipe
from gpucluster.hardware.instances import INSTANCE_TYPES
from gpucluster.submission.upload import program

ROOT = Path(__file__).resolve().parents[3]
SHARED = sorted((ROOT / "bootstrap/lib").glob("*.sh"))
STEPS = sorted((ROOT / "bootstrap/steps").glob("*/*.sh"))
BUILDERS = sorted((ROOT / "bootstrap/environments").glob("*.sh"))
PROGRAMS = sorted([*(ROOT / "bootstrap/programs").glob("*/*"), ROOT / "bootstrap/environments/cxx17"])
IN_PYTHON = {"scratch-cache"}
CLUSTERS = sorted([ROOT / "cluster.yaml", *(ROOT / "examples").glob("*.yaml")])
SHELLCHECK = shutil.which("shellcheck", path=str(Path(sys.executable).parent)) or "shellcheck"
ROLES: tuple[render.Role, ...] = ("head", "compute")


@pytest.fixture(params=CLUSTERS, ids=lambda path: path.stem)
def rendered(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    """A folder with the bundle and both user data."""
    cluster = config.load(request.param)
    files = {**render.bundle(cluster), **{f"user-data-{role}.sh": render.user_data(cluster, role) for role in ROLES}}
    for name, text in files.items():
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return tmp_path


def shellcheck(*arguments: str | Path) -> str:
    """shellcheck's findings; empty if there are none."""
    done = subprocess.run([SHELLCHECK, "--format=gcc", *map(str, arguments)], capture_output=True, text=True)
    return done.stdout + done.stderr


def spelled_out(script: Path) -> Path:
    """Replaces file names that only bash can compute by paths, for shellcheck."""
    text = script.read_text()
    if installs := re.search(r"^readonly INSTALLS=\((.*)\)$", text, re.M):
        named = (f"run_step {name}" for name in installs[1].split())
        text = text.replace('run_step "$install"', "; ".join([*named, 'run_step "$install"']))
    libraries = r"^for library in ((?:.|\n)*?); do\n.*\ndone$"
    text = re.sub(libraries, lambda loop: _sourced(loop[1].split()), text, flags=re.M)
    text = re.sub(r"(?:run|try)_step (\w+)", lambda call: f"{_step(script, call[1])}; {call[0]}", text)
    script.write_text(text)
    return script


def _sourced(names: list[str]) -> str:
    return "\n".join(f'source "$BUNDLE/lib/{name}.sh"' for name in names if name != "\\")


def _step(script: Path, name: str) -> str:
    (found,) = script.parent.glob(f"steps/*/{name}.sh")
    return f'source "$BUNDLE/{found.relative_to(script.parent)}"'


def test_each_step_passes_shellcheck() -> None:
    """Finds unset lower-case variables, which the check of whole roles attributes to other files."""
    assert shellcheck("--shell=bash", "--exclude=SC1091", *SHARED, *STEPS, *BUILDERS) == ""


@pytest.mark.parametrize("script", ["job", "shards"])
def test_scripts_that_submit_lint_clean(script: str, tmp_path: Path) -> None:
    (tmp_path / script).write_text(program(script))
    assert shellcheck(tmp_path / script) == ""


def test_programs_pass_shellcheck() -> None:
    """Programs that steps install unchanged. The first line of each names its language, and none is skipped."""
    python = [path for path in PROGRAMS if path.read_text().startswith("#!/usr/bin/python3")]
    assert {path.name for path in python} == IN_PYTHON  # ruff knows them by pyproject.toml
    assert shellcheck("-x", "--source-path=SCRIPTDIR", *(path for path in PROGRAMS if path not in python)) == ""


def test_no_script_waits_for_the_first_of_several_programs() -> None:
    """`wait -n` of bash 5.2 misses a program that ends just as it begins to wait: 6 times in 45,000 on two busy cores.
    A job then waited until the program before it had reached its limit of 15 minutes."""
    found = [
        path for path in (*SHARED, *STEPS, *BUILDERS, *PROGRAMS) if re.search(r"^\s*wait -n", path.read_text(), re.M)
    ]
    assert found == []


def test_no_program_is_written_as_a_here_document(rendered: Path) -> None:
    """shellcheck cannot check a here-document. Only the user data, which must be one file, contains Python."""
    written = r"<<-?['\"]?(\w+)['\"]?\n(#!.*)\n"
    for path in rendered.rglob("*"):
        if path.is_file() and not path.name.startswith("user-data-"):
            assert not re.search(written, path.read_text()), path


def test_every_program_is_installed_by_a_step() -> None:
    """No step installs a program that does not exist."""
    text = "\n".join(path.read_text() for path in (*SHARED, *STEPS))
    named = {*re.findall(r"^ +put_program (\S+)$", text, re.M), *re.findall(r"/programs/(\w[^\"]*)\"", text)}
    folder = ROOT / "bootstrap/programs"
    assert named == {path.relative_to(folder).as_posix() for path in folder.glob("*/*")}


def test_rendered_scripts_pass_shellcheck(rendered: Path) -> None:
    """Finds an undefined header value."""
    scripts = [spelled_out(script) for script in sorted(rendered.glob("*.sh"))]
    found = shellcheck("-x", "-a", "--source-path=SCRIPTDIR", "-o", "check-unassigned-uppercase", *scripts)
    assert found == ""


@pytest.mark.parametrize("rendered", [ROOT / "examples/reference.yaml"], indirect=True)
def test_shellcheck_finds_a_header_value_that_nothing_defines(rendered: Path) -> None:
    cluster, head = rendered / "cluster.sh", rendered / "head.sh"
    cluster.write_text(cluster.read_text().replace("readonly ZONE=", "readonly ZONES="))
    found = shellcheck("-x", "-a", "--source-path=SCRIPTDIR", "-o", "check-unassigned-uppercase", spelled_out(head))
    assert "ZONE is referenced but not assigned" in found


def test_bash_can_parse_the_rendered_scripts(rendered: Path) -> None:
    for script in rendered.rglob("*.sh"):
        subprocess.run(["bash", "-n", str(script)], check=True)


def test_no_template_expression_is_left(rendered: Path) -> None:
    for path in rendered.rglob("*"):
        if path.is_file():
            text = path.read_text()
            assert not any(mark in text for mark in ("{{", "{%", "${Token[")), path


def test_the_script_that_bakes_an_image_passes_shellcheck(tmp_path: Path) -> None:
    extras = recipe.Extras(containers=True, storage=("efs", "fsx", "fsx-efa"))
    files = recipe.bundle("ami-0123456789abcdef0", INSTANCE_TYPES["g5.12xlarge"], extras)
    for name, text in files.items():
        (tmp_path / name).parent.mkdir(exist_ok=True, parents=True)
        (tmp_path / name).write_text(text)
    options = ("-x", "-a", "--source-path=SCRIPTDIR", "-o", "check-unassigned-uppercase")
    assert shellcheck(*options, spelled_out(tmp_path / "image.sh")) == ""


def test_build_wheels_passes_shellcheck() -> None:
    assert shellcheck("-x", "--source-path=SCRIPTDIR", ROOT / "bootstrap/build-wheels.sh") == ""


@pytest.mark.parametrize("role", ROLES)
def test_each_step_that_runs_has_its_own_file(rendered: Path, role: str) -> None:
    lines = (rendered / f"{role}.sh").read_text().splitlines()
    ran = [line.split()[1] for line in lines if line.startswith("run_step ")]
    assert ran
    for step in ran:
        (file,) = rendered.glob(f"steps/*/{step}.sh")
        assert f"step_{step}() {{" in file.read_text()


def test_no_two_files_of_steps_have_one_name() -> None:
    """run_step finds a step by its name, whatever its folder."""
    names = [path.name for path in (*SHARED, *STEPS, *BUILDERS)]
    assert len(names) == len(set(names))
