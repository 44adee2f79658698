"""BeeGFS in the memory of nodes, for a cluster or for a job."""
