"""The head's role may make and delete the file systems that live with jobs, and no others."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from moto.fsx.models import fsx_backends
from role_policies import Grant, grants, of_nodes, without

from gpucluster.config import loads
from gpucluster.config.storage.fsx import requests as lustre_requests
from localcloud import clients
from localcloud.filesystems.authorization import checks
from localcloud.identity import permissions
from localcloud.protocol.calls import Call

TEXT = """\
name: Mine
region: us-east-1
partitions: [{name: train, instance_types: [g5.xlarge], max_nodes: 2}]
storage:
  - {mount: /burst, type: fsx-lustre, lifetime: jobs, deployment: scratch-2, capacity_gib: 1200,
     data_repositories: [{path: /in, s3: "s3://my-bucket/in/", import: [new]}, {path: /out, s3: "s3://my-bucket/out"},
                         {path: /whole, s3: "s3://other-bucket"}]}
"""
Statements = list[dict[str, Any]]
Template = dict[str, Any]


@pytest.fixture(scope="module")
def made(template_of: Callable[[str], Template]) -> Template:
    return template_of(TEXT)


def calls(**tags: str) -> Iterator[Call]:
    """What the head's program asks FSx for, of a file system with other tags if any are given."""
    (storage,) = loads(TEXT).lustre_with_jobs
    asked = lustre_requests.parameter(storage, "Mine", lustre_requests.Resources("subnet-1", "sg-1", "arn:log", None))
    mine = {tag["Key"]: tag["Value"] for tag in asked["request"]["Tags"]} | tags
    theirs = {"Tags": [{"Key": key, "Value": value} for key, value in mine.items()]}
    arn = f"arn:aws:fsx:us-east-1:{clients.ACCOUNT_ID}:file-system/fs-1"
    fsx_backends[clients.ACCOUNT_ID]["us-east-1"].tagger.tag_resource(arn, theirs["Tags"])
    known = {"FileSystemId": "fs-1"}
    yield _call("DescribeFileSystems", {})
    yield _call("DescribeDataRepositoryAssociations", {})
    yield _call("CreateFileSystem", asked["request"] | theirs)
    for link in asked["links"]:
        yield _call("CreateDataRepositoryAssociation", known | link | theirs)
    yield _call("DeleteFileSystem", known)


def _call(action: str, request: dict[str, Any]) -> Call:
    return Call("fsx", "us-east-1", action, "", body=json.dumps(request).encode())


def denied(statements: Statements, asked: Iterator[Call]) -> set[str]:
    policies = [{"Statement": statements}]
    return {
        call.action
        for call in asked
        for check in checks(call)
        if permissions.evaluate(policies, check.action, check.resource, check.keys) != permissions.ALLOWED
    }


def ours(template: Template) -> Iterator[Grant]:
    """The head's permissions that only file systems for jobs need."""
    for grant in grants(template):
        of_links = grant.action.startswith(("fsx:", "iam:")) or "-bucket" in grant.resources
        if grant.role == "HeadRole" and grant.action != "iam:PassRole" and of_links:
            yield grant


def test_the_heads_role_allows_its_programs_calls(made: Template) -> None:
    assert denied(of_nodes(made)["HeadRole"], calls()) == set()


def test_it_reaches_the_linked_prefixes_and_no_other_objects(made: Template) -> None:
    """FSx for Lustre user guide, "Unable to validate access to an S3 bucket when creating a DRA": s3:Get*, s3:List* and
    s3:PutObject."""
    found = {(grant.action, each) for grant in ours(made) for each in grant.resources.split(", ")}
    linked, buckets = ("my-bucket/in/*", "my-bucket/out/*", "other-bucket/*"), ("my-bucket", "other-bucket")
    assert {(action, each) for action, each in found if action.startswith("s3:")} == {
        *((f"s3:{action}", f"arn:aws:s3:::{each}") for action in ("Get*", "PutObject") for each in linked),
        *((f"s3:{action}", f"arn:aws:s3:::{each}") for action in ("Get*", "List*") for each in buckets),
    }


def test_no_action_could_be_taken_from_it(made: Template) -> None:
    statements, found = of_nodes(made)["HeadRole"], list(ours(made))
    assert {grant.action for grant in found} >= {
        "fsx:CreateFileSystem",
        "iam:PutRolePolicy",
        "s3:List*",
        "s3:PutObject",
    }
    needless = [
        f"{grant.action} {grant.resources}" for grant in found if not denied(without(statements, grant), calls())
    ]
    # FSx's own role, in an account that never used FSx: the local cloud's has it
    assert len(needless) == 1 and "aws-service-role/fsx.amazonaws.com/" in needless[0]


@pytest.mark.parametrize("tags", [{"gpucluster:cluster": "Other"}, {"Name": "Mine-fsx"}, {"more": "x"}])
def test_other_file_systems_are_not_allowed(made: Template, tags: dict[str, str]) -> None:
    refused = denied(of_nodes(made)["HeadRole"], calls(**tags))
    made_so = {"CreateFileSystem", "CreateDataRepositoryAssociation"}
    assert refused == (made_so if "more" in tags else made_so | {"DeleteFileSystem"})


def test_a_cluster_without_one_asks_fsx_for_nothing(template: Template) -> None:
    assert not [grant for grant in grants(template) if grant.action.startswith("fsx:")]
