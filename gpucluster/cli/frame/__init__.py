"""What verbs are made of: the cluster file, the connection, options and output that several have."""
