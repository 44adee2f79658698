"""The head node: its data volume, host key, updates, and shutdown."""
