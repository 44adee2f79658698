"""Contexts: Slurm clusters that GpuCluster did not build. It reaches them with the user's own OpenSSH."""
