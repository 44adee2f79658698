"""EC2's notices to a node that it will be terminated."""
