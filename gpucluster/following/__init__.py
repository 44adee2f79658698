"""Submitted jobs: their state, their log, and why they wait or failed."""
