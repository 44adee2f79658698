"""Parts that several verbs share: the cluster file, the connection, options and output."""
