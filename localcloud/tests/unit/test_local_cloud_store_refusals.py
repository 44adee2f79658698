"""Requests that S3, Parameter Store, Secrets Manager and KMS refuse: s3.py, s3_objects.py and stores.py in
localcloud/validation."""

from __future__ import annotations

import base64
import hashlib
from typing import Any

import pytest

from localcloud.tests.in_process import InProcess
from localcloud.tests.refusal_cases import Case, allow, arn, bucket, document, hold, key, new


def pending(kms: Any) -> str:
    key_id = key(kms)
    kms.schedule_key_deletion(KeyId=key_id)
    return key_id


def in_order(s3: Any, *numbers: int) -> Any:
    target = {"Bucket": bucket(s3), "Key": "a"}
    upload = target | {"UploadId": s3.create_multipart_upload(**target)["UploadId"]}
    tags = {n: s3.upload_part(**upload, PartNumber=n, Body=b"x")["ETag"] for n in (1, 2)}
    parts = [{"PartNumber": n, "ETag": tags[n]} for n in numbers]
    return s3.complete_multipart_upload(**upload, MultipartUpload={"Parts": parts})


def with_acls(s3: Any) -> str:
    name = new()
    s3.create_bucket(Bucket=name, ObjectOwnership="ObjectWriter")
    s3.put_bucket_ownership_controls(Bucket=name, OwnershipControls={"Rules": [{"ObjectOwnership": "ObjectWriter"}]})
    return name


def lifecycle(s3: Any, *rules: dict[str, Any]) -> Any:
    whole = [{"Status": "Enabled", "Filter": {"Prefix": ""}} | rule for rule in rules]
    return s3.put_bucket_lifecycle_configuration(Bucket=bucket(s3), LifecycleConfiguration={"Rules": whole})


def put(ssm: Any, value: str = "x", name: str = "", **more: Any) -> Any:
    return ssm.put_parameter(**({"Name": name or f"/{new()}", "Value": value, "Type": "String"} | more))


def lowered(ssm: Any) -> Any:
    name = f"/{new()}"
    put(ssm, name=name, Tier="Advanced")
    return put(ssm, name=name, Tier="Standard", Overwrite=True)


def disabled(kms: Any) -> str:
    key_id = key(kms)
    kms.disable_key(KeyId=key_id)
    return key_id


SSM: dict[str, Case] = {
    "4096 characters": (lambda c, _: put(c, "x" * 4096), "", 200),
    "4097 characters": (lambda c, _: put(c, "x" * 4097), "ValidationException", 400),
    "4097 characters, advanced": (lambda c, _: put(c, "x" * 4097, Tier="Advanced"), "", 200),
    "8193 characters, advanced": (lambda c, _: put(c, "x" * 8193, Tier="Advanced"), "ValidationException", 400),
    "16 levels": (lambda c, _: put(c, name="/a" * 16), "HierarchyLevelLimitExceededException", 400),
    "no slash": (lambda c, _: put(c, name="a/b"), "ValidationException", 400),
    "character": (lambda c, _: put(c, name="/a b"), "ValidationException", 400),
    "tier": (lambda c, _: lowered(c), "ValidationException", 400),
    "pattern": (lambda c, _: put(c, "x", AllowedPattern="^y$"), "ParameterPatternMismatchException", 400),
    "key": (lambda c, _: put(c, Type="SecureString", KeyId="alias/nobody"), "InvalidKeyId", 400),
    "path": (lambda c, _: c.get_parameters_by_path(Path="a"), "ValidationException", 400),
}  # fmt: skip


def deleted(secrets: Any) -> str:
    name = new()
    secrets.create_secret(Name=name, SecretString="x")
    secrets.delete_secret(SecretId=name)
    return name


