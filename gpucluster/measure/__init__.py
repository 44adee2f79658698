"""`gpucluster bench`: what is run (`settings`, `runs`), what that says (`report`) and what it cannot (`doubts`)."""
