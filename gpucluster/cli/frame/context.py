"""What every verb gets (`@click.pass_obj`): which cluster file, and how to read it."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from gpucluster.config import ClusterConfig


@dataclass
class CliContext:
    config_path: Path = field(default_factory=lambda: Path("cluster.yaml"))
    chosen: bool = False
    """Whether the user named that file."""
    debug: bool = False

    def choose(self, path: Path) -> None:
        self.config_path, self.chosen = path, True

    def load(self) -> ClusterConfig:
        """The cluster file; its warnings go to stderr. Raises ConfigError."""
        from gpucluster.config import load

        if not self.chosen and self.config_path.is_absolute():
            click.echo(f"cluster file: {self.config_path}", err=True)
        config = load(self.config_path)
        for warning in config.warnings():
            click.echo(warning.render(), err=True)
        return config
