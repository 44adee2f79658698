"""Log lines of the node programs; their units and wrappers send them to /var/log/gpucluster/power.log."""

from __future__ import annotations

import logging
import sys
from typing import Any


def one_line(text: str) -> str:
    """As Python shows it: users name files, and a name may have line breaks, a terminal's codes, or bytes that are no
    text."""
    return "".join(each if each.isprintable() else each.encode("unicode_escape").decode() for each in text)


class _Lines(logging.Formatter):
    """An error's further lines are indented, so that none looks like a message."""

    def formatMessage(self, record: logging.LogRecord) -> str:  # noqa: N802 # logging's own name
        record.message = one_line(record.message)
        return super().formatMessage(record)

    def formatException(self, ei: Any) -> str:  # noqa: N802 # logging's own name
        return "\n".join(f"  {one_line(line)}" for line in super().formatException(ei).splitlines())


def start_logging() -> None:
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(_Lines("%(asctime)s %(name)s %(levelname)s %(message)s", datefmt="%Y-%m-%dT%H:%M:%S%z"))
    logging.basicConfig(handlers=[handler], level=logging.INFO)
    logging.getLogger("botocore").setLevel(logging.WARNING)
