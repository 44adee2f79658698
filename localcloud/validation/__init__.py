"""What AWS refuses before it does anything: `refusal` is asked of every call, before moto sees it.

`constraints`   a request against its service's own model, the one that botocore ships: any service
`ec2`           the same for EC2, whose model says little: its ids, filters, tags, ranges
`rules`         what no model says: tables of rules by service and action
"""
