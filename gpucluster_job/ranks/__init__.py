"""The process beside each rank's program: sets its environment, labels its lines, passes signals on, records its
failure."""
