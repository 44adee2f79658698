"""Checks of EC2's requests. EC2's model has few constraints, so most of its rules are written here.

Codes are those of https://docs.aws.amazon.com/AWSEC2/latest/APIReference/errors-overview.html.
"""
