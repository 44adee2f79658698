"""Clusters with Slurm that we have not built, which a user reaches with their own ssh."""
