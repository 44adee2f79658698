"""Verbs for jobs on SageMaker: what they print. `gpucluster.cli.frame.target` decides that a job is there."""
