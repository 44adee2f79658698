"""A host of a SageMaker training job: `sagemaker OPTION... -- COMMAND...` is the entry point of its container, on each
host. It reads /opt/ml, waits for the other hosts, starts this host's ranks, and writes what SageMaker reads at the end.
"""
