"""For tests of an app against the local cloud: README.md beside this file lists the modules."""
