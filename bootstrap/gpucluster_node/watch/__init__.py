"""Metrics and logs that the cluster sends to CloudWatch."""