SECRETS: dict[str, Case] = {
    "name": (lambda c, _: c.create_secret(Name="a b", SecretString="x"), "ValidationException", 400),
    "65537 bytes": (lambda c, _: c.create_secret(Name=new(), SecretString="x" * 65537), "ValidationException", 400),
    "two values": (lambda c, _: c.create_secret(Name=new(), SecretString="x", SecretBinary=b"x"),
                   "InvalidParameterException", 400),
    "deleted": (lambda c, _: c.update_secret(SecretId=deleted(c), SecretString="y"), "InvalidRequestException", 400),
    "window": (lambda c, _: c.delete_secret(SecretId="x", RecoveryWindowInDays=5), "InvalidParameterException", 400),
    "name of one that is being deleted": (lambda c, _: c.create_secret(Name=deleted(c), SecretString="x"),
                                          "InvalidRequestException", 400),
}  # fmt: skip


KMS: dict[str, Case] = {
    "window": (lambda c, _: c.schedule_key_deletion(KeyId=key(c), PendingWindowInDays=6), "ValidationException", 400),
    "alias": (lambda c, _: c.create_alias(AliasName="mine", TargetKeyId=key(c)), "ValidationException", 400),
    "AWS's alias": (lambda c, _: c.create_alias(AliasName="alias/aws/mine", TargetKeyId=key(c)),
                    "NotAuthorizedException", 400),
    "policy": (lambda c, _: c.create_key(Policy="{"), "MalformedPolicyDocumentException", 400),
    "disabled": (lambda c, _: c.encrypt(KeyId=disabled(c), Plaintext=b"x"), "DisabledException", 400),
    "no key": (lambda c, _: c.list_grants(KeyId="00000000-0000-0000-0000-000000000000"), "NotFoundException", 400),
    **{f"{action} of one that is pending deletion": (lambda c, _, a=action: getattr(c, a)(KeyId=pending(c)),
                                                     "KMSInvalidStateException", 400)
       for action in ("schedule_key_deletion", "disable_key", "enable_key", "enable_key_rotation")},
    "not pending": (lambda c, _: c.cancel_key_deletion(KeyId=key(c)), "KMSInvalidStateException", 400),
}  # fmt: skip


def bucket_policy(s3: Any, **more: Any) -> Any:
    name = bucket(s3)
    mine = {"Principal": "*", "Resource": f"arn:aws:s3:::{name}/*"}
    return s3.put_bucket_policy(Bucket=name, Policy=document(allow(**(mine | more))))


def tags(count: int, **more: str) -> dict[str, Any]:
    return {"TagSet": [{"Key": f"k{number}", "Value": "x"} | more for number in range(count)]}


