"""What CreateTrainingJob refuses beside violations of its model, in AWS's words. The caller holds the cloud's lock."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from typing import Any

from moto.ecr.models import ecr_backends
from moto.iam.models import Role
from moto.s3.models import s3_backends

from localcloud.clients import ACCOUNT_ID
from localcloud.filesystems import servers
from localcloud.identity import authorization, permissions, roles
from localcloud.training import data, quotas
from localcloud.training.jobs import Job
from localcloud.training.site import Site
from localcloud.validation.refusal import Refusal

PRINCIPAL = "sagemaker.amazonaws.com"
_IMAGE = re.compile(r"(\d{12})\.dkr\.ecr\.([a-z0-9-]+)\.amazonaws\.com(?:\.cn)?/([a-z0-9._/-]+)(?:[:@].+)?")
_PULL = "ecr:BatchCheckLayerAvailability, ecr:BatchGetImage, ecr:GetDownloadUrlForLayer"


def check(site: Site, jobs: Iterable[Job], job: Job) -> None:
    """Raises a Refusal, or NotImplementedError for what the local cloud does not have."""
    _shape(job)
    _name(jobs, job)
    role = _role(str(job.request["RoleArn"]))
    _image(job)
    _inputs(job, role)
    if words := quotas.refusal(site.runtime.faults, jobs, job):
        raise Refusal("ResourceLimitExceeded", words)


def _shape(job: Job) -> None:
    request, machines = job.request, job.request["ResourceConfig"]
    for what in ("InstanceGroups", "TrainingPlanArn", "InstancePreferences"):
        if machines.get(what):
            raise NotImplementedError(f"CreateTrainingJob with ResourceConfig.{what}")
    if request["AlgorithmSpecification"].get("AlgorithmName"):
        raise NotImplementedError("CreateTrainingJob with AlgorithmSpecification.AlgorithmName")
    if not machines.get("InstanceType"):
        raise _invalid("You must specify InstanceType in ResourceConfig.")  # assumed
    _times(request)
    for channel in data.channels(request):
        if channel.source.get("S3DataType") == "AugmentedManifestFile":
            raise NotImplementedError(f"channel {channel.name} with S3DataType AugmentedManifestFile")
        if not channel.source and not channel.system:
            raise _invalid(f"You must specify a data source for channel {channel.name}.")  # assumed
        if channel.system:
            _file_system(request, channel)
        if channel.mode == "FastFile" and channel.source.get("S3DataType") != "S3Prefix":
            raise _invalid(f"FastFile mode supports only S3DataType S3Prefix, in channel {channel.name}.")  # assumed
    names = [channel.name for channel in data.channels(request)]
    if len(set(names)) < len(names):
        raise _invalid("Channel names must be unique.")  # assumed


def _file_system(request: dict[str, Any], channel: data.Channel) -> None:
    """botocore's documentation of FileSystemDataSource and InputMode; the words are assumed."""
    system_id = channel.system["FileSystemId"]
    if channel.mode != "File":
        raise _invalid(f"A file system as data source supports only File mode, in channel {channel.name}.")
    if not request.get("VpcConfig"):
        raise _invalid("VpcConfig is required to use a file system as data source.")
    if not servers.exists(system_id):
        raise _invalid(f"File system {system_id} of channel {channel.name} does not exist, or has no mount target.")


def _times(request: dict[str, Any]) -> None:
    """The prefix and the first refusal: Kenza-AI/sagify#111. The second's words after the prefix are assumed."""
    limits = request.get("StoppingCondition") or {}
    wait, run = limits.get("MaxWaitTimeInSeconds"), int(limits.get("MaxRuntimeInSeconds") or 86400)
    if not request.get("EnableManagedSpotTraining"):
        if wait is not None:
            raise _invalid(
                "Invalid MaxWaitTimeInSeconds. It is only supported when EnableManagedSpotTraining is set to true"
            )
    elif wait is None or int(wait) < run:
        raise _invalid(
            "Invalid MaxWaitTimeInSeconds. It must be present and be greater than or equal to MaxRuntimeInSeconds"
        )


def _name(jobs: Iterable[Job], job: Job) -> None:
    """amazon-sagemaker-examples#3108."""
    if any((each.name, each.region) == (job.name, job.region) for each in jobs):
        raise Refusal(
            "ResourceInUse",
            "Training job names must be unique within an AWS account and region, and a training job with this name "
            f"already exists ({job.arn})",
        )


def _role(arn: str) -> Role:
    """predictive-maintenance-using-machine-learning#3."""
    role: Role | None = next((each for each in list(roles.iam().roles.values()) if each.arn == arn), None)
    if role is None or PRINCIPAL not in trusted(str(role.assume_role_policy_document)):
        raise _invalid(
            f"Could not assume role {arn}. Please ensure that the role exists and allows principal "
            f"'{PRINCIPAL}' to assume the role."
        )
    return role


def trusted(document: str) -> set[str]:
    """The services that a trust policy allows."""
    found: set[str] = set()
    statements = json.loads(document or "{}").get("Statement") or []
    for statement in statements if isinstance(statements, list) else [statements]:
        principal = statement.get("Principal")
        services = principal.get("Service") if isinstance(principal, dict) else principal
        if statement.get("Effect") == "Allow":
            found |= {services} if isinstance(services, str) else set(services or ())
    return found


def _image(job: Job) -> None:
    """sagemaker-python-sdk#2063, amazon-sagemaker-examples#1476. Other accounts' repositories are not known here."""
    image = str(job.request["AlgorithmSpecification"].get("TrainingImage") or "")
    named = _IMAGE.fullmatch(image)
    if named is None:
        raise _invalid(
            "Invalid training image. Please provide a valid Amazon Elastic Container Registry path of the Docker image "
            "to run."
        )
    account, region, repository = named.groups()
    if account == ACCOUNT_ID and repository not in ecr_backends[ACCOUNT_ID][region].repositories:
        raise _invalid(
            f"Cannot find the requested image: {image}. Please check if your ECR repository and image exist and role "
            f"{job.request['RoleArn']} has proper pull permissions for SageMaker: {_PULL}"
        )


def _inputs(job: Job, role: Role) -> None:
    """amazon-sagemaker-examples#2267."""
    for channel in data.channels(job.request):
        if channel.system:
            continue
        bucket, prefix = data.split(channel.uri)
        held = s3_backends[ACCOUNT_ID]["aws"].buckets.get(bucket)
        keys = held.keys if held is not None and held.region_name == job.region else ()
        if not (any(key.startswith(prefix) for key in keys) and _may_list(role, bucket)):
            raise _invalid(
                f'No S3 objects found under S3 URL "{channel.uri}" given in input data source. Please ensure that the '
                f"bucket exists in the selected region ({job.region}), that objects exist under that S3 prefix, and "
                f'that the role "{role.arn}" has "s3:ListBucket" permissions on bucket "{bucket}".'
            )


def _may_list(role: Role, bucket: str) -> bool:
    policies, boundary = authorization.policies_of(role.name)
    asked = "s3:ListBucket", f"arn:aws:s3:::{bucket}"
    allowed = permissions.evaluate(policies, *asked, {"aws:ResourceAccount": (ACCOUNT_ID,)})
    if allowed == permissions.ALLOWED and boundary is not None:
        allowed = permissions.evaluate([boundary], *asked, {"aws:ResourceAccount": (ACCOUNT_ID,)})
    return allowed == permissions.ALLOWED


def _invalid(message: str) -> Refusal:
    return Refusal("ValidationException", message)
