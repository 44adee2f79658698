"""Plans, deploys, changes and deletes the cluster on AWS."""
