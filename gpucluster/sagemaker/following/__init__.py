"""Training jobs after they have been submitted: what they do, print and cost, and how they ended."""
