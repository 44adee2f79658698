"""The runs of a task: their common state, their records, and the next run after the time limit.

The folders are described in gpucluster/job/task.py.
"""
