"""EC2's requests: its model has few constraints, so most of what it refuses of every call is written here.

Codes are those of https://docs.aws.amazon.com/AWSEC2/latest/APIReference/errors-overview.html.
"""
