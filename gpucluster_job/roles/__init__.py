"""Jobs whose processes have different roles: one Slurm step for each role, started and ended together."""
