"""Jobs that Slurm knows: their state, their log, and why they wait or failed."""
