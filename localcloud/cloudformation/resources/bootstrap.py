"""Resources that `cdk bootstrap` creates, except roles: S3 buckets and policies, ECR repositories, SSM parameters."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any

from localcloud.cloudformation.resources.registry import (
    Call,
    Handler,
    Made,
    Properties,
    dropped_tag_keys,
    resource,
    tag_list,
    tag_map,
    without,
)

Fitting = Callable[[Any], dict[str, Any]]


def _public_access(value: Any) -> dict[str, Any]:
    return {"PublicAccessBlockConfiguration": value}


def _versioning(value: Any) -> dict[str, Any]:
    return {"VersioningConfiguration": value}


def _encryption(value: Any) -> dict[str, Any]:
    rules = [
        {
            "ApplyServerSideEncryptionByDefault": rule.get("ServerSideEncryptionByDefault"),
            "BucketKeyEnabled": rule.get("BucketKeyEnabled"),
        }
        for rule in value["ServerSideEncryptionConfiguration"]
    ]
    kept = [{key: item for key, item in rule.items() if item is not None} for rule in rules]
    return {"ServerSideEncryptionConfiguration": {"Rules": kept}}


def _ownership(value: Any) -> dict[str, Any]:
    return {"OwnershipControls": value}


def _lifecycle(value: Any) -> dict[str, Any]:
    return {"LifecycleConfiguration": {"Rules": [_lifecycle_rule(rule) for rule in value["Rules"]]}}


def _lifecycle_rule(rule: Mapping[str, Any]) -> dict[str, Any]:
    result: dict[str, Any] = {"Status": rule["Status"], "Filter": {"Prefix": rule.get("Prefix", "")}}
    if "Id" in rule:
        result["ID"] = rule["Id"]
    if "ExpirationInDays" in rule:
        result["Expiration"] = {"Days": rule["ExpirationInDays"]}
    if "NoncurrentVersionExpiration" in rule:
        result["NoncurrentVersionExpiration"] = rule["NoncurrentVersionExpiration"]
    if "NoncurrentVersionExpirationInDays" in rule:
        result["NoncurrentVersionExpiration"] = {"NoncurrentDays": rule["NoncurrentVersionExpirationInDays"]}
    if "AbortIncompleteMultipartUpload" in rule:
        result["AbortIncompleteMultipartUpload"] = rule["AbortIncompleteMultipartUpload"]
    if "Transitions" in rule:
        result["Transitions"] = [
            {"StorageClass": item["StorageClass"], "Days": item.get("TransitionInDays")} for item in rule["Transitions"]
        ]
    return result


def _logging(value: Any) -> dict[str, Any]:
    target = {"TargetBucket": value.get("DestinationBucketName"), "TargetPrefix": value.get("LogFilePrefix", "")}
    return {"BucketLoggingStatus": {"LoggingEnabled": target}}


def _cors(value: Any) -> dict[str, Any]:
    rules = [{("ID" if key == "Id" else key): item for key, item in rule.items()} for rule in value["CorsRules"]]
    return {"CORSConfiguration": {"CORSRules": rules}}


# property: (method that sets it, function that builds its input, method that removes it)
_SETTINGS: dict[str, tuple[str, Fitting, str | None]] = {
    "PublicAccessBlockConfiguration": ("put_public_access_block", _public_access, "delete_public_access_block"),
    "VersioningConfiguration": ("put_bucket_versioning", _versioning, None),
    "BucketEncryption": ("put_bucket_encryption", _encryption, "delete_bucket_encryption"),
    "OwnershipControls": ("put_bucket_ownership_controls", _ownership, "delete_bucket_ownership_controls"),
    "LifecycleConfiguration": ("put_bucket_lifecycle_configuration", _lifecycle, "delete_bucket_lifecycle"),
    "LoggingConfiguration": ("put_bucket_logging", _logging, None),
    "CorsConfiguration": ("put_bucket_cors", _cors, "delete_bucket_cors"),
}


@resource("AWS::S3::Bucket", updatable=" ".join([*_SETTINGS, "Tags"]), delete="s3 delete_bucket Bucket")
class Bucket(Handler):
    def create(self, call: Call, properties: Properties) -> Made:
        name = properties.get("BucketName") or call.name(63, lower=True)
        where = {} if call.region == "us-east-1" else {"LocationConstraint": call.region}
        call.api("s3", "create_bucket", Bucket=name, CreateBucketConfiguration=where or None)
        call.announce(name)
        return self._configure(call, name, {}, properties)

    def update(self, call: Call, physical_id: str, old: Properties, new: Properties) -> Made:
        return self._configure(call, physical_id, old, new)

    def _configure(self, call: Call, name: str, old: Properties, new: Properties) -> Made:
        for key, (put, build, remove) in _SETTINGS.items():
            if new.get(key) is not None and new.get(key) != old.get(key):
                call.api("s3", put, build(new[key]), Bucket=name)
            elif remove and key in old and key not in new:
                call.api("s3", remove, Bucket=name)
        tags = tag_list(call, new)
        if tags:
            call.api("s3", "put_bucket_tagging", Bucket=name, Tagging={"TagSet": tags})
        attributes = {
            "Arn": f"arn:aws:s3:::{name}",
            "DomainName": f"{name}.s3.amazonaws.com",
            "RegionalDomainName": f"{name}.s3.{call.region}.amazonaws.com",
            "DualStackDomainName": f"{name}.s3.dualstack.{call.region}.amazonaws.com",
            "WebsiteURL": f"http://{name}.s3-website-{call.region}.amazonaws.com",
        }
        return Made(name, attributes)


@resource("AWS::S3::BucketPolicy", updatable="PolicyDocument")
class BucketPolicy(Handler):
    def create(self, call: Call, properties: Properties) -> Made:
        call.api("s3", "put_bucket_policy", Bucket=properties["Bucket"], Policy=properties["PolicyDocument"])
        return Made(properties["Bucket"])

    def update(self, call: Call, physical_id: str, old: Properties, new: Properties) -> Made:
        return self.create(call, new)

    def delete(self, call: Call, physical_id: str, properties: Properties) -> None:
        call.api("s3", "delete_bucket_policy", Bucket=properties["Bucket"])


@resource(
    "AWS::ECR::Repository",
    updatable="ImageScanningConfiguration ImageTagMutability LifecyclePolicy RepositoryPolicyText Tags EmptyOnDelete",
)
class EcrRepository(Handler):
    _separately = ("LifecyclePolicy", "RepositoryPolicyText", "RepositoryName", "EmptyOnDelete", "Tags")

    def create(self, call: Call, properties: Properties) -> Made:
        name = properties.get("RepositoryName") or call.name(256, lower=True)
        given = without(properties, *self._separately)
        call.api("ecr", "create_repository", given, repositoryName=name, tags=tag_list(call, properties))
        call.announce(name)
        return self._configure(call, name, properties)

    def update(self, call: Call, physical_id: str, old: Properties, new: Properties) -> Made:
        mutability = new.get("ImageTagMutability", "MUTABLE")
        call.api("ecr", "put_image_tag_mutability", repositoryName=physical_id, imageTagMutability=mutability)
        return self._configure(call, physical_id, new)

    def delete(self, call: Call, physical_id: str, properties: Properties) -> None:
        force = str(properties.get("EmptyOnDelete", "false")).lower() == "true"
        call.api("ecr", "delete_repository", repositoryName=physical_id, force=force)

    def _configure(self, call: Call, name: str, properties: Properties) -> Made:
        policy = properties.get("RepositoryPolicyText")
        if policy:
            call.api("ecr", "set_repository_policy", repositoryName=name, policyText=policy)
        lifecycle = (properties.get("LifecyclePolicy") or {}).get("LifecyclePolicyText")
        if lifecycle:
            call.api("ecr", "put_lifecycle_policy", repositoryName=name, lifecyclePolicyText=lifecycle)
        attributes = {
            "Arn": f"arn:aws:ecr:{call.region}:{call.account_id}:repository/{name}",
            "RepositoryUri": f"{call.account_id}.dkr.ecr.{call.region}.amazonaws.com/{name}",
        }
        return Made(name, attributes)


@resource(
    "AWS::SSM::Parameter",
    updatable="AllowedPattern DataType Description Policies Tags Tier Value",
    moving="Value",
    delete="ssm delete_parameter Name",
)
class SsmParameter(Handler):
    def create(self, call: Call, properties: Properties) -> Made:
        name = properties.get("Name") or f"CFN-{call.name()}"
        tags = [{"Key": key, "Value": value} for key, value in tag_map(call, properties).items()]
        call.api("ssm", "put_parameter", without(properties, "Tags"), Name=name, Tags=tags)
        return self._made(name, properties)

    def update(self, call: Call, physical_id: str, old: Properties, new: Properties) -> Made:
        call.api("ssm", "put_parameter", without(new, "Tags", "Name"), Name=physical_id, Overwrite=True)
        dropped = dropped_tag_keys(call, old, new)
        if dropped:
            call.api(
                "ssm", "remove_tags_from_resource", ResourceType="Parameter", ResourceId=physical_id, TagKeys=dropped
            )
        tags = tag_list(call, new)
        if tags:
            call.api("ssm", "add_tags_to_resource", ResourceType="Parameter", ResourceId=physical_id, Tags=tags)
        return self._made(physical_id, new)

    def _made(self, name: str, properties: Properties) -> Made:
        value = properties["Value"]
        text = value if isinstance(value, str) else json.dumps(value)
        return Made(name, {"Type": properties["Type"], "Value": text})
