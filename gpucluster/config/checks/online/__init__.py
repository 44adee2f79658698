"""Validators that ask AWS. They import neither boto3 nor botocore: what they ask, an `Account` answers."""
