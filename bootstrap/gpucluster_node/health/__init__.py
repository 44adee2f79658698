"""Checks this node's hardware before and after each job. A node that fails is drained with the fault as its reason."""
