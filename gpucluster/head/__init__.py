"""What is said to the head node, by SSH, and what it answers."""
