"""Notices of jobs, by the alarms' topic and by webhooks of the jobs' users."""
