"""What each part of the page shows: functions from the source's answers to the values of a template."""
