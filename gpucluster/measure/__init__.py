"""`gpucluster bench`: the runs (`settings`, `runs`), their results (`report`), and conclusions that they do not
support (`doubts`)."""
