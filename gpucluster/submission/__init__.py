"""Jobs on their way to the head node: their files, their environments, sbatch."""
