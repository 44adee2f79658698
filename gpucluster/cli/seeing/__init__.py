"""The verbs that show the cluster and its jobs as pictures."""
