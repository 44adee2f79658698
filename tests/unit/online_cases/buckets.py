from __future__ import annotations

from validator_cases.case import cluster, storage

from online_cases.case import Answers, Online

LINKED = storage("fsx-lustre", data_repositories=[{"path": "/a", "s3": "s3://bucket/a", "import": ["new"]}])
ACCESSED = cluster(s3_access=[{"uri": "s3://bucket/a"}])


def bucket(region: str) -> Answers:
    return {"s3 head_bucket": {"BucketRegion": region}}


def tags(*keys: str) -> Answers:
    found = [{"TagKey": key, "Type": "UserDefined", "Status": "Active"} for key in keys]
    return {"ce list_cost_allocation_tags": {"CostAllocationTags": found}}


CASES: dict[str, Online | list[Online]] = {
    "fsx-link-bucket-exists": Online(
        LINKED,
        key="storage[0].data_repositories[0].s3",
        says="there is no bucket bucket",
        fails={"s3 head_bucket": "404"},
        passes=bucket("us-east-1"),
    ),
    "fsx-link-bucket-region": Online(
        LINKED,
        key="storage[0].data_repositories[0].s3",
        says="bucket is in eu-west-1, and a file system in us-east-1 imports from its own region alone",
        fails=bucket("eu-west-1"),
        passes=bucket("us-east-1"),
    ),
    "s3-access-bucket-exists": Online(
        ACCESSED,
        key="s3_access[0].uri",
        says="there is no bucket bucket",
        fails={"s3 head_bucket": "404"},
        passes=bucket("us-east-1"),
    ),
    "s3-access-bucket-region": Online(
        ACCESSED,
        key="s3_access[0].uri",
        says="bucket is in eu-west-1, the cluster in us-east-1",
        fails=bucket("eu-west-1"),
        passes=bucket("us-east-1"),
    ),
    "budget-tag-active": Online(
        cluster(budget={"monthly_usd": 5000, "email": "a@example.org"}),
        key="budget",
        says="counts nothing yet: gpucluster:cluster is no active cost allocation tag",
        fails=tags(),
        passes=tags("gpucluster:cluster"),
    ),
}
