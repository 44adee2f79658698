"""Example jobs for users to copy: each is a folder of examples/ with a README.md, a job.yaml and its program."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from gpucluster import shipped

README, JOB = "README.md", "job.yaml"


@dataclass(frozen=True)
class Template:
    folder: Path

    @property
    def title(self) -> str:
        with (self.folder / README).open(encoding="utf-8") as stream:
            return stream.readline().lstrip("# ").rstrip()

    def texts(self) -> dict[str, str]:
        """The files by name. The commands in them work in the folder that the files are written to."""
        files = sorted(path for path in self.folder.iterdir() if path.is_file())
        here = f"examples/{self.folder.name}/"
        return {path.name: path.read_text(encoding="utf-8").replace(here, "") for path in files}


def templates() -> dict[str, Template]:
    folders = sorted(path.parent for path in (shipped.ROOT / "examples").glob(f"*/{README}"))
    return {folder.name: Template(folder) for folder in folders if (folder / JOB).exists()}
