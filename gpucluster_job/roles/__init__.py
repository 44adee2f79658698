"""Jobs whose processes have different roles: a Slurm step for each role, started and ended together."""
