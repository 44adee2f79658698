"""What the deletion of a cluster takes along and what it leaves."""
