"""A job's own packages, on top of the cluster's environment."""
