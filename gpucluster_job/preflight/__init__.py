"""What is looked at before the user's command starts, and what NCCL says of its network while it runs.

Only what is proven to be wrong ends the job; what could not be looked at is said, and the job goes on.
"""
