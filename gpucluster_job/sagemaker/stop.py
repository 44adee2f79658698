"""Ends the programs of this host's ranks, which have 100 s to write what they keep: `sagemaker-end`."""

from __future__ import annotations

from gpucluster_job.ranks.end import end
from gpucluster_job.sagemaker import place
from gpucluster_job.sagemaker.limits import RANKS_S


def main(words: list[str]) -> int:
    end(place.PACKAGE, RANKS_S)
    return 0
