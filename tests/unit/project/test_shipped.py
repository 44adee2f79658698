"""Where files lie, in a checkout and in an installation; what to type to get what is not installed."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from importlib import metadata
from pathlib import Path
from types import SimpleNamespace

import pytest

from gpucluster import shipped
from gpucluster.cli import main
from gpucluster.cluster import cdk
from gpucluster.config import load
from gpucluster.errors import UsageError

ROOT = Path(__file__).resolve().parents[3]


def installed(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(shipped, "INSTALLED", True)
    monkeypatch.setattr(shipped, "CACHE", tmp_path / "cache")


@pytest.mark.parametrize(
    ("noted", "requirement", "local"),
    [
        ({"url": "file:///a%20b/gpucluster-1.whl"}, "/a b/gpucluster-1.whl[cdk]", "/a b/gpucluster_localcloud-1.whl"),
        (
            {"url": "file:///src/gpucluster-x/dist/gpucluster-1.whl"},
            "/src/gpucluster-x/dist/gpucluster-1.whl[cdk]",
            "/src/gpucluster-x/dist/gpucluster_localcloud-1.whl",
        ),
        ({"url": "file:///src/gpucluster", "dir_info": {}}, "/src/gpucluster[cdk]", "/src/gpucluster/localcloud"),
        (
            {"url": "https://host/gpucluster-1.whl"},
            "https://host/gpucluster-1.whl[cdk]",
            "https://host/gpucluster_localcloud-1.whl",
        ),
        (None, "PATH/OF/gpucluster-1.2-py3-none-any.whl[cdk]", "PATH/OF/gpucluster_localcloud-1.2-py3-none-any.whl"),
    ],
)
def test_a_hint_names_what_was_installed_from(
    noted: dict[str, object] | None, requirement: str, local: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    text = json.dumps(noted) if noted else None
    found = SimpleNamespace(version="1.2", read_text=lambda name: text)
    monkeypatch.setattr(metadata, "distribution", lambda name: found)
    installed(monkeypatch, tmp_path)
    assert shipped.how_to_install("cdk") == f"pip install '{requirement}'"
    assert shipped.how_to_install_local_cloud() == f"pip install '{local}'"


def test_in_a_checkout_the_hint_is_make() -> None:
    assert shipped.how_to_install("cdk") == f"make setup in {ROOT}"


def test_no_hint_names_a_package_that_may_be_somebody_elses() -> None:
    words = ("pip install gpucluster", "pip install 'gpucluster", 'pip install "gpucluster')
    texts = [
        *ROOT.glob("*.md"),
        *ROOT.glob("docs/**/*.md"),
        *ROOT.glob("localcloud/docs/*.md"),
        *ROOT.glob("gpucluster/**/*.py"),
        *ROOT.glob("localcloud/**/*.py"),
    ]
    assert len(texts) > 100
    assert [str(path) for path in texts if any(word in path.read_text() for word in words)] == []


def test_one_module_computes_where_the_checkout_is() -> None:
    found = [path.name for path in ROOT.glob("gpucluster/**/*.py") if ".parents[" in path.read_text()]
    assert found == []


def test_an_installation_keeps_cdks_context_beside_the_cluster_file(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    assert cdk.context_file(tmp_path / "cluster.yaml") == ROOT / "cdk.context.json"
    installed(monkeypatch, tmp_path)
    assert cdk.context_file(tmp_path / "cluster.yaml") == tmp_path / "cdk.context.json"


def test_an_installation_runs_the_app_that_came_with_it(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    installed(monkeypatch, tmp_path)
    cli = cdk.folder() / cdk.CLI
    assert cli == tmp_path / "cache" / "cdk" / "2.1148.1" / "node_modules/aws-cdk/bin/cdk"
    cli.parent.mkdir(parents=True)
    cli.touch()
    argv = cdk.argv("deploy", "A", config_file=tmp_path / "cluster.yaml", assembly=tmp_path / "out")
    assert argv[1] == str(cli)
    assert argv[argv.index("--app") + 1] == f"{sys.executable} {ROOT}/app.py"


def test_the_command_line_is_fetched_once(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """npm is played; tests/cloud/test_wheel.py runs the real one."""
    installed(monkeypatch, tmp_path)
    made = "import pathlib; p = pathlib.Path('node_modules/aws-cdk/bin'); p.mkdir(parents=True); (p / 'cdk').touch()"
    made += "; assert pathlib.Path('package-lock.json').exists()"
    monkeypatch.setattr(cdk, "_npm", lambda: [sys.executable, "-c", made])
    messages: list[str] = []
    cdk.fetch(messages.append)
    cdk.fetch(messages.append)
    assert messages == [f"downloading the CDK command line, aws-cdk 2.1148.1, once, into {cdk.folder()}"]
    assert [path.name for path in (tmp_path / "cache" / "cdk").iterdir()] == ["2.1148.1"]


def test_npms_error_is_shown_and_nothing_is_left(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    installed(monkeypatch, tmp_path)
    monkeypatch.setattr(cdk, "_npm", lambda: [sys.executable, "-c", "raise SystemExit('npm error network')"])
    with pytest.raises(UsageError, match="npm error network"):
        cdk.fetch(lambda line: None)
    assert list((tmp_path / "cache" / "cdk").iterdir()) == []


def test_init_starts_from_an_example(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["init", "--example", "g5-spot", str(tmp_path / "a.yaml")]) == 0
    assert load(tmp_path / "a.yaml").name
    assert main(["init", "--example", "g6", str(tmp_path / "b.yaml")]) == 2
    assert "there are g5-spot, no-internet, p3-beegfs-mxnet" in capsys.readouterr().err


def test_a_wheel_has_every_file_that_git_has(tmp_path: Path) -> None:
    """The build step alone, in milliseconds; tests/cloud/test_wheel.py installs a wheel."""
    listed = subprocess.run(
        [sys.executable, "-c", "import setuptools; setuptools.setup = lambda **given: None; import setup; "
         "print(*setup.data_files(), sep=chr(10))"],
        cwd=ROOT, capture_output=True, text=True, check=True, timeout=60,
    ).stdout.split()  # fmt: skip
    if not shutil.which("git") or not (ROOT / ".git").exists():
        pytest.skip("no git repository")
    folders = ["bootstrap", "examples", "stacks", "templates", "app.py", "cdk.json"]
    command = ["git", "ls-files", "--cached", *folders]
    known = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout.split()
    assert sorted(set(known) - set(listed)) == []


@pytest.fixture
def fresh(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """A user's empty cache."""
    monkeypatch.setattr(shipped, "CACHE", tmp_path / "cache")
    return tmp_path / "cache"


def written(folder: Path, text: str) -> str:
    (folder / "a.j2").write_text(text)
    return shipped.templates.__wrapped__(folder).get_template("a.j2").render(name="b c")


def test_templates_are_compiled_once_and_again_when_they_change(fresh: Path, tmp_path: Path) -> None:
    assert written(tmp_path, "{{ name | sh }}") == "'b c'"
    (kept,) = (fresh / "templates").iterdir()
    before = kept.stat().st_mtime_ns
    assert written(tmp_path, "{{ name | sh }}") == "'b c'"
    assert kept.stat().st_mtime_ns == before
    assert written(tmp_path, "{{ name }}") == "b c"


def test_without_a_cache_templates_are_rendered_all_the_same(fresh: Path, tmp_path: Path) -> None:
    fresh.write_text("a file where the folder should be")
    assert written(tmp_path, "{{ name }}") == "b c"
