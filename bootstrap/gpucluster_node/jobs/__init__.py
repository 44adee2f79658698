"""Credentials and Python environments for jobs on every node."""
