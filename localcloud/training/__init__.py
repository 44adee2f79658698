"""SageMaker's training jobs, each host of which is a container with /opt/ml on this machine."""
