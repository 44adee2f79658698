"""Verbs that reach the head node and compute nodes: shells, files, ports."""
