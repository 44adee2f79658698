"""Options of verbs that can build in a local cloud, beside --local."""

from __future__ import annotations

from pathlib import Path

import click

from gpucluster.cluster import local_cloud

port = click.option(
    "--port",
    type=int,
    metavar="N",
    help=f"With --local: the local cloud's port.  [default: {local_cloud.DEFAULT_PORT}]",
)
image = click.option(
    "--image",
    type=click.Path(path_type=Path),
    metavar="FOLDER",
    help="With --local: root file system that the nodes boot.  [default: that of `python -m localcloud image build`]",
)
