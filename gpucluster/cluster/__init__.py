"""The cluster on AWS: planned, deployed, changed and deleted."""
