"""Programs of the nodes. Standard library and boto3 only, because nothing of the project is installed on nodes.

Data of the cluster is in `fleet.json`; values of the deployment are in SSM.
"""
