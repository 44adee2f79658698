"""Checks every call before moto sees it, and refuses it with AWS's error.

`check`         all checks of a call, in order
`constraints`   a request against its service's model in botocore
`rules`         rules that no model contains, by service and action

EC2's checks are in `localcloud.ec2.validation`.
"""
