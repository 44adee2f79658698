"""The head node: its data volume, its host key, its changes, and its end."""
