"""A local cloud, and programs that call it, on virtual time."""
