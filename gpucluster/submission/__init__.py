"""Submits jobs to the head node: their files, their environments, sbatch."""
