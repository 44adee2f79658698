"""Uploads local folders to the cluster with rsync over the tunnel."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

from gpucluster.head import copying, openssh
from gpucluster.head.login import LoginRemote
from gpucluster.head.openssh import Alias
from gpucluster.head.remote import Remote
from gpucluster.submission import inputs


def upload(
    remote: Remote, found: Sequence[inputs.Input], cluster: str, config_file: Path, tell: Callable[[str], None]
) -> None:
    """`cluster`: its name. Raises GpuClusterError."""

    def copy(folder: Path, target: str) -> None:
        copying.require("ssh")
        copying.require("rsync")
        options = [*inputs.RSYNC_OPTIONS, *[copying.PROGRESS] * sys.stderr.isatty()]
        places = copying.Copy([copying.Place(None, f"{folder.absolute()}/")], copying.Place(copying.HEAD, f"{target}/"))
        with reached(remote, cluster, config_file) as alias:
            copying.run_on(copying.rsync_argv(alias, places, options), copying.HEAD, tell)

    for each in found:
        inputs.upload(remote, each, copy, tell)


def reached(remote: Remote, cluster: str, config_file: Path) -> contextlib.AbstractContextManager[Alias]:
    """How rsync reaches that cluster."""
    if isinstance(remote, LoginRemote):
        return contextlib.nullcontext(remote.alias)
    return openssh.temporary(cluster, config_file)
