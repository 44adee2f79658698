"""What the cluster tells CloudWatch."""
