"""The command of a job: the programs that it starts, and mistakes that show before it runs."""
