"""How long the parts of a stopped job may take: SageMaker kills the container 120 s after SIGTERM.

https://docs.aws.amazon.com/sagemaker/latest/APIReference/API_StopTrainingJob.html
"""

STOP_S = 120
PROGRAM_S = 100
"""A rank's program, from SIGTERM to SIGKILL."""
RANKS_S = PROGRAM_S + 2.0
"""All ranks of a host, before their launcher is ended, which has LAUNCHER_GRACE_S (gpucluster_job/runner.py)."""
COMPARE_S = 8.0
"""The comparison of the checkpoints with S3, in a job that is stopped."""
