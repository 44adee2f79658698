"""Slurm's power saving: launches and ends the instances of nodes, and keeps Slurm and EC2 in step."""
