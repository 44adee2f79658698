"""Commands on the head node over SSH, and their output."""
