"""`make bench`: how quick the command line, a job's script and a synthesis are. README.md says how to read it."""
