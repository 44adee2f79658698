"""Log lines of the node programs; their units and wrappers send them to /var/log/gpucluster/power.log."""

from __future__ import annotations

import logging
import sys


def start_logging() -> None:
    logging.basicConfig(
        stream=sys.stderr,
        level=logging.INFO,
        format="%(asctime)s %(name)s %(levelname)s %(message)s",
        datefmt="%Y-%m-%dT%H:%M:%S%z",
    )
    logging.getLogger("botocore").setLevel(logging.WARNING)
