"""What the wheel has beyond its packages: folders of this checkout, as gpucluster/_data. The rest: pyproject.toml."""

from __future__ import annotations

import shutil
from pathlib import Path

from setuptools import setup
from setuptools.command.build_py import build_py

ROOT = Path(__file__).resolve().parent
DATA = "gpucluster/_data"
FOLDERS = ("bootstrap", "examples", "stacks", "templates")
FILES = ("app.py", "cdk.json", "package.json", "package-lock.json")


def data_files() -> list[str]:
    """Relative to the checkout. By folder, so that a file that moves or comes needs nothing here."""
    found = (path for folder in FOLDERS for path in sorted((ROOT / folder).rglob("*")) if path.is_file())
    return [*FILES, *(str(path.relative_to(ROOT)) for path in found if path.parent.name != "__pycache__")]


class WithData(build_py):
    def run(self) -> None:
        if not self.editable_mode:
            shutil.rmtree(self.build_lib, ignore_errors=True)  # of an earlier build, with files that are no more
        super().run()
        if not self.editable_mode:
            for name in data_files():
                target = Path(self.build_lib, DATA, name)
                target.parent.mkdir(parents=True, exist_ok=True)
                shutil.copy(ROOT / name, target)

    def get_source_files(self) -> list[str]:
        """For a source distribution, of which a wheel can be built in turn."""
        return [*super().get_source_files(), *data_files()]


setup(cmdclass={"build_py": WithData})
