"""Whether Slurm's accounting answers: slurmdbd, and the database behind it."""

from __future__ import annotations

from gpucluster.config import ClusterConfig
from gpucluster.head.remote import Remote

ARGV = ["timeout", "15", "sacctmgr", "-n", "-P", "list", "cluster", "format=cluster"]
"""Slurm 23.11 has no `sacctmgr ping`."""


def words(remote: Remote, config: ClusterConfig) -> str:
    """Empty if it answers, or if the cluster has none."""
    if config.accounting == "off" or remote.run(ARGV).exit_code == 0:
        return ""
    return (
        "WARNING: Slurm's accounting (slurmdbd) does not answer: jobs start and run, and slurmctld keeps their records "
        "meanwhile; `gpucluster ssh -- sudo journalctl -u slurmdbd -u mariadb` shows why"
    )
