"""Programs of the head node. Standard library and boto3 only: nothing of the project is installed on nodes.

What they know of the cluster is in `fleet.json`; what a deployment decides is in SSM.
"""