S3: dict[str, Case] = {
    **{f"bucket {name}": (lambda c, _, name=name: c.create_bucket(Bucket=name), "InvalidBucketName", 400)
       for name in ("Capital-letters", "a..b", "192.168.0.1", "xn--mine", "-mine", "mine_too", "a-s3alias")},
    "digest": (lambda c, _: c.put_object(Bucket=bucket(c), Key="a", Body=b"x", ContentMD5=digest(b"y")),
               "BadDigest", 400),
    "no digest": (lambda c, _: c.put_object(Bucket=bucket(c), Key="a", Body=b"x", ContentMD5="eA=="),
                  "InvalidDigest", 400),
    "right digest": (lambda c, _: c.put_object(Bucket=bucket(c), Key="a", Body=b"x", ContentMD5=digest(b"x")),
                     "", 200),
    "storage class": (lambda c, _: c.put_object(Bucket=bucket(c), Key="a", Body=b"x", StorageClass="WARM"),
                      "InvalidStorageClass", 400),
    "long key": (lambda c, _: c.put_object(Bucket=bucket(c), Key="k" * 1025, Body=b"x"), "KeyTooLongError", 400),
    "part": (lambda c, _: c.upload_part(Bucket=bucket(c), Key="a", UploadId="u", PartNumber=10001, Body=b"x"),
             "InvalidArgument", 400),
    "policy": (lambda c, _: bucket_policy(c), "", 200),
    "policy of another bucket": (lambda c, _: bucket_policy(c, Resource="arn:aws:s3:::other/*"),
                                 "MalformedPolicy", 400),
    "policy for nobody": (lambda c, _: bucket_policy(c, Principal={"AWS": arn("role", "nobody")}),
                          "MalformedPolicy", 400),
    "policy of another service": (lambda c, _: bucket_policy(c, Action="ec2:RunInstances"), "MalformedPolicy", 400),
    "long policy": (lambda c, _: bucket_policy(c, Sid="s" * 20480), "PolicyTooLarge", 400),
    "document that breaks the schema": (lambda c, _: c.put_bucket_versioning(
        Bucket=bucket(c), VersioningConfiguration={"Status": "Perhaps"}), "MalformedXML", 400),
    "document of the schema": (lambda c, _: c.put_bucket_versioning(
        Bucket=bucket(c), VersioningConfiguration={"Status": "Enabled"}), "", 200),
    "51 tags": (lambda c, _: c.put_bucket_tagging(Bucket=bucket(c), Tagging=tags(51)), "InvalidTag", 400),
    "tag twice": (lambda c, _: c.put_bucket_tagging(Bucket=bucket(c), Tagging=tags(2, Key="k")), "InvalidTag", 400),
    "AWS's tag": (lambda c, _: c.put_bucket_tagging(Bucket=bucket(c), Tagging=tags(1, Key="aws:k")),
                  "InvalidTag", 400),
    "no upload": (lambda c, _: c.upload_part(Bucket=bucket(c), Key="a", UploadId="u", PartNumber=1, Body=b"x"),
                  "NoSuchUpload", 404),
    "parts' order": (lambda c, _: in_order(c, 2, 1), "InvalidPartOrder", 400),
    "parts in order": (lambda c, _: in_order(c, 1, 2), "EntityTooSmall", 400),
    "2 KB of metadata": (lambda c, _: c.put_object(Bucket=bucket(c), Key="a", Metadata={"a": "x" * 2048}),
                         "MetadataTooLarge", 400),
    "public": (lambda c, _: c.put_object(Bucket=bucket(c), Key="a", ACL="public-read"),
               "AccessControlListNotSupported", 400),
    "for the bucket's owner": (lambda c, _: c.put_object(Bucket=bucket(c), Key="a", ACL="bucket-owner-full-control"),
                               "", 200),
    "ACL": (lambda c, _: c.put_object(Bucket=bucket(c), Key="a", ACL="everybody"), "InvalidArgument", 400),
    "public, where ACLs count": (lambda c, _: c.put_object(Bucket=with_acls(c), Key="a", ACL="public-read"), "", 200),
    "version": (lambda c, _: c.get_object(Bucket=bucket(c), Key="a", VersionId="nope"), "InvalidArgument", 400),
    "checksum": (lambda c, _: c.put_object(Bucket=bucket(c), Key="a", Body=b"x", ChecksumSHA256="eA=="),
                 "BadDigest", 400),
    "a region by name": (lambda c, _: c.create_bucket(
        Bucket=new(), CreateBucketConfiguration={"LocationConstraint": "us-east-1"}), "InvalidLocationConstraint", 400),
    "day 0": (lambda c, _: lifecycle(c, {"Expiration": {"Days": 0}}), "InvalidArgument", 400),
    "transition at day 0": (lambda c, _: lifecycle(
        c, {"Transitions": [{"Days": 0, "StorageClass": "INTELLIGENT_TIERING"}]}), "", 200),
    "rule twice": (lambda c, _: lifecycle(c, *[{"ID": "a", "Expiration": {"Days": 1}}] * 2), "InvalidArgument", 400),
    "token": (lambda c, _: c.list_objects_v2(Bucket=bucket(c), ContinuationToken="bogus"), "InvalidArgument", 400),
}  # fmt: skip


def digest(content: bytes) -> str:
    return base64.b64encode(hashlib.md5(content, usedforsecurity=False).digest()).decode()


TABLES = {"ssm": SSM, "secretsmanager": SECRETS, "kms": KMS, "s3": S3}


@pytest.mark.parametrize(("service", "name"), [(service, name) for service, cases in TABLES.items() for name in cases])
def test_requests_that_the_service_refuses(cloud: InProcess, service: str, name: str) -> None:
    hold(cloud, service, TABLES[service][name])
