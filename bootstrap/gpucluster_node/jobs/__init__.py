"""What jobs have on every node: credentials and Python environments."""
