"""Validators that call AWS. They import neither boto3 nor botocore: they call an `Account`."""
