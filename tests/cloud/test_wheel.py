"""The wheel, in its own virtual environment and folder, without the checkout: every verb that needs no cluster.

Built and installed here; its dependencies are those of the environment that runs the tests.
tests/nightly/test_wheel_installed.py installs those as well, fetches the CDK command line, and boots a cluster.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import sysconfig
import venv
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
OURS = ("GPUCLUSTER_CONFIG", "PYTHONPATH", "VIRTUAL_ENV", "AWS_PROFILE", "AWS_ACCESS_KEY_ID")


@dataclass(frozen=True)
class Installation:
    python: Path
    folder: Path

    def run(self, command: Sequence[str | Path], **more: str) -> subprocess.CompletedProcess[str]:
        environment = {name: value for name, value in os.environ.items() if name not in OURS}
        environment |= {"HOME": str(self.folder), "PATH": f"{self.python.parent}:/usr/bin:/bin:/usr/sbin:/sbin", **more}
        return subprocess.run(
            [*map(str, command)],
            cwd=self.folder,
            env=environment,
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )

    def verb(self, *words: str | Path) -> str:
        """Its standard output."""
        done = self.run([self.python.parent / "gpucluster", *words])
        assert done.returncode == 0, done.stderr
        return done.stdout


@pytest.fixture(scope="module")
def installation(tmp_path_factory: pytest.TempPathFactory) -> Installation:
    base = tmp_path_factory.mktemp("wheel")
    pip = [sys.executable, "-m", "pip", "--quiet", "--disable-pip-version-check"]
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    build = [*pip, "wheel", "--no-deps", "--wheel-dir", str(base), str(ROOT)]
    subprocess.run(build, check=True, env=environment, timeout=300)
    venv.create(base / "venv", symlinks=True)
    python = base / "venv" / "bin" / "python"
    own = next((base / "venv" / "lib").glob("python*")) / "site-packages"
    install = [*pip, "--python", str(python), "install", "--no-deps", *map(str, base.glob("gpucluster-*.whl"))]
    subprocess.run(install, check=True, env=environment, timeout=120)
    # As a folder of modules: its .pth files, of which one leads to the checkout, are not read.
    (own / "dependencies.pth").write_text(sysconfig.get_path("purelib") + "\n")
    (base / "empty").mkdir()
    return Installation(python, base / "empty")


def test_the_wheel_is_used_instead_of_the_checkout(installation: Installation) -> None:
    done = installation.run([installation.python, "-c", "from gpucluster import shipped; print(shipped.ROOT)"])
    assert done.stdout.strip().endswith("site-packages/gpucluster/_data"), done.stderr


def test_init_validate_render_and_a_job_folder(installation: Installation) -> None:
    folder = installation.folder
    assert installation.verb("init") == "cluster.yaml\n"
    assert ": ok: GpuCluster in us-east-1" in installation.verb("validate")
    assert "g5.12xlarge" in installation.verb("plan")
    installation.verb("render", "rendered")
    (folder / "train.py").write_text("print()\n")
    script = installation.verb("submit", "--nodes", "2", "--dry-run", "--", "python", "train.py")
    assert subprocess.run(["bash", "-n"], input=script, text=True, check=False).returncode == 0
    installation.verb("submit", "--nodes", "2", "--emit-only", "job", "--", "python", "train.py")
    assert (folder / "job" / "code" / "train.py").exists()
    assert (folder / "job" / "job.sbatch").stat().st_size > 1000


def test_the_wheel_contains_templates(installation: Installation) -> None:
    assert installation.verb("init", "--template", "fsdp") == "fsdp\n"
    script = installation.verb("-c", "fsdp/cluster.yaml", "submit", "fsdp/job.yaml", "--dry-run")
    assert subprocess.run(["bash", "-n"], input=script, text=True, check=False).returncode == 0


def test_the_wheel_contains_the_page(installation: Installation) -> None:
    program = """
from importlib.resources import files
from gpucluster.ui import pages
page = files("gpucluster.ui")
print(*sorted(each.name for each in (page / "assets" / "vendored").iterdir()))
print((page / "assets" / "page.css").is_file(), len(pages.ENVIRONMENT.list_templates()))
"""
    done = installation.run([installation.python, "-c", program])
    assert done.returncode == 0, done.stderr
    vendored, rest = done.stdout.splitlines()
    assert vendored.split() == sorted(each.name for each in (ROOT / "gpucluster/ui/assets/vendored").iterdir())
    assert rest == f"True {len([*(ROOT / 'gpucluster/ui/templates').rglob('*.html')])}"


def test_the_wheel_renders_the_same_bundle(installation: Installation, tmp_path: Path) -> None:
    command = [sys.executable, "-m", "gpucluster.cli", "-c", str(ROOT / "cluster.yaml"), "render"]
    subprocess.run([*command, str(tmp_path / "theirs")], check=True, cwd=ROOT, capture_output=True, timeout=60)
    installation.verb("-c", ROOT / "cluster.yaml", "render", tmp_path / "ours")
    assert files(tmp_path / "ours") == files(tmp_path / "theirs")


def files(folder: Path) -> dict[str, str]:
    return {str(path.relative_to(folder)): path.read_text() for path in folder.rglob("*") if path.is_file()}


def test_the_wheels_cdk_app_synthesizes(installation: Installation) -> None:
    """With the CDK library of the tests' environment, and without credentials: nothing is left for CDK to look up."""
    found = installation.run([installation.python, "-c", "from gpucluster import shipped; print(shipped.ROOT)"])
    out = installation.folder / "cdk.out"
    installation.verb("init", "synth.yaml")
    done = installation.run(
        [installation.python, f"{found.stdout.strip()}/app.py"],
        CDK_OUTDIR=str(out), CDK_VALIDATION="false", GPUCLUSTER_CONFIG="synth.yaml",
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert done.stderr.startswith("warning: no AWS credentials: zones and images in the template are placeholders")
    assert "missing" not in json.loads((out / "manifest.json").read_text())
    assert "Resources" in json.loads((out / "GpuCluster.template.json").read_text())


def test_a_missing_dependency_is_named_with_the_wheel_to_install(installation: Installation) -> None:
    """In an environment without any dependency."""
    program = "import sys; sys.modules['localcloud'] = None; from gpucluster import shipped as s; "
    program += "print(s.how_to_install('cdk')); print(s.how_to_install_local_cloud())"
    commands = installation.run([installation.python, "-c", program]).stdout.splitlines()
    wheel = f"{installation.folder.parent}/gpucluster"
    assert commands == [
        f"pip install '{wheel}-0.1.0-py3-none-any.whl[cdk]'",
        f"pip install '{wheel}_localcloud-0.1.0-py3-none-any.whl'",
    ]
