"""The head node's file systems, and how full they are."""

from __future__ import annotations

from typing import Any

from gpucluster.ui.reading import Reader


def context(reader: Reader) -> dict[str, Any]:
    return {"answer": reader.storage()}
