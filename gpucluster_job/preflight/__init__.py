"""Checks before the user's command starts, and NCCL's report of its network while the command runs.

Only a proven defect ends the job. If a check could not run, the log says so and the job continues.
"""
