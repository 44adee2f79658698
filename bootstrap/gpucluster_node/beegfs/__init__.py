"""BeeGFS in the memory of nodes, a cluster's or a job's."""
