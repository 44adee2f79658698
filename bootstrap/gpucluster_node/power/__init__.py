"""Slurm's power saving: launches and terminates the instances of nodes, and keeps Slurm consistent with EC2."""
