"""Whether this node's hardware can run a job: seconds of checks before each job, and a drain that says why."""
