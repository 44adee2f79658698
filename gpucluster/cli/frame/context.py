"""The object that click passes to every verb (`@click.pass_obj`). It finds and reads the cluster file or context."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

import click

from gpucluster.errors import UsageError

if TYPE_CHECKING:
    from gpucluster.config import ClusterConfig
    from gpucluster.contexts.store import Context
    from gpucluster.layout import Layout


class CliContext:
    def __init__(self) -> None:
        self.config_path = Path("cluster.yaml")
        self.chosen = False
        """Whether the user named that file with -c."""
        self.context_name = ""
        """The value of --context."""
        self.debug = False
        self._context: Context | None = None

    def choose(self, path: Path) -> None:
        self.config_path, self.chosen = path, True

    def load(self) -> ClusterConfig:
        """Reads the cluster file and prints its warnings to stderr. Raises ConfigError, or UsageError if a context is
        chosen."""
        if chosen := self.chosen_context():
            raise UsageError(
                f"the context {chosen.name} is a cluster that GpuCluster did not build: this verb needs a cluster file",
                "choose one with -c cluster.yaml; docs/existing-slurm.md lists the verbs that work with a context",
            )
        from gpucluster.config import load

        if not self.chosen and self.config_path.is_absolute():
            click.echo(f"cluster file: {self.config_path}", err=True)
        config = load(self.config_path)
        for warning in config.warnings():
            click.echo(warning.render(), err=True)
        return config

    def layout(self) -> Layout:
        """The layout of the context's cluster, or else of the cluster file. Raises ConfigError, UsageError."""
        if chosen := self.chosen_context():
            from gpucluster.contexts import layout

            return layout.of(chosen)
        from gpucluster.layout import expand

        return expand(self.load())

    def chosen_context(self) -> Context | None:
        """The context of --context; none with -c; else that of GPUCLUSTER_CONTEXT; else the one that `context use`
        chose. Raises UsageError."""
        if self._context is None and (name := self._named()):
            from gpucluster.contexts import store

            self._context = store.read().get(name)
        return self._context

    def _named(self) -> str:
        if self.context_name or self.chosen:
            return self.context_name
        if name := os.environ.get("GPUCLUSTER_CONTEXT"):
            return name
        from gpucluster.contexts import file

        name = file.current()
        if name:
            click.echo(f"context: {name}", err=True)
        return name
