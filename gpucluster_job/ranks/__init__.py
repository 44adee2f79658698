"""The process beside each rank's program: tells it who it is, labels its lines, passes signals, says how it failed."""
